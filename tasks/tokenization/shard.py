"""One shard of rendered pairs as token ids: what a worker process does.

texts/NNNNN.arrow  ->  train/NNNNN.arrow, eval/NNNNN.arrow

It works on columns and flat buffers; a row becomes a Python object only if it is quarantined, or
has literal text.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifact import Ledger, Quarantine, Workspace, prefetch
from tasks.conversion.preference.splits import SPLITS
from tasks.templating.text_shards import text_batches
from tasks.tokenization.flat import FlatIds, common_lengths, shared_prefixes
from tasks.tokenization.params import Choice
from tasks.tokenization.shard_encoders import Mask, ShardEncoders, equals
from tasks.tokenization.shards import IDS, TOKENIZER_DIRECTORY
from tasks.tokenization.tokenizer_source import SavedTokenizer

BATCH_ROWS = 2048
BATCH_BYTES = 8 * 2**20
"""Bytes of text in one batch."""
ROWS_A_RUN = 4
"""With fewer rows of a batch per run, copying run by run is no faster than `filter`."""
FIELDS = {
    "pair_id": pa.string(),
    "source": pa.string(),
    **dict.fromkeys(IDS, pa.list_(pa.int32())),
    "shared_prefix_length": pa.int32(),
    "weight": pa.float32(),
}
OPTIONAL_FIELDS = {"margin": pa.float32(), "preference": pa.float32(), "comparison": pa.string()}
"""Present only if a pair has another value than the default."""


def schema(optional: Iterable[str]) -> pa.Schema:
    """The columns of every Arrow file, including these optional ones."""
    return pa.schema(FIELDS | {name: OPTIONAL_FIELDS[name] for name in optional})


@dataclass(frozen=True)
class TokenizeShard:
    """The work on one shard; picklable."""

    workspace: Workspace
    choice: Choice
    max_length: int | None
    schema: pa.Schema

    def __call__(self, shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        """Writes the shard's Arrow files; returns the numbers of pairs and tokens, and the
        encoders."""
        directory = self.workspace.path / TOKENIZER_DIRECTORY
        encoders = ShardEncoders(SavedTokenizer(directory), self.choice)
        counts = Counter[str](dict.fromkeys(SPLITS, 0))
        longer: list[int] = []
        with ExitStack() as open_files:
            writers: dict[str, Any] = {}
            batches = prefetch(text_batches(shard, BATCH_ROWS, BATCH_BYTES))
            for batch in prefetch(map(encoders.encoded, batches)):
                _leave_out(batch.pictured, ledger, quarantine)
                rows, fits = self._judged(batch.rows, batch.ids, ledger, quarantine)
                sides = batch.ids.lengths.reshape(2, -1)
                longer += sides.max(0).tolist()
                counts["tokens"] += int(sides[:, fits].sum())
                counts["longest"] = max(counts["longest"], int(sides[:, fits].max(initial=0)))
                for split in SPLITS:
                    wanted = fits & equals(batch.rows["split"], split)
                    part = _rows_where(rows, wanted)
                    if part.num_rows and split not in writers:
                        writers[split] = self._open(open_files, f"{split}/{shard.stem}.arrow")
                    if part.num_rows:
                        writers[split].write_batch(part)
                        counts[split] += part.num_rows
                    if split == "train":
                        counts["text"] += int(
                            (wanted & equals(batch.rows["format"], "standard")).sum()
                        )
        nothing = counts["train"] + counts["eval"] == 0
        return {
            **{name: counts[name] for name in (*SPLITS, "text", "tokens", "longest")},
            "encoders": encoders.used,
            "longer_sides": [n for n in longer if nothing or n > (self.max_length or n)],
        }

    def _open(self, open_files: ExitStack, name: str) -> Any:
        path = open_files.enter_context(self.workspace.writing(name, "by_mark"))
        return open_files.enter_context(pa.ipc.new_stream(path, self.schema))

    def _judged(
        self,
        rows: pa.RecordBatch,
        ids: FlatIds,
        ledger: Ledger,
        quarantine: Quarantine,
    ) -> tuple[pa.RecordBatch, Mask]:
        """All rows with the columns of `schema`, and which of them fit; counts all of them."""
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
        prefixes = shared_prefixes(shared, shorter)
        whole = ids.arrow()
        columns: dict[str, Any] = {
            field.name: rows[field.name].cast(field.type)
            for field in self.schema
            if field.name in rows.schema.names
        }
        columns |= {IDS[0]: whole[:count], IDS[1]: whole[count:]}
        columns["shared_prefix_length"] = pa.array(prefixes.astype(np.int32))
        arrays = [columns[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), ~(too_long | same)


def _rows_where(rows: pa.RecordBatch, wanted: Mask) -> pa.RecordBatch:
    """The wanted rows. `filter` copies id by id; if they form few runs, these are copied whole.

    With nulls, `filter` is used: else the bytes behind nulls would differ.
    """
    edges: list[int] = np.flatnonzero(np.diff(wanted, prepend=False, append=False)).tolist()
    runs = list(zip(edges[::2], edges[1::2], strict=True))
    if 0 < len(runs) <= len(wanted) // ROWS_A_RUN and not any(c.null_count for c in rows.columns):
        return pa.concat_batches([rows.slice(a, b - a) for a, b in runs])
    return rows.filter(pa.array(wanted))


def _leave_out(rows: pa.RecordBatch, ledger: Ledger, quarantine: Quarantine) -> None:
    """Counts and quarantines rows with images."""
    message = (
        "the row has images, and the reward models trained here read text only: they would judge "
        "the answers without seeing them; leave such rows out of the source, or give the texts and "
        "images that templating left to a trainer of vision-language models"
    )
    for row in rows.to_pylist():
        ledger.count_in(row["source"])
        ledger.drop(row["source"], "images")
        origin = (row["source"], row["file"], row["row"])
        quarantine.add(*origin, "images", "images", message, row["images"])


def _account(
    rows: pa.RecordBatch, too_long: Mask, same: Mask, ledger: Ledger, quarantine: Quarantine
) -> None:
    """Counts every row in the ledger; quarantines rows with equal ids."""
    sources = rows["source"].dictionary_encode()
    numbers = np.asarray(sources.indices)
    for number, source in enumerate(sources.dictionary.to_pylist()):
        own = numbers == number
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
