"""A `Joint` as arrays of numbers, by which numpy joins the texts of all rows of one shape.

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
    """The parts of one side's text, for all rows of one shape."""

    numbers: Places
    """Of a literal its number; of a content its index within the prompt or within the answer."""
    kinds: Places
    """0: a literal; 1, 2, 3: a content of the prompt, of the chosen, of the rejected answer."""


def recipe(joint: Joint, prompt_turns: int, kind: int, literals: dict[bytes, int]) -> Recipe:
    """A joint as a recipe.

    `prompt_turns`: how many messages the prompt has. `kind`: that of the answer's contents.
    `literals`: the number of each literal; new ones are added.
    """
    numbers: list[int] = []
    kinds: list[int] = []
    for part in joint.parts:
        if isinstance(part, bytes):
            numbers.append(literals.setdefault(part, len(literals)))
            kinds.append(0)
        else:
            numbers.append(part if part < prompt_turns else part - prompt_turns)
            kinds.append(1 if part < prompt_turns else kind)
    return Recipe(np.array(numbers, np.int64), np.array(kinds, np.int64))


def begins_well(joint: Joint, bos: str | None) -> bool:
    """Whether the first literal shows that the text begins with one BOS, if it needs one."""
    if not bos:
        return True
    first = joint.parts[0]
    if not isinstance(first, bytes) or begins_badly(first, bos):
        return False
    after = first.decode().lstrip()[len(bos) :].lstrip()
    return after[: len(bos)] != bos[: len(after)]
