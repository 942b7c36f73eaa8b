"""Text as prompts are compared: without regard to ASCII's case and to runs of whitespace.

In:  UTF-8 bytes of settled text (`characters`), for which NFKC and case are ASCII's own.
Out: the same in lower case, every run of whitespace as one space.

Bytes are folded in columns, a piece of many prompts in one go.
"""

import numpy as np

_SPACE = 32
_BLANK, _EMPTY = b"\0 \0", b"\0  \0"


def folded_bytes(turns: bytes) -> bytes:
    """Turns of settled text as they are compared; a content of whitespace alone becomes empty.

    `turns`: as `identity` joins them, each content between two zero bytes.
    """
    data = np.frombuffer(turns, np.uint8)
    space = (data - np.uint8(9) < 5) | (data - np.uint8(28) < 5)  # \t to \r; \x1c to the space
    folded = data + ((data - np.uint8(65) < 26).view(np.uint8) << 5)
    folded[np.flatnonzero(space & (data != _SPACE))] = _SPACE
    repeats = space[1:] & space[:-1]
    if repeats.any():
        folded = folded[np.concatenate([[True], ~repeats])]
    text = folded.tobytes()
    marks = folded == 0
    blank = marks[2:] & marks[:-2]
    return text.replace(_BLANK, _EMPTY) if blank.any() else text
