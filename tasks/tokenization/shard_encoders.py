"""The texts of one shard's batches as token ids, by the encoder that its first rows allow.

In:  record batches of templating's pairs.
Out: the ids of all chosen sides, then of all rejected ones, in flat buffers.

Texts and renderings are encoded apart, since only texts get the tokenizer's special tokens. Rows
with images are not encoded at all: they are handed back beside the others.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.tokenization.encoder import PROBED_ROWS, Choice, slow_engine, stage_encoder
from tasks.tokenization.engines import Engine
from tasks.tokenization.flat import FlatIds, join
from tasks.tokenization.literal import literal_encoder

TEXTS = ("chosen", "rejected")
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Encoded:
    """One batch of rows and its ids: of all chosen sides, then of all rejected ones."""

    rows: pa.RecordBatch
    ids: FlatIds
    pictured: pa.RecordBatch
    """Rows with images, which are not among the others."""


@dataclass
class ShardEncoders:
    """Encodes the batches of one shard; which encoder for which kind of row its first rows say."""

    directory: Path
    choice: Choice
    used: dict[str, str] = field(default_factory=dict[str, str])
    """`{encoder: why no faster one}`."""
    engines: dict[str, Engine] = field(default_factory=dict[str, Engine])

    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """The batch, its rows with images apart."""
        if "images" not in rows.schema.names:
            return Encoded(rows, self(rows), rows.slice(0, 0))
        pictured = np.asarray(rows["images"].is_valid())
        read = rows.filter(pa.array(~pictured))
        return Encoded(read, self(read), rows.filter(pa.array(pictured)))

    def __call__(self, rows: pa.RecordBatch) -> FlatIds:
        """The ids of all chosen texts, then of all rejected ones.

        Texts get the tokenizer's special tokens, renderings none.
        """
        texts: list[str] = [
            text for side in TEXTS for text in rows[side].to_numpy(zero_copy_only=False).tolist()
        ]
        kinds = np.tile(np.asarray(rows["format"]) == "standard", 2)
        order = np.concatenate([np.flatnonzero(kinds), np.flatnonzero(~kinds)])
        found: list[FlatIds] = []
        for kind, places in (
            ("standard", order[kinds[order]]),
            ("conversational", order[~kinds[order]]),
        ):
            if len(places):
                chosen = texts if len(places) == len(texts) else [texts[i] for i in places.tolist()]
                engine = self._engine(kind, chosen)
                found.append(engine(chosen, add_special_tokens=kind == "standard"))
        ids = found[0] if len(found) == 1 else _in_order(found, order)
        return self._with_literals(rows, texts, kinds, ids)

    def _engine(self, kind: str, texts: list[str]) -> Engine:
        if kind not in self.engines:
            encoder = stage_encoder(self.directory, self.choice)
            if encoder is None:
                self.engines[kind] = slow_engine(_tokenizer(self.directory))
                self.used["python"] = "the tokenizer has no tokenizer.json"
            else:
                half = len(texts) // 2
                first = [*texts[:PROBED_ROWS], *texts[half : half + PROBED_ROWS]]
                engine, name, why = encoder.engine_for(first, add_special_tokens=kind == "standard")
                self.engines[kind] = engine
                self.used[name] = why
        return self.engines[kind]

    def _with_literals(
        self, rows: pa.RecordBatch, texts: list[str], standard: Mask, ids: FlatIds
    ) -> FlatIds:
        if all(rows[f"{side}_literals"].null_count == rows.num_rows for side in TEXTS):
            return ids
        lists = ids.lists()
        literals = [*rows["chosen_literals"].to_pylist(), *rows["rejected_literals"].to_pylist()]
        for place in (place for place, stretches in enumerate(literals) if stretches):
            lists[place] = literal_encoder(_tokenizer(self.directory))(
                texts[place], tuple(literals[place]), add_special_tokens=bool(standard[place])
            )
        return join(lists)


@lru_cache(maxsize=2)
def _tokenizer(directory: Path) -> Any:
    """The saved tokenizer as transformers has it: needed for literals only."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


def _in_order(found: list[FlatIds], order: npt.NDArray[np.intp]) -> FlatIds:
    """Lists that were encoded kind by kind, back in the order of the rows."""
    lists = [ids for flat in found for ids in flat.lists()]
    return join([lists[place] for place in np.argsort(order).tolist()])
