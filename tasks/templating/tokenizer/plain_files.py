"""Whether a tokenizer can be read from its files without transformers, and what they say.

It can if it has a `tokenizer.json` and one of transformers' plain classes, which the model's type
does not overrule, its config holds only known settings, and every token that the config names is a
special token of the `tokenizer.json`.
"""

from pathlib import Path
from typing import Any

import orjson

from tasks.model.tokenizer_class import PLAIN_CLASSES, choosing_type
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, tokenizer_file

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
    """Whether the files define the tokenizer completely: then a copy of them is the tokenizer."""
    file = tokenizer_file(directory)
    return file is not None and plain_files(directory, file) is not None


def plain_files(
    directory: Path, file: TokenizerFile
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Added tokens by content, and named tokens by name; None where transformers is needed."""
    config = _json(directory / "tokenizer_config.json")
    if config is None or config.get("tokenizer_class") not in PLAIN_CLASSES:
        return None
    if choosing_type(config, directory):
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
        content = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
