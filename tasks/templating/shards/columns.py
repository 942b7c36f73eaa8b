"""Plain rows of a batch rendered all at once with numpy, from the joints of their structures.

In:  a batch of conversations, and what a replayer has learned of their structures (`Joint`).
Out: the rows that can be joined so, each text as a list of slices of one buffer ("stretches"); the
     other rows are rendered one by one.

    batch ─ where turns stand ─ rows that need no look ─ rows of one shape ─ lists of stretches
                                                         rows of another ─┘

Markers and special tokens are searched for by their first bytes, in all bytes of a batch at once: a
row that holds one of these bytes is left to be rendered by itself, as are rows that are not plain.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc

from tasks.templating.limits import LENGTH_ALLOWANCE
from tasks.templating.replay.contents import Contents
from tasks.templating.replay.delimiters import MARKED, hits
from tasks.templating.replay.piece import Places
from tasks.templating.replay.recipes import Recipe, begins_well, recipe
from tasks.templating.replay.replaying import MOST_STRUCTURES, Replayer
from tasks.templating.replay.turn_spans import Mask, Numbers, TurnSpans, roles_of, turn_spans
from tasks.templating.shards.batch import TEXTS, Batch
from tasks.templating.shards.joined import Joined, copied

WORTH_ROWS = 4
"""Where fewer than one row in so many can be joined, in two batches in a row, the next
`BATCHES_SKIPPED` batches are not tried."""
BATCHES_SKIPPED = 15
EACH = len(TEXTS)
"""Texts of a row; they are processed one column after the other."""
_MIX = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)
"""Multipliers of a hash that makes one number of a row's three, to sort rows by shape."""


class Columns:
    """Joins rows with what one replayer has learned, of whatever shard."""

    def __init__(self, replayer: Replayer) -> None:
        self._replayer = replayer
        self._special = replayer.special
        ends = self._special.ends if self._special else ()
        written = [end for end in ends if end >= " " and end not in '"\\']
        self._searchable = self._special is None or (bool(ends) and len(written) == len(ends))
        """Whether single characters show which contents could hold a special token."""
        tokens = self._special.tokens if self._special else ()
        self._longest = max((len(token.encode()) for token in tokens), default=0)
        self._watched = {end.encode()[0] for end in ends}
        """Bytes that exclude a row that holds one of them."""
        self._literals: dict[bytes, int] = {}
        self._recipes: dict[Numbers, tuple[bool, Sequence[Recipe]]] = {}
        self.compared: set[Numbers] = set()
        """Shapes of which a joined row has been compared with the template's text."""
        self._to_skip = self._in_vain = 0

    def joined(self, batch: Batch) -> Joined | None:
        """The rows that can be joined; None where too few can."""
        if self._to_skip or not self._searchable:
            self._to_skip = max(0, self._to_skip - 1)
            return None
        watched = len(self._watched)
        joined = self._joined(batch)
        if len(self._watched) > watched:  # what has been learned looks for more
            joined = self._joined(batch)
        if np.count_nonzero(joined.mask) * WORTH_ROWS < len(joined.mask):
            self._in_vain += 1
            self._to_skip = BATCHES_SKIPPED if self._in_vain > 1 else 0
            return None
        self._in_vain = 0
        return joined

    def _joined(self, batch: Batch) -> Joined:
        if len(self._recipes) >= MOST_STRUCTURES:
            self._recipes.clear()
            self.compared.clear()
            self._literals.clear()
        watched = bytes(self._watched)
        columns = [batch.rows[name] for name in TEXTS]
        spans = turn_spans(columns, bytes({*watched, *MARKED}))
        left = _left(batch, spans, watched)
        contents = Contents.of(spans, ~np.tile(left, EACH))
        if self._special:
            for message, text in contents.small(self._longest, ~np.tile(left, EACH)):
                if self._special.within(text.strip()):  # else it would hold a watched byte
                    left[spans.text_of[message] % len(left)] = True
        padded = np.zeros(len(left), np.bool_)
        padded[spans.text_of[contents.padded] % len(left)] = True
        shapes: dict[Numbers, tuple[Places, Sequence[Recipe]]] = {}
        for numbers, rows in _alike(spans, np.flatnonzero(~left)):
            if (known := self._recipe(numbers)) is not None:
                bared, recipes = known
                shapes[numbers] = rows[~padded[rows]] if bared else rows, recipes
        return self._listed(contents, shapes)

    def _listed(
        self, contents: Contents, shapes: Mapping[Numbers, tuple[Places, Sequence[Recipe]]]
    ) -> Joined:
        """The rows as lists of stretches, except for long rows and rows with two equal texts, which
        the renderer has to decide on."""
        spans = contents.spans
        count = len(spans.odd) // EACH
        stretches, of_message = contents.stretches([*self._literals])
        literals = 2 * len(of_message) + 1 + np.arange(len(self._literals))
        every = np.concatenate([literals, of_message])
        firsts = spans.firsts[:-1].reshape(EACH, count) + len(literals)
        starts = np.concatenate([np.zeros((1, count), np.int64), firsts]).T
        sizes = np.diff(np.frombuffer(stretches.buffers()[1], np.int32, len(stretches) + 1))
        mask = np.zeros(count, np.bool_)
        lists: list[tuple[int, Places, Places]] = []
        first: dict[Numbers, int] = {}
        for shape, (rows, recipes) in shapes.items():
            both = [every[recipe.numbers + starts[rows][:, recipe.kinds]] for recipe in recipes]
            chosen, rejected = (sizes[numbers].sum(1) for numbers in both)
            good = chosen + rejected <= LENGTH_ALLOWANCE
            same = np.flatnonzero(chosen == rejected)
            candidates = [(side, np.arange(len(same)), both[side][same]) for side in (0, 1)]
            differ = pc.call_function("not_equal", [*copied(stretches, candidates, len(same))])
            good[same] &= differ.to_numpy(zero_copy_only=False)
            mask[rows[good]] = True
            lists += [(side, rows[good], both[side][good]) for side in (0, 1)]
            if good.any() and shape not in self.compared:
                first[shape] = int(rows[good][0])
        return Joined(mask, stretches, lists, first)

    def _recipe(self, numbers: Numbers) -> tuple[bool, Sequence[Recipe]] | None:
        """Of rows of one shape: whether white space at the ends of contents matters, and both
        sides' recipes; None where one of them is not known."""
        if numbers not in self._recipes:
            prompt, *answers = map(roles_of, numbers)
            joints = self._replayer.joints(prompt, *answers)
            if not joints or not all(begins_well(joint, self._replayer.bos) for joint in joints):
                return None
            recipes = [
                recipe(joint, len(prompt), 2 + side, self._literals)
                for side, joint in enumerate(joints)
            ]
            self._recipes[numbers] = any(joint.bared for joint in joints), recipes
            self._watched |= {ord(first) for joint in joints for first in joint.firsts}
        return self._recipes[numbers]


def _left(batch: Batch, spans: TurnSpans, watched: bytes) -> Mask:
    """`[n]`: rows that cannot be joined: not plain, with settings or tools, or a watched byte."""
    count = batch.rows.num_rows
    odd = spans.odd.copy()
    odd[spans.text_of[spans.begins == spans.stops]] = True
    data, rare = spans.data, spans.rare
    named = spans.escapes[data[spans.escapes + 1] == ord("u")]  # may be any character
    places_of = {c: rare[data[rare] == c] for c in MARKED}
    seen = spans.messages_at(np.concatenate([named, rare[np.isin(data[rare], [*watched])]]))
    odd[spans.text_of[seen]] = True
    marked = np.concatenate([*hits(data, places_of), named[:0]])
    odd[np.searchsorted(spans.ends, marked, "right") - 1] = True
    left: Mask = np.logical_or.reduce(odd.reshape(EACH, count))
    left[[*batch.apart]] = True
    for values in batch.settings:
        left |= np.array([value is not None for value in values], np.bool_)
    return left


def _alike(spans: TurnSpans, rows: Places) -> Iterator[tuple[Numbers, Places]]:
    """The rows grouped by shape: the numbers of their texts' roles, and the rows."""
    numbers = spans.numbers.reshape(EACH, -1)[:, rows]
    mixed = (numbers * _MIX).sum(0)
    order = np.argsort(mixed, kind="stable")
    cuts = np.flatnonzero(np.diff(mixed[order])) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(rows)]):
        members = order[start:stop]
        if len(members) and (numbers[:, members] == numbers[:, members[:1]]).all():
            yield tuple(numbers[:, members[0]].tolist()), rows[members]
