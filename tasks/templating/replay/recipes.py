"""A `Joint` in numbers, by which the texts of all rows of one shape are joined in columns.

joint     "<|user|>"   c[0]   "<|assistant|>"   c[1]   "<|end|>"
numbers        0         0           1            0        2        the prompt has one message
kinds          0         1           0            2        0
"""

from dataclasses import dataclass

import numpy as np

from tasks.templating.replay.piece import Places
from tasks.templating.tokenizer.bos import begins_badly
from tasks.templating.traced.text import Joint


@dataclass(frozen=True)
class Recipe:
    """What one side's text is joined of, for all rows of one shape."""

    numbers: Places
    """Of literals; of contents by their place among those of the prompt or of the answer."""
    kinds: Places
    """0: a literal; a content 1 of the prompt, 2 of the chosen, 3 of the rejected side."""


def recipe(joint: Joint, asked: int, kind: int, literals: dict[bytes, int]) -> Recipe:
    """A joint as a recipe; the prompt has `asked` messages, `kind` is that of the answer's.

    `literals`: the number of each; new ones are added.
    """
    numbers: list[int] = []
    kinds: list[int] = []
    for part in joint.parts:
        if isinstance(part, bytes):
            numbers.append(literals.setdefault(part, len(literals)))
            kinds.append(0)
        else:
            numbers.append(part if part < asked else part - asked)
            kinds.append(1 if part < asked else kind)
    return Recipe(np.array(numbers, np.int64), np.array(kinds, np.int64))


def begins_well(joint: Joint, bos: str | None) -> bool:
    """Whether a literal alone shows that the text begins with the BOS once, if it has to."""
    if not bos:
        return True
    first = joint.parts[0]
    if not isinstance(first, bytes) or begins_badly(first, bos):
        return False
    after = first.decode().lstrip()[len(bos) :].lstrip()
    return after[: len(bos)] != bos[: len(after)]
