"""Whether a tokenizer's files say all about it, and what they name.

They do where a plain class of transformers loads a `tokenizer.json` of its own, its config holds
known settings alone, and every token that it names is a special one of that file.
"""

from pathlib import Path
from typing import Any

import orjson

from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, tokenizer_file

PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
NAMED = (
    *("bos_token", "eos_token", "unk_token", "sep_token"),
    *("pad_token", "cls_token", "mask_token"),
)
INDIFFERENT = frozenset(
    {
        *("tokenizer_class", "model_max_length", "clean_up_tokenization_spaces", "backend"),
        *("is_local", "local_files_only", "padding_side", "truncation_side", "processor_class"),
    }
)
"""Settings that change neither special tokens nor ids."""
OTHER_FILES = ("added_tokens.json", "special_tokens_map.json", "additional_chat_templates")


def is_plain(directory: Path) -> bool:
    """Whether the files alone say all, so that a copy of them is the tokenizer."""
    file = tokenizer_file(directory)
    return file is not None and plain_files(directory, file) is not None


def plain_files(
    directory: Path, file: TokenizerFile
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Added tokens by content, and the named ones; None where the files do not say all."""
    config = _json(directory / "tokenizer_config.json")
    if config is None or config.get("tokenizer_class") not in PLAIN_CLASSES:
        return None
    if any((directory / name).exists() for name in OTHER_FILES):
        return None
    if config.keys() - {*NAMED, *INDIFFERENT}:
        return None
    added = {str(token["content"]): token for token in file.added}
    named = {name: config[name] for name in NAMED if config.get(name) is not None}
    if not all(isinstance(text, str) and text in added for text in named.values()):
        return None
    if not all(added[text]["special"] for text in named.values()):
        return None
    return added, named


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
