"""Nothing but data is loaded from a reward model directory: what else lies in it is refused.

In: a downloaded version, or the directory that training leaves. Allowed are weights in safetensors,
JSON, tokenizer files, text, pictures, and MLflow's own files with the inference module that
registration puts under `code/` (its name holds its hash). Pickles, other code, `auto_map`, adapters
and kernels that a configuration would fetch from elsewhere are refused before anything is loaded.
What a trainer leaves beside its model is never read, and so no reason to refuse it.
Travels inside the registered model: it may import only modules that travel with it.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tasks.training.handover.contract_file import parsed

SUFFIXES = frozenset(
    [
        *(".json", ".jsonl", ".safetensors", ".jinja", ".txt", ".model", ".codes", ".md", ".yaml"),
        *(".html", ".png", ".svg", ".csv", ".parquet"),
    ]
)
SUMS = "SHA256SUMS"
"""Every file that was registered, with its digest."""
NAMES = frozenset(("MLmodel", "registered_model_meta", SUMS, "LICENSE", "NOTICE", ".gitattributes"))
SHIPPED = re.compile(r"code/(?P<module>reward_\w+_(?P<digest>[0-9a-f]{12}))\.py")
"""The modules that registration ships; MLflow imports them, this loader never does."""
COMPILED = re.compile(r"code/__pycache__/reward_\w+_[0-9a-f]{12}\.cpython-\d+\.pyc")
"""What Python leaves beside them once MLflow has imported them."""
BESIDE = re.compile(r"training_args\.bin|trainer_state\.json|(checkpoint-\d+|set_aside|runs)/.+")
"""What a trainer leaves beside a model that is saved to its output folder."""
UNNAMED = "0" * 12
"""Stands for the hash in the modules' sources while it is computed."""
DOWNLOADER = ".cache/huggingface/"
"""Where huggingface_hub notes what it downloaded."""
FETCHING = ("attn_implementation", "experts_implementation")
"""Settings whose value may name a repository of kernels, `owner/name`."""
WEIGHTS_AND_TOKENS = ("tokenizer.json", "vocab.json", "added_tokens.json")


def check_files(directory: Path) -> None:
    """Returns if the directory holds data alone.

    Raises:
        ValueError: a file is of no kind on the list, or a configuration would run or fetch code.
    """
    if (directory / "adapter_config.json").is_file():
        raise ValueError(
            f"{directory} holds an adapter, whose base model is elsewhere; expected whole weights: "
            "load it with peft, then merge_and_unload(), and save_pretrained that and the tokenizer"
        )
    if not (directory / "config.json").is_file():
        inner = directory / "model"
        here = f": it is in {inner}" if (inner / "config.json").is_file() else ""
        raise ValueError(f"{directory} has no config.json; expected a reward model directory{here}")
    names = sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )
    for name in names:
        if not (_is_allowed(name) or BESIDE.fullmatch(name)):
            raise ValueError(
                f"{directory / name} is no file of a reward model; allowed are safetensors, JSON, "
                "tokenizer and text files: a pickle or a module could run code. Remove it if it is "
                "yours, else do not trust the directory"
            )
    if not any(name.endswith(".safetensors") for name in names):
        raise ValueError(f"{directory} has no *.safetensors; other formats of weights are refused")
    _check_shipped(directory, names)
    for path in sorted(directory.glob("*.json")):
        if path.name not in WEIGHTS_AND_TOKENS:
            _check_configuration(path)


def _is_allowed(name: str) -> bool:
    if SHIPPED.fullmatch(name) or COMPILED.fullmatch(name):
        return True
    if name.startswith("code/"):
        return False
    path = Path(name)
    return path.suffix in SUFFIXES or path.name in NAMES or name.startswith(DOWNLOADER)


def _check_shipped(directory: Path, names: list[str]) -> None:
    """The shipped modules' common hash is the one in their names."""
    modules = [match for match in map(SHIPPED.fullmatch, names) if match]
    if not modules:
        return
    digest = modules[0]["digest"]
    sources = [(directory / match.string).read_text("utf-8") for match in modules]
    if (
        any(match["digest"] != digest for match in modules)
        or shipped_digest(sources, digest) != digest
    ):
        raise ValueError(
            f"{directory / 'code'} was changed after registration: the hash in the modules' names "
            "is not theirs; download the version again"
        )


def shipped_digest(sources: list[str], digest: str = UNNAMED) -> str:
    """12 hex characters of the SHA-256 of the modules' sources, in order of name.

    `digest`: the hash by which the sources import each other; it is replaced before hashing.
    """
    whole = "\0".join(sources).replace(digest, UNNAMED)
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def _check_configuration(path: Path) -> None:
    content: Any = parsed(path)
    if not isinstance(content, dict):
        return
    if "auto_map" in content:
        raise ValueError(
            f"{path} has 'auto_map': it would run code of its own; expected an architecture of "
            "transformers"
        )
    for name, value in _settings(content):
        if name.endswith(FETCHING) and "/" in json.dumps(value):
            raise ValueError(
                f"{path}: {name} is {value!r}, code from a repository; expected none, eager or sdpa"
            )


def _settings(content: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every name and value, those of inner configurations too."""
    settings = list(content.items())
    for value in content.values():
        if isinstance(value, dict):
            settings += _settings(value)
    return settings
