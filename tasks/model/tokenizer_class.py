"""Where transformers takes a tokenizer's class from the model's type, not from its own config.

    tokenizer_config.json  "tokenizer_class": "PreTrainedTokenizerFast"  the tokenizer.json as it is
    config.json            "model_type": "qwen2"                         Qwen2Tokenizer all the same

That class splits texts in its own way, so whoever loads the trained model gets its ids: the rows
that it is trained on have to have them, too.
"""

from pathlib import Path
from typing import Any

from tasks.artifact.durable import read_json

PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Those that read a tokenizer.json as it is."""
CHOOSING_TYPES = frozenset(
    {
        *("qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp"),
        *("siglip2", "hyperclovax_vision_v2"),
    }
)
"""As of transformers 5.24: `MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS` that have a class of their
own."""


def choosing_type(settings: Any, directory: Path) -> str | None:
    """The model's type where it chooses another class than the plain one that the tokenizer's
    config, `settings`, names; else None."""
    if not isinstance(settings, dict) or settings.get("tokenizer_class") not in PLAIN_CLASSES:
        return None
    config = read_json(directory / "config.json")
    kind = config.get("model_type") if isinstance(config, dict) else None
    return kind if isinstance(kind, str) and kind in CHOOSING_TYPES else None
