"""Checked pairs of a batch -> token ids, by the code that templates and tokenizes a shard.

    pairs ─ record batch as conversion writes it ─ `ShardRows` ─ texts ─ `ShardEncoders` ─ ids
                                                       └─ rows that the template refuses

So a template runs once for each shape of conversation, and replayed texts are compared with its own
in the first rows. The first ids of each batch are compared with the reference encoder's.
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
FAST_ENCODER_ROWS = 256
"""Rows of a batch from which on the fast encoders are built, which takes as long as encoding
thousands of rows."""
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
        """Place -> both sides' ids, and for pairs that cannot be used place -> reason.

        Raises:
            TemplateError: as `Renderer.sides`.
            DataError: as `ShardRows`.
        """
        if not pairs:
            return {}, {}
        rows, refused = self._rendered(self._batch(pairs))
        ids = ShardEncoders(self._sources[rows.num_rows >= FAST_ENCODER_ROWS], "auto")(rows).lists()
        places = rows["row"].to_pylist()
        sides = zip(ids[: len(places)], ids[len(places) :], strict=True)
        return dict(zip(places, sides, strict=True)), refused

    def _rendered(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Unusable]]:
        """Texts and refused rows; once a replayed text differs, the template alone is used."""
        if self._replaying:
            try:
                return self._render(batch)
            except Differs:
                self._replaying = False
                self._renderers.replayer.end()
        return self._render(batch)

    def _render(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Unusable]]:
        refused = Quarantine("templating")
        self._renderers.replayer.begin()
        options = {"strict": False, "replaying": self._replaying, "pictured": False}
        rows = ShardRows(self._renderers, (Ledger(), refused), **options)
        return rows.rendered(batch), {
            row["row"]: Unusable(row["reason"], row["field"], row["message"])
            for row in refused.rows
        }

    def _batch(self, pairs: Mapping[int, Pair]) -> pa.RecordBatch:
        end = self.tokenizer.eos_token
        columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
        unused: dict[str, Any] = {"pair_id": "", "source": "", "file": "", "split": "train"}
        for place, pair in pairs.items():
            values = canonical_row(pair, end) | unused | {"row": place}
            for name, column in columns.items():
                column.append(values.get(name))
        return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)
