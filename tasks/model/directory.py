"""The files of a model directory: those of the tokenizer, and the weights.

Their digests are in different keys: a stage that only tokenizes is not rebuilt for other weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifact import file_digest, merkle
from tasks.artifact.durable import read_json
from tasks.errors import ModelError
from tasks.model.tokenizer_class import choosing_type
from tasks.model.weights import OTHER_FORM, check_safetensors, check_whole, json_object, listing

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "bpe.codes",
    "emoji.json",
    "word_shape.json",
    "word_pronunciation.json",
    "chat_template.jinja",
    "chat_template.json",
)
"""Beside `*.model`, the files of SentencePiece: tokenizer.model, spiece.model, spm.model ..."""
WEIGHT_PATTERNS = ("config.json", "*.safetensors", "*.safetensors.index.json")
READ = (*TOKENIZER_FILES, "*.model", *WEIGHT_PATTERNS)


@dataclass(frozen=True)
class BaseModel:
    """A base model on this machine, with its digests for keys."""

    path: Path
    tokenizer_digest: str
    weights_digest: str
    provenance: dict[str, Any]
    """Where it comes from: path, hub repository and commit, or the scratch fields."""

    @property
    def name(self) -> str:
        """What people call it: `owner/name@commit`, or the name of its directory; a model that was
        made here is told by its family."""
        if "hub" in self.provenance:
            return f"{self.provenance['hub']}@{self.provenance['commit']}"
        scratch = self.provenance.get("scratch")
        return f"{scratch['architecture']} from scratch" if scratch else self.path.name


def tokenizer_files(directory: Path) -> list[str]:
    """The names of the files that decide which ids a text gets."""
    pieces = sorted(path.name for path in directory.glob("*.model") if path.is_file())
    return [*(name for name in TOKENIZER_FILES if (directory / name).is_file()), *pieces]


def tokenizer_digest(directory: Path) -> str:
    """Digest of the tokenizer's and the chat template's bytes, and of a type that overrules them.

    Raises:
        ModelError: the directory has no tokenizer, a damaged one, or one that does not match
            special tokens.
    """
    names = tokenizer_files(directory)
    vocabularies = {"tokenizer.json", "vocab.txt", "vocab.json"}
    if not any(name in vocabularies or name.endswith(".model") for name in names):
        raise ModelError(
            f"{directory} holds no tokenizer: expected tokenizer.json (or *.model, vocab.json, "
            f"vocab.txt), found {listing(directory)}; save it there with "
            "tokenizer.save_pretrained"
        )
    for name in {"tokenizer.json", "tokenizer_config.json"}.intersection(names):
        if not _is_object(directory / name):
            raise ModelError(
                f"{directory / name} is no whole JSON object; download it again (with `git lfs "
                "pull`, if it was cloned)"
            )
    settings = read_json(directory / "tokenizer_config.json")
    if isinstance(settings, dict) and settings.get("split_special_tokens"):
        raise ModelError(
            f"{directory / 'tokenizer_config.json'} says split_special_tokens: "
            f"{settings['split_special_tokens']!r}, with which the special tokens that a chat "
            "template writes are read as ordinary text, letter by letter; expected false: take it "
            "out (special tokens in the rows' own text are for templating.special_tokens_in_text)"
        )
    digests = {name: file_digest(directory / name) for name in names}
    chosen = choosing_type(settings, directory)
    return merkle(digests | ({"model_type": chosen} if chosen else {}))


def weights_digest(directory: Path) -> str:
    """Digest of the config and the safetensors files.

    Raises:
        ModelError: there is no config or no safetensors, one of them is damaged, the config refers
            to code, or the family cannot be a reward model.
    """
    fields = config_of(directory)
    if "auto_map" in fields:
        raise ModelError(
            f"{directory / 'config.json'} asks to run code of its own (auto_map); no code is run "
            "out of a model directory: use an architecture that transformers itself has"
        )
    check_single_stack(directory, bool(fields.get("is_encoder_decoder")))
    check_safetensors(directory)
    check_whole(directory)
    others = {*directory.glob(OTHER_FORM)}
    paths = {path for pattern in WEIGHT_PATTERNS for path in directory.glob(pattern)} - others
    return merkle({path.name: file_digest(path) for path in sorted(paths)})


def describe(directory: Path, provenance: dict[str, Any]) -> BaseModel:
    """The base model in `directory`.

    Raises:
        ModelError: there is none, or it cannot be used.
    """
    if not directory.is_dir():
        raise ModelError(f"model.path {directory} is no directory; give the path of a saved model")
    paths = sorted(directory.iterdir())
    for path in paths:
        if any(map(path.match, READ)) and not path.exists():
            raise ModelError(
                f"{path} is a link to {path.readlink()}, which is not there; copy the model with "
                "what its links lead to (cp -rL), or download it again"
            )
    names = {path.name for path in paths}
    if "adapter_config.json" in names and "config.json" not in names:
        raise ModelError(
            f"{directory} holds an adapter alone, and not the model that it belongs to; merge it "
            "first (merge_and_unload, save_pretrained)"
        )
    return BaseModel(
        directory.resolve(), tokenizer_digest(directory), weights_digest(directory), provenance
    )


def config_of(directory: Path) -> dict[str, Any]:
    """The fields of a model's config.

    Raises:
        ModelError: there is none, or it is no JSON object.
    """
    path = directory / "config.json"
    if not path.is_file():
        raise ModelError(f"{directory} holds no config.json, found {listing(directory)}")
    return json_object(path)


def check_single_stack(name: str | Path, is_encoder_decoder: bool) -> None:
    """Raises ModelError for a model (`name`) of an encoder and a decoder: T5, BART and the like."""
    if is_encoder_decoder:
        raise ModelError(
            f"{name} has an encoder and a decoder; a reward is read at the last token of one "
            "sequence: use a decoder (Llama, Qwen, ...) or an encoder (BERT, ModernBERT, ...)"
        )


def _is_object(path: Path) -> bool:
    """Whether a file begins and ends as a JSON object does: one that was cut, or a pointer of git
    lfs, does not. Files of ten million bytes are common, so they are not parsed."""
    with path.open("rb") as file:
        first = file.read(64).lstrip()[:1]
        file.seek(max(0, path.stat().st_size - 64))
        return first + file.read().rstrip()[-1:] == b"{}"
