"""What other templates mark turns with, in a row's own text: ordinary text, but seldom meant so.

A tokenizer's own special tokens are another matter, see `special_tokens`.
"""

from collections.abc import Sequence

import numpy as np

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
_SEEN = ((b"<", 1, b"|"), (b"<", 1, b"<"), (b">", -1, b"n"), (b"#", 3, b" "), (b"]", -1, b"T"))
"""Each delimiter has one of these characters with another so many places on: `<|`, `<<SYS>>`,
`_of_turn>`, `### `, `INST]`. They are found in all texts together."""


def delimiters_in(*stored: bytes) -> set[str]:
    """The delimiters that stand in the stored JSON texts of a row."""
    return {name for name, found in _AS_BYTES.items() if any(found in text for text in stored)}


def rows_to_ask(columns: Sequence[Sequence[bytes]]) -> set[int]:
    """The rows that may hold a delimiter."""
    found: set[int] = set()
    for column in columns:
        text = np.frombuffer(b"\0\0\0".join((b"", *column, b"")), np.uint8)
        places = {byte: np.flatnonzero(text == ord(byte)) for byte in (b"<", b">", b"#", b"]")}
        hits = [places[a][text[places[a] + step] == ord(b)] for a, step, b in _SEEN]
        at = np.concatenate(hits)
        if len(at):
            begins = np.cumsum([3, *(len(item) + 3 for item in column)])
            found.update((np.searchsorted(begins, at, "right") - 1).tolist())
    return found
