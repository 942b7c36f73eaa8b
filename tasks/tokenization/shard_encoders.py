"""Encodes the texts of one shard, with the encoder chosen by its first rows.

In:  record batches of templating's pairs.
Out: the ids of all chosen sides, then of all rejected ones, in flat buffers.

Texts and renderings are encoded separately, since only texts get the tokenizer's special tokens.
Rows with images are not encoded; they are returned separately.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.tokenization.encoder import PROBED_BYTES, PROBED_ROWS, slow_engine
from tasks.tokenization.engines import Engine
from tasks.tokenization.flat import FlatIds, halves_joined, join
from tasks.tokenization.literal import literal_encoder
from tasks.tokenization.params import Choice
from tasks.tokenization.tokenizer_source import TokenizerSource

TEXTS = ["chosen", "rejected"]
COMPUTE: Any = pc  # its functions are made as it is imported
ROWS_AT_ONCE = 256
"""Rows that are encoded in one go: their texts and ids stay in a core's cache (a fifth less time
than with 2048)."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Encoded:
    """One batch of rows and its ids: of all chosen sides, then of all rejected ones."""

    rows: pa.RecordBatch
    ids: FlatIds
    pictured: pa.RecordBatch
    """Rows with images, which are not in `rows`."""


@dataclass
class ShardEncoders:
    """Encodes the batches of one shard; for each kind of row, the first ones choose the encoder."""

    source: TokenizerSource
    choice: Choice
    used: dict[str, str] = field(default_factory=dict[str, str])
    """`{encoder: why no faster one}`."""
    engines: dict[str, Engine] = field(default_factory=dict[str, Engine])

    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """The batch and its ids, with rows with images apart."""
        if "images" not in rows.schema.names:
            return Encoded(rows, self(rows), rows.slice(0, 0))
        pictured = mask(rows["images"].is_valid())
        read = rows.filter(pa.array(~pictured))
        return Encoded(read, self(read), rows.filter(pa.array(pictured)))

    def __call__(self, rows: pa.RecordBatch) -> FlatIds:
        """The ids of all chosen texts, then of all rejected ones.

        Texts get the tokenizer's special tokens, renderings none.
        """
        standard = equals(rows["format"], "standard")
        found: list[FlatIds] = []
        for kind, own in (("standard", standard), ("conversational", ~standard)):
            if own.any():
                pairs = rows.select(TEXTS)
                found.append(self._ids(kind, pairs if own.all() else pairs.filter(pa.array(own))))
        ids = found[0] if len(found) == 1 else _in_order(found, standard)
        return self._with_literals(rows, standard, ids)

    def _ids(self, kind: str, pairs: pa.RecordBatch) -> FlatIds:
        """The ids of pairs of one kind."""
        engine, special = self._engine(kind, pairs), kind == "standard"
        parts = (pairs.slice(n, ROWS_AT_ONCE) for n in range(0, pairs.num_rows, ROWS_AT_ONCE))
        return halves_joined([engine(_texts(p), add_special_tokens=special) for p in parts])

    def _engine(self, kind: str, pairs: pa.RecordBatch) -> Engine:
        if kind not in self.engines:
            encoder = self.source.encoder(self.choice)
            if encoder is None:
                self.engines[kind] = slow_engine(self.source.whole())
                self.used["python"] = "the tokenizer has no tokenizer.json"
            else:
                first = _texts(_probed(pairs))
                engine, name, why = encoder.engine_for(first, add_special_tokens=kind == "standard")
                self.engines[kind] = engine
                self.used[name] = why
        return self.engines[kind]

    def _with_literals(self, rows: pa.RecordBatch, standard: Mask, ids: FlatIds) -> FlatIds:
        if all(rows[f"{side}_literals"].null_count == rows.num_rows for side in TEXTS):
            return ids
        lists, encode = ids.lists(), literal_encoder(self.source.whole())
        for first, side in ((0, "chosen"), (rows.num_rows, "rejected")):
            for place, literals in enumerate(rows[f"{side}_literals"].to_pylist()):
                if literals:
                    text, own = rows[side][place].as_py(), bool(standard[place])
                    lists[first + place] = encode(text, tuple(literals), add_special_tokens=own)
        return join(lists)


def mask(column: pa.BooleanArray) -> Mask:
    """A column of truth values, none of them null."""
    return column.to_numpy(zero_copy_only=False)


def equals(column: pa.StringArray, text: str) -> Mask:
    """Where the column has this text."""
    return mask(COMPUTE.equal(column, text))


def _probed(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The first pairs, which choose the encoder."""
    first = pairs.slice(0, PROBED_ROWS)
    sizes = sum(np.asarray(COMPUTE.binary_length(first[side]), np.int64) for side in TEXTS)
    return first.slice(0, max(2, int((np.cumsum(sizes) <= PROBED_BYTES).sum())))


def _texts(pairs: pa.RecordBatch) -> list[str]:
    """All chosen texts, then all rejected ones."""
    return [text for side in TEXTS for text in pairs[side].to_numpy(zero_copy_only=False).tolist()]


def _in_order(found: list[FlatIds], standard: Mask) -> FlatIds:
    """Puts the ids of texts and of renderings in the order of the rows."""
    kinds = np.tile(standard, 2)
    order = np.concatenate([np.flatnonzero(kinds), np.flatnonzero(~kinds)])
    lists = [ids for flat in found for ids in flat.lists()]
    return join([lists[place] for place in np.argsort(order).tolist()])
