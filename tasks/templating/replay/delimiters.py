"""Turn markers of other templates in a row's own text: ordinary text to this tokenizer, but most
often left there by mistake.

The tokenizer's own special tokens are dealt with in `special_tokens`.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tasks.templating.replay.piece import Piece, Places

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
_PAIRS = [(b"<|", 1), (b"<<", 1), (b">n", -1), (b"# ", 3), (b"]T", -1)]
_SEEN = [(text[0], step, text[1]) for text, step in _PAIRS]
"""(first character, distance, second character): each delimiter holds one of these combinations:
`<|`, `<<`, the `n` before `>`, `#` and a space three places on, the `T` before `]`. All texts are
searched for the first characters together, and most of them have none."""
MARKED = bytes(dict.fromkeys(first for first, _, _ in _SEEN))


def delimiters_in(*stored: bytes) -> set[str]:
    """The delimiters that stand in the stored JSON texts of a row."""
    return {name for name, found in _AS_BYTES.items() if any(found in text for text in stored)}


def rows_to_search(piece: Piece) -> set[int]:
    """The rows that may hold a delimiter, for `delimiters_in` to decide."""
    text = np.frombuffer(piece.text, np.uint8)
    places_of = {c: np.flatnonzero(text == c) for c in MARKED if c in piece.text}
    at = np.concatenate([*hits(text, places_of), np.zeros(0, np.int64)])
    return piece.rows_at(at) if len(at) else set()


def hits(text: npt.NDArray[np.uint8], places_of: Mapping[int, Places]) -> list[Places]:
    """Places where a delimiter may stand; `places_of`: the places of each character in `MARKED`."""
    return [
        places_of[first][text.take(places_of[first] + step, mode="clip") == other]
        for first, step, other in _SEEN
        if first in places_of
    ]
