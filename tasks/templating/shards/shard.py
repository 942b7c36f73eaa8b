"""One shard of canonical pairs as rendered texts: what a worker process does.

conversion's pairs/NNNNN.parquet  ->  texts/NNNNN.arrow

Should a replayed text ever differ from the template's, the whole shard is rendered again by Jinja
alone, as are this process's next shards, and the report counts it. A shard in which a row with
images turns up is started again, too, with a column for images.
"""

import gc
import threading
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.artifact import BackgroundCalls, Ledger, Quarantine, Workspace, prefetch, uncollected
from tasks.conversion.tolerance import first_examples
from tasks.templating.params import TemplatingParams
from tasks.templating.renderer import Renderer
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards.batch import OPTIONAL
from tasks.templating.shards.bounded_batches import bounded_batches
from tasks.templating.shards.columns import Columns
from tasks.templating.shards.row_by_row import Differs, Pictured
from tasks.templating.shards.shard_rows import Renderers, ShardRows
from tasks.templating.text_shards import TEXTS_DIRECTORY
from tasks.templating.tokenizer.plain_tokenizer import PlainTokenizer

_last = threading.local()
"""The thread's renderers of the template used last, with everything learned about it."""
BATCH_ROWS = 2048
BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class TemplateShard:
    """The work on one shard; picklable."""

    workspace: Workspace
    tokenizer: PlainTokenizer
    params: TemplatingParams

    def __call__(self, shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        """Writes the shard's texts; counts for the report."""
        replaying, pictured = True, False
        replayer = self._renderers.replayer
        replayer.begin()
        while True:
            own_ledger, own_quarantine = Ledger(), Quarantine(quarantine.stage)
            accounts = own_ledger, own_quarantine
            rows = ShardRows(
                self._renderers,
                accounts,
                strict=self.params.delimiters_in_text == "quarantine",
                replaying=replaying,
                pictured=pictured,
            )
            try:
                numbers = self._write(shard, rows)
            except Differs:
                replaying = False
                replayer.end()
                _last.key = None
            except Pictured:
                pictured = True
            else:
                break
        ledger.merge(own_ledger)
        quarantine.extend(own_quarantine.rows)
        return numbers | {"replays_differed": int(not replaying)}

    @cached_property
    def _renderers(self) -> Renderers:
        """The thread's own, for all shards and runs with the same tokenizer and params."""
        key = self.tokenizer, self.params
        if getattr(_last, "key", None) != key:
            _last.key, _last.renderers = key, renderers(*key)
        return _last.renderers

    def _write(self, shard: Path, rows: ShardRows) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        with (
            self.workspace.writing(f"{TEXTS_DIRECTORY}/{shard.stem}.arrow", "by_mark") as path,
            pa.ipc.new_stream(path, rows.schema) as writer,
            BackgroundCalls() as behind,
            uncollected(),
        ):
            for batch in prefetch(bounded_batches(shard, BATCH_ROWS, BATCH_BYTES)):
                table = rows.rendered(batch)
                for name, usual in OPTIONAL.items():
                    column = table[name]
                    filled = table.num_rows - column.null_count
                    counts[name] += filled if usual is None else _unequal(column, usual)
                behind.put(writer.write_batch, table)
                gc.collect(0)  # of what is new: a row that the template refuses leaves cycles
        return {
            **{name: counts[name] for name in OPTIONAL},
            "images": rows.images,
            "delimiters": dict(rows.delimiters),
            "examples": first_examples(rows.quarantine),
            "replayed": rows.replayed,
        }


def _unequal(column: pa.Array, usual: float) -> int:
    if column.unique().to_pylist() == [usual]:
        return 0
    return sum(value != usual for value in column.to_pylist())


def renderers(tokenizer: PlainTokenizer, params: TemplatingParams) -> Renderers:
    """What renders the rows, replays them, and joins them in columns."""
    renderer = Renderer(tokenizer, params.special_tokens_in_text, images=True)
    replayer = Replayer(tokenizer, renderer.special, renderer.own.bos)
    return Renderers(renderer, replayer, Columns(replayer))
