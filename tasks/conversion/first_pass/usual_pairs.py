"""The fast lane's pairs, made in columns: the same as `identity` and `tables` make one by one.

In:  rows of one source, in pieces that stay in a processor's cache.
Out: their pairs as a batch of the shard, the records by which duplicates are found, the stretches
     of their prompts, notes, and the places of the rows that are not usual.

    rows ─┬─ piece ─ parse, check, dump, digest ─ fold ─ groups, splits, stretches ─┐
          ├─ piece ─ ...                                                            ├─ columns
          └─ piece ─ ...                                                            ┘

Of each piece only digests and stored texts are kept, so that the next piece reuses its memory,
which is still in the cache.
"""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.parts import PartsOf, RareFields
from tasks.conversion.first_pass.stretches import stretches
from tasks.conversion.first_pass.usual import Usual, usual_rows
from tasks.conversion.first_pass.usual_columns import (
    Strings,
    hex_strings,
    named,
    rare_columns,
    set_rare_fields,
)
from tasks.conversion.plan import Plan
from tasks.conversion.preference.characters import SETTLED, levels_of
from tasks.conversion.preference.folding import folded_bytes
from tasks.conversion.preference.identity import DIGEST_BYTES
from tasks.conversion.preference.pair import FORMATS
from tasks.conversion.preference.signals import end_to_end, signals
from tasks.conversion.preference.splits import SPLITS, opening

Array = npt.NDArray[Any]
PIECE_ROWS = 256
_BETWEEN = b"\xff"
"""A byte that occurs in no UTF-8 text; there is never a space beside it either."""
_GROUP = blake2b(b"prompt\0", digest_size=DIGEST_BYTES)


class UsualPairs:
    """What has been made of the usual rows of one batch so far.

    Rows whose pair is in the overrides file go to the slow lane, though they are usual.
    """

    def __init__(self, parts: PartsOf, plan: Plan, eval_fraction: float) -> None:
        self._parts, self._plan, self._eval_fraction = parts, plan, eval_fraction
        self.places: list[int] = []
        """Those of the usual rows."""
        self._texts = Strings(), Strings(), Strings()
        self._digests: tuple[list[bytes], list[bytes], list[bytes]] = [], [], []
        self._longer: list[int] = []
        self._conversational: list[bool] = []
        self._rare: list[RareFields] = []
        self._groups: list[bytes] = []
        self._together: list[bytes] = []
        self._held_out: list[Array] = []
        self._stretches: list[tuple[Array, Array]] = []
        self.others: list[int] = []
        """The places of the rows that are left to the slow lane."""
        self.notes: list[str] = []

    def take(self, raws: Iterable[bytes | memoryview], first: int) -> None:
        """Adds a piece; `first` is the place of its first row in the batch."""
        usual, others = usual_rows(raws, self._parts, first)
        self.others += others
        whole, ends = _texts(usual)
        levels = levels_of(whole, ends)
        left_over = levels > SETTLED
        if decided := self._plan.overrides:
            left_over |= np.array([row[4].hex() in decided for row in usual], bool)
        if left_over.any():
            self.others += [row[0] for row, left in zip(usual, left_over, strict=True) if left]
            usual = [row for row, left in zip(usual, left_over, strict=True) if not left]
            levels = levels[~left_over]
            whole, ends = _texts(usual)
        if usual:
            noted = signals(whole, ends, levels, lambda i: usual[i][1:4])
            self.notes += [note for _, note in noted]
            self._add(usual)

    def _add(self, usual: Sequence[Usual]) -> None:
        places, *columns, longer, turns, conversational, notes, rare = zip(*usual, strict=True)
        self.places += places
        self._longer += longer
        self._conversational += conversational
        self._rare += rare
        self.notes += chain.from_iterable(notes)
        for texts, column in zip(self._texts, columns[:3], strict=True):
            texts.extend(column)
        for digests, column in zip(self._digests, columns[3:], strict=True):
            digests += column
        folded = folded_bytes(_BETWEEN.join(turns))
        prompts = folded.split(_BETWEEN)
        groups = _digests(_GROUP, prompts)
        together = groups
        if self._plan.split_by == "opening":
            together = _digests(_GROUP, map(opening, prompts))
        held_out = _held_out(together, self._plan.seed, self._eval_fraction)
        ends = np.cumsum(np.fromiter(map(len, prompts), np.int64, len(prompts)) + 1) - 1
        starts = np.concatenate([[0], ends[:-1] + 1])
        self._groups += groups
        self._together += together
        self._held_out.append(held_out)
        self._stretches.append(stretches(folded, starts, ends, held_out))

    def batch(self, origins: pa.RecordBatch, source: int) -> tuple[pa.RecordBatch, Array, Array]:
        """Pairs (`tables.SCHEMA`), their records (`tables.KEYS`), and their prompts' stretches.

        `origins` has source, file and row of the usual rows; `source` is the source's number.
        """
        prompts, chosen, rejected = self._texts
        ids, better, worse = self._digests
        ids, groups = b"".join(ids), b"".join(self._groups)
        held_out = np.concatenate(self._held_out)
        count = len(held_out)
        conversational = np.array(self._conversational, np.bool_)
        columns: dict[str, Any] = {
            "pair_id": hex_strings(ids, count),
            "prompt": prompts.array(),
            "chosen": chosen.array(),
            "rejected": rejected.array(),
            "format": named(conversational, FORMATS),
            **rare_columns(self._rare),
            **{name: origins.column(name) for name in ("source", "file", "row")},
            "group": hex_strings(groups, count),
            "split": named(held_out, SPLITS),
        }
        arrays = [
            columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in _FIELDS
        ]
        one, other = _halves(better), _halves(worse)
        records = np.zeros(count, tables.KEYS)
        records["high"], records["low"] = _keys(one, other)
        records["exact"] = np.frombuffer(ids, ">u4")[::4]
        set_rare_fields(records, self._rare)
        records["group"] = np.frombuffer(groups, ">u8")[::2]
        records["together"] = np.frombuffer(b"".join(self._together), ">u8")[::2]
        records["source"] = source
        records["longer"] = np.sign(np.array(self._longer, np.int64))
        records["eval"] = held_out
        records["conversational"] = conversational
        records["better"], records["worse"] = one[:, 0], other[:, 0]
        records["stretches"] = np.concatenate([counts for _, counts in self._stretches])
        hashes = np.concatenate([hashes for hashes, _ in self._stretches])
        return pa.RecordBatch.from_arrays(arrays, schema=tables.SCHEMA), records, hashes


_FIELDS: list[Any] = list(tables.SCHEMA)


def _texts(usual: Sequence[Usual]) -> tuple[bytes, Array]:
    """All that is stored of the rows, end to end."""
    return end_to_end([text for row in usual for text in row[1:4]], each=3)


def _digests(start: Any, texts: Iterable[bytes]) -> list[bytes]:
    """The digests of texts after what `start` has seen: copied, which is cheaper than made anew."""
    digests: list[bytes] = []
    for text in texts:
        state = start.copy()
        state.update(text)
        digests.append(state.digest())
    return digests


def _halves(digests: Iterable[bytes]) -> Array:
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def _keys(better: Array, worse: Array) -> tuple[Array, Array]:
    """`Identity.key` in two halves: the same either way round, but for the lowest bit."""
    one = np.uint64(1)
    later = (better[:, 0] > worse[:, 0]) | (
        (better[:, 0] == worse[:, 0]) & (better[:, 1] > worse[:, 1])
    )
    both = better ^ worse
    return both[:, 0], (both[:, 1] & ~one) | later.astype(np.uint64)


def _held_out(groups: Sequence[bytes], seed: int, eval_fraction: float) -> Array:
    """`identity.split_of` of every group: whether it is held out."""
    before = blake2b(f"{seed}:".encode(), digest_size=8)
    drawn = _digests(before, [group.hex().encode() for group in groups])
    bound = math.ceil(eval_fraction * 2**64)  # of whole numbers, the same ones are below it
    if bound == 2**64:
        return np.ones(len(groups), np.bool_)
    return np.frombuffer(b"".join(drawn), ">u8") < np.uint64(bound)
