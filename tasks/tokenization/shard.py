"""One shard of rendered pairs as token ids: what a worker process does.

pairs/NNNNN.parquet  ->  train/NNNNN.arrow, eval/NNNNN.arrow

Only columns and flat buffers are handled; a row becomes a Python object only where it is left out
with a message, or holds text that has to be encoded as literal.
"""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion.batches import bounded_batches
from tasks.tokenization.encoder import PROBED_ROWS, Choice, slow_engine, stage_encoder
from tasks.tokenization.engines import Engine
from tasks.tokenization.flat import FlatIds, common_lengths, join
from tasks.tokenization.literal import literal_encoder

SPLITS = ("train", "eval")
TEXTS = ("chosen", "rejected")
SIDES = ("chosen_input_ids", "rejected_input_ids")
TOKENIZER_DIRECTORY = "tokenizer"
BATCH_ROWS = 2048
BATCH_BYTES = 8 * 2**20
"""Text that is encoded in one go."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TokenizeShard:
    """The work on one shard; picklable."""

    workspace: Workspace
    choice: Choice
    max_length: int | None
    schema: pa.Schema

    def __call__(self, shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        """Writes the shard's Arrow files; how many pairs and tokens, and by which encoder."""
        directory = self.workspace.path / TOKENIZER_DIRECTORY
        encoders = ShardEncoders(directory, self.choice)
        counts = Counter[str](dict.fromkeys(SPLITS, 0))
        longer: list[int] = []
        with ExitStack() as open_files:
            writers: dict[str, Any] = {}
            for rows in bounded_batches(shard, BATCH_ROWS, BATCH_BYTES):
                kept, lengths = self._kept(rows, encoders, ledger, quarantine)
                longer += lengths
                for split in SPLITS:
                    part = kept.filter(pa.array(np.asarray(kept["split"]) == split))
                    if part.num_rows and split not in writers:
                        writers[split] = self._open(open_files, f"{split}/{shard.stem}.arrow")
                    if part.num_rows:
                        writers[split].write_batch(part.select(self.schema.names))
                        counts[split] += part.num_rows
                counts["tokens"] += sum(len(kept[side].values) for side in SIDES)
                counts["longest"] = max(counts["longest"], *_longest(kept))
        nothing = counts["train"] + counts["eval"] == 0
        return {
            **{name: counts[name] for name in (*SPLITS, "tokens", "longest")},
            "encoders": encoders.used,
            "longer_sides": longer if nothing else [],
        }

    def _open(self, open_files: ExitStack, name: str) -> Any:
        path = open_files.enter_context(self.workspace.writing(name))
        return open_files.enter_context(pa.ipc.new_stream(path, self.schema))

    def _kept(
        self,
        rows: pa.RecordBatch,
        encoders: "ShardEncoders",
        ledger: Ledger,
        quarantine: Quarantine,
    ) -> tuple[pa.RecordBatch, list[int]]:
        """The rows that fit, with their ids, and every pair's longer side."""
        ids = encoders(rows)
        count = rows.num_rows
        lengths = ids.lengths
        shared = common_lengths(ids)
        shorter = np.minimum(lengths[:count], lengths[count:])
        longer = np.maximum(lengths[:count], lengths[count:])
        too_long = np.zeros(count, np.bool_)
        if self.max_length is not None:
            too_long = longer > self.max_length
        same = ~too_long & (lengths[:count] == lengths[count:]) & (shared == shorter)
        _account(rows, too_long, same, ledger, quarantine)
        shared = np.maximum(0, np.minimum(shared, shorter - 1))
        whole = ids.arrow()
        columns: dict[str, Any] = {
            name: rows[name].cast(self.schema.field(name).type)
            for name in self.schema.names
            if name in rows.schema.names
        }
        columns |= {SIDES[0]: whole[:count], SIDES[1]: whole[count:], "split": rows["split"]}
        columns["shared_prefix_length"] = pa.array(shared.astype(np.int32))
        names = [*self.schema.names, "split"]
        batch = pa.RecordBatch.from_arrays([columns[name] for name in names], names)
        return batch.filter(pa.array(~(too_long | same))), longer.tolist()


@dataclass
class ShardEncoders:
    """Encodes the batches of one shard; which encoder for which kind of row its first rows say."""

    directory: Path
    choice: Choice
    used: dict[str, str] = field(default_factory=dict[str, str])
    """`{encoder: why no faster one}`."""
    engines: dict[str, Engine] = field(default_factory=dict[str, Engine])

    def __call__(self, rows: pa.RecordBatch) -> FlatIds:
        """The ids of all chosen texts, then of all rejected ones.

        Texts get the tokenizer's special tokens, renderings none.
        """
        texts: list[str] = [*rows["chosen"].to_pylist(), *rows["rejected"].to_pylist()]
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


def _longest(kept: pa.RecordBatch) -> list[int]:
    return [max(kept[side].value_lengths().to_pylist(), default=0) for side in SIDES]


def _account(
    rows: pa.RecordBatch, too_long: Mask, same: Mask, ledger: Ledger, quarantine: Quarantine
) -> None:
    """Every row's line in the ledger; rows with equal ids in the quarantine."""
    sources = np.asarray(rows["source"])
    for source in dict.fromkeys(sources.tolist()):
        own = sources == source
        ledger.count_in(source, int(own.sum()))
        ledger.count_out(source, int((own & ~too_long & ~same).sum()))
        for reason, dropped in (("too_long", own & too_long), ("identical_tokens", own & same)):
            if dropped.any():
                ledger.drop(source, reason, int(dropped.sum()))
    message = "both sides have the same token ids; the tokenizer drops what differs"
    for place in np.flatnonzero(same).tolist():
        row = rows.slice(place, 1).to_pylist()[0]
        origin = (row["source"], row["file"], row["row"])
        quarantine.add(*origin, "identical_tokens", "chosen", message, row["chosen"])
