"""What other templates mark turns with, in a row's own text: ordinary text, but seldom meant so.

A tokenizer's own special tokens are another matter, see `special_tokens`.
"""

import re

DELIMITERS = (
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "### Instruction:",
    "### Response:",
    "<|im_start|>",
    "<|im_end|>",
    "<|user|>",
    "<|assistant|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<start_of_turn>",
    "<end_of_turn>",
)
_ANY = re.compile("|".join(map(re.escape, DELIMITERS)))
_NEEDED = ("<|", "INST]", "### ", "<<SYS>>", "_of_turn>")
"""Each delimiter holds one of these; a plain search for them is far faster than the expression."""


def delimiters_in(*stored: str | None) -> set[str]:
    """The delimiters that stand in the stored JSON texts of a row."""
    found: set[str] = set()
    for text in stored:
        if text and any(needed in text for needed in _NEEDED):
            found.update(_ANY.findall(text))
    return found
