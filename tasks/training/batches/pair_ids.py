"""Checked pairs of a batch as token ids, by what templating and tokenization do with a shard.

    pairs ─ record batch as conversion writes it ─ `ShardRows` ─ texts ─ `ShardEncoders` ─ ids
                                                       └─ rows that the template refuses

So a template runs once for each shape of conversation, and the replayed texts of the first rows are
compared with its own; so are the ids of each batch's first texts with the reference encoder's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable
from tasks.templating.renderer import Renderer
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards.columns import Columns
from tasks.templating.shards.row_by_row import Differs
from tasks.templating.shards.shard_rows import Renderers, ShardRows
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.tokenization.encode import Ids
from tasks.tokenization.shard_encoders import ShardEncoders
from tasks.tokenization.tokenizer_source import GivenTokenizer
from tasks.training.batches.reading import canonical_row

BothIds = tuple[Ids, Ids]
WORTH_ROWS = 256
"""Rows of a batch from which on the faster encoders are worth building, which takes as long as
encoding thousands of rows."""
_TEXT = pa.string()
_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("pair_id", "source", "file"), _TEXT),
        "row": pa.int64(),
        **dict.fromkeys(("split", "format", "prompt", "chosen", "rejected"), _TEXT),
        **dict.fromkeys(("tools", "chat_template_kwargs"), _TEXT),
        **dict.fromkeys(("margin", "weight", "preference"), pa.float64()),
        "comparison": _TEXT,
    }
)
"""As conversion writes pairs without images."""


@dataclass
class PairIds:
    """Ids of pairs by one tokenizer; `policy` is templating's `special_tokens_in_text`."""

    tokenizer: Any
    policy: Policy

    def __post_init__(self) -> None:
        renderer = Renderer(self.tokenizer, self.policy)
        replayer = Replayer(self.tokenizer, renderer.special, renderer.own.bos)
        self._renderers = Renderers(renderer, replayer, Columns(replayer))
        self._sources = [GivenTokenizer(self.tokenizer, as_it_is) for as_it_is in (True, False)]
        self._replaying = True

    def __call__(self, pairs: Mapping[int, Pair]) -> tuple[dict[int, BothIds], dict[int, Unusable]]:
        """Both sides' ids of the pairs at their places, and what is wrong with the others.

        Raises:
            TemplateError: as `Renderer.sides`.
            DataError: as `ShardRows`.
        """
        if not pairs:
            return {}, {}
        rows, refused = self._rendered(self._batch(pairs))
        ids = ShardEncoders(self._sources[rows.num_rows >= WORTH_ROWS], "auto")(rows).lists()
        places = rows["row"].to_pylist()
        both = zip(ids[: len(places)], ids[len(places) :], strict=True)
        return dict(zip(places, both, strict=True)), refused

    def _rendered(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Unusable]]:
        """Texts; where a replayed one ever differs from the template's, by the template alone."""
        if self._replaying:
            try:
                return self._by(batch)
            except Differs:
                self._replaying = False
                self._renderers.replayer.end()
        return self._by(batch)

    def _by(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Unusable]]:
        refused = Quarantine("templating")
        self._renderers.replayer.begin()
        how = {"strict": False, "replaying": self._replaying, "pictured": False}
        rows = ShardRows(self._renderers, (Ledger(), refused), **how)
        texts = rows.rendered(batch)
        return texts, {
            row["row"]: Unusable(row["reason"], row["field"], row["message"])
            for row in refused.rows
        }

    def _batch(self, pairs: Mapping[int, Pair]) -> pa.RecordBatch:
        end = self.tokenizer.eos_token
        columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
        nothing: dict[str, Any] = {"pair_id": "", "source": "", "file": "", "split": "train"}
        for place, pair in pairs.items():
            values = canonical_row(pair, end) | nothing
            values |= {"row": place, "weight": pair.weight, "preference": pair.preference}
            for name, column in columns.items():
                column.append(values.get(name))
        return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)
