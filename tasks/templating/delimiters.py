"""What other templates mark turns with, in a row's own text: ordinary text, but seldom meant so.

A tokenizer's own special tokens are another matter, see `special_tokens`.
"""

import numpy as np

from tasks.templating.piece import Piece

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
_AS_BYTES = {name: name.encode() for name in DELIMITERS}
_SEEN = (("<", 1, "|"), ("<", 1, "<"), (">", -1, "n"), ("#", 3, " "), ("]", -1, "T"))
"""Each delimiter has one of these characters with another so many places on: `<|`, `<<SYS>>`,
`_of_turn>`, `### `, `INST]`. They are found in all texts together, and the first of
them are not there most often."""


def delimiters_in(*stored: bytes) -> set[str]:
    """The delimiters that stand in the stored JSON texts of a row."""
    return {name for name, found in _AS_BYTES.items() if any(found in text for text in stored)}


def rows_to_ask(piece: Piece) -> set[int]:
    """The rows that may hold a delimiter."""
    text = np.frombuffer(piece.text, np.uint8)
    there = {c: np.flatnonzero(text == ord(c)) for c in "<>#]" if c.encode() in piece.text}
    hits = [
        there[first][text.take(there[first] + step, mode="clip") == ord(other)]
        for first, step, other in _SEEN
        if first in there
    ]
    at = np.concatenate(hits)
    return piece.rows_at(at) if len(at) else set()
