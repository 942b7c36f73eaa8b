"""Plain rows of a batch rendered all together: their texts are joined in columns.

In:  a batch of conversations, and what a replayer has learned of their structures (`Joint`).
Out: the rows that can be joined so, each text as a list of stretches; the others go one by one.

    batch ─ where turns stand ─ rows that need no look ─ rows of one shape ─ lists of stretches
                                                         rows of another ─┘

What is looked for in words is looked for in all bytes of a batch at once: a row that holds one of
these bytes is left, and so is whatever else needs a look.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tasks.templating.batch import TEXTS, Batch
from tasks.templating.contents import Contents
from tasks.templating.delimiters import MARKED, hits
from tasks.templating.joined import Joined
from tasks.templating.limits import LENGTH_ALLOWANCE
from tasks.templating.opening import begins_badly
from tasks.templating.piece import place_array
from tasks.templating.replaying import MOST_STRUCTURES, Replayer
from tasks.templating.traced_text import Joint
from tasks.templating.turn_spans import Mask, Places, TurnSpans, roles_of, turn_spans

WORTH_ROWS = 4
"""Where not one row in so many is plain, the next batches are not asked."""
BATCHES_UNASKED = 15
SIDES = len(TEXTS)
_MIX = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)


@dataclass(frozen=True)
class Recipe:
    """What one side's text is joined of, for all rows of one shape."""

    numbers: Places
    """Of literals; of contents by their place among those of the prompt or of the answer."""
    kinds: Places
    """0: a literal; a content 1 of the prompt, 2 of the chosen, 3 of the rejected side."""


class Columns:
    """Joins rows with what one replayer has learned, of whatever shard."""

    def __init__(self, replayer: Replayer) -> None:
        self._replayer = replayer
        self._special = replayer.special
        ends = self._special.ends if self._special else ()
        written = [end for end in ends if end >= " " and end not in '"\\']
        self._asked = self._special is None or (bool(ends) and len(written) == len(ends))
        """Whether single characters tell which words could hold a special token."""
        self._longest = max((len(t.encode()) for t in self._tokens), default=0)
        self._watched = {end.encode()[0] for end in ends}
        """Bytes whose rows are left."""
        self._literals: dict[bytes, int] = {}
        self._recipes: dict[tuple[int, ...], tuple[bool, Sequence[Recipe]]] = {}
        self._unasked = 0

    @property
    def _tokens(self) -> Sequence[str]:
        return self._special.tokens if self._special else ()

    def joined(self, batch: Batch) -> Joined | None:
        """The rows that can be joined; None where too few can."""
        if self._unasked or not self._asked:
            self._unasked = max(0, self._unasked - 1)
            return None
        watched = len(self._watched)
        found = self._joined(batch)
        return found if len(self._watched) == watched else self._joined(batch)

    def _joined(self, batch: Batch) -> Joined | None:
        if len(self._recipes) >= MOST_STRUCTURES:
            self._recipes.clear()
            self._literals.clear()
        watched = bytes(self._watched)
        columns = [batch.rows[name] for name in TEXTS]
        spans = turn_spans(columns, bytes({*watched, *MARKED}))
        left = _left(batch, spans, watched)
        contents = Contents.of(spans, ~np.tile(left, SIDES))
        if self._special:
            for message, text in contents.small(self._longest, ~np.tile(left, SIDES)):
                if self._special.within(text.strip()):  # else it would hold a watched byte
                    left[spans.text_of[message] % len(left)] = True
        if np.count_nonzero(~left) * WORTH_ROWS < len(left):
            self._unasked = BATCHES_UNASKED
            return None
        padded = np.zeros(len(left), np.bool_)
        padded[spans.text_of[contents.padded] % len(left)] = True
        found: list[tuple[Places, Sequence[Recipe]]] = []
        for numbers, rows in _alike(spans, np.flatnonzero(~left)):
            if (known := self._recipe(numbers, watched)) is not None:
                bared, recipes = known
                found.append((rows[~padded[rows]] if bared else rows, recipes))
        return self._listed(contents, found)

    def _listed(
        self, contents: Contents, found: Sequence[tuple[Places, Sequence[Recipe]]]
    ) -> Joined:
        """The rows as lists of stretches, but for those that need a look once they are."""
        spans = contents.spans
        count = len(spans.odd) // SIDES
        stretches, of_message = contents.stretches([*self._literals])
        literals = 2 * len(of_message) + 1 + np.arange(len(self._literals))
        every = np.concatenate([literals, of_message])
        firsts = spans.firsts[:-1].reshape(SIDES, count) + len(literals)
        starts = np.concatenate([np.zeros((1, count), np.int64), firsts]).T
        sizes = np.diff(np.frombuffer(stretches.buffers()[1], np.int32, len(stretches) + 1))
        there = np.zeros(count, np.bool_)
        lists: list[tuple[int, Places, Places]] = []
        for rows, recipes in found:
            both = [every[recipe.numbers + starts[rows][:, recipe.kinds]] for recipe in recipes]
            chosen, rejected = (sizes[numbers].sum(1) for numbers in both)
            good = chosen + rejected <= LENGTH_ALLOWANCE
            for row in np.flatnonzero(chosen == rejected).tolist():
                one, other = (stretches.take(place_array(numbers[row])) for numbers in both)
                good[row] &= "".join(one.to_pylist()) != "".join(other.to_pylist())
            there[rows[good]] = True
            lists += [(side, rows[good], both[side][good]) for side in (0, 1)]
        return Joined(there, stretches, lists)

    def _recipe(
        self, numbers: tuple[int, ...], watched: bytes
    ) -> tuple[bool, Sequence[Recipe]] | None:
        """Whether white space around contents matters, and the recipes of both sides of rows of one
        shape; None where one is not known, or looks for what has not been watched."""
        if numbers not in self._recipes:
            prompt, *answers = map(roles_of, numbers)
            joints = self._replayer.joints(prompt, *answers)
            firsts = {ord(first) for joint in joints for first in joint.firsts}
            if not joints or not all(map(self._begins_well, joints)):
                return None
            recipes = [
                self._made(joint, len(prompt), 2 + side) for side, joint in enumerate(joints)
            ]
            self._recipes[numbers] = any(joint.bared for joint in joints), recipes
            self._watched |= firsts
            if not firsts <= {*watched}:
                return None  # from the next batch on
        return self._recipes[numbers]

    def _made(self, joint: Joint, asked: int, kind: int) -> Recipe:
        """A joint as a recipe; the prompt has `asked` messages, `kind` is that of the answer's."""
        numbers: list[int] = []
        kinds: list[int] = []
        for part in joint.parts:
            if isinstance(part, bytes):
                numbers.append(self._literals.setdefault(part, len(self._literals)))
                kinds.append(0)
            else:
                numbers.append(part if part < asked else part - asked)
                kinds.append(1 if part < asked else kind)
        return Recipe(np.array(numbers), np.array(kinds))

    def _begins_well(self, joint: Joint) -> bool:
        """Whether a literal alone shows that the text begins with the BOS once, if it has to."""
        bos = self._replayer.bos
        if not bos:
            return True
        first, mark = joint.parts[0], bos.encode()
        if not isinstance(first, bytes) or begins_badly(first, bos):
            return False
        after = first[len(mark) :].lstrip()
        return after[: len(mark)] != mark[: len(after)]


def _left(batch: Batch, spans: TurnSpans, watched: bytes) -> Mask:
    """Rows that are no plain conversations, or hold bytes for which they need a look."""
    count = batch.rows.num_rows
    odd = spans.odd.copy()
    odd[spans.text_of[spans.begins == spans.stops]] = True
    data, rare = spans.data, spans.rare
    named = spans.escapes[data[spans.escapes + 1] == ord("u")]  # may be any character
    there = {c: rare[data[rare] == c] for c in MARKED}
    seen = spans.messages_at(np.concatenate([named, rare[np.isin(data[rare], [*watched])]]))
    odd[spans.text_of[seen]] = True
    marked = np.concatenate([*hits(data, there), named[:0]])
    odd[np.searchsorted(spans.ends, marked, "right") - 1] = True
    left: Mask = np.logical_or.reduce(odd.reshape(SIDES, count))
    left[[*batch.apart]] = True
    for values in batch.settings:
        left |= np.array([value is not None for value in values], np.bool_)
    return left


def _alike(spans: TurnSpans, rows: Places) -> Iterator[tuple[tuple[int, ...], Places]]:
    """The rows of each shape: the numbers of its texts' roles, and the rows."""
    numbers = spans.numbers.reshape(SIDES, -1)[:, rows]
    mixed = (numbers * _MIX).sum(0)
    order = np.argsort(mixed, kind="stable")
    cuts = np.flatnonzero(np.diff(mixed[order])) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(rows)]):
        own = order[start:stop]
        if len(own) and (numbers[:, own] == numbers[:, own[:1]]).all():
            yield tuple(numbers[:, own[0]].tolist()), rows[own]
