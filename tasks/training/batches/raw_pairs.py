"""Raw preference rows, as a script brings them -> token ids, by the pipeline's own functions.

    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green.", "margin": 0.5}
        ->  {"chosen_input_ids": [...], "rejected_input_ids": [...], "margin": 0.5}

Each row is checked as conversion checks it, rendered as templating renders it and encoded as
tokenization encodes it: a row ends in the same ids here and in the pipeline. Text or messages,
prompt explicit or implicit, `tools`, `chat_template_kwargs`, `margin`, `weight`, `preference` and
`comparison` are understood; ties are kept. A row that cannot be used carries its reason instead.
"""

import gc
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Features, Value
from datasets import Sequence as ListOf

from tasks.artifact import uncollected
from tasks.conversion.layouts import columns as flat
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError
from tasks.templating.parts import text_only
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.tokenization.flat import join
from tasks.tokenization.shards import IDS
from tasks.training.batches.pair_ids import BothIds, PairIds
from tasks.training.batches.quick_rows import quick_pair

logger = logging.getLogger(__name__)

READ = (
    *("prompt", "chosen", "rejected", "margin", "weight", "preference"),
    *("tools", "chat_template_kwargs", "images"),
)
TERMS = ("margin", "weight", "preference", "comparison", "source")
"""Columns of a row that are kept beside its ids."""
NOTHING: BothIds = (np.empty(0, np.int32), np.empty(0, np.int32))
REASON, MESSAGE = "unused_reason", "unused_message"


@dataclass
class RawPairs:
    """Turns batches of raw rows into columns of token ids; a row that is not used says why."""

    tokenizer: Any
    max_length: int | None
    kept: Sequence[str]
    """Which of `TERMS` the rows have."""
    policy: Policy
    """What becomes of a row with a special token in its own text, as in templating."""
    is_stream: bool = False
    """Whether to log the first row of each reason at once, as the rows of a stream are never all
    counted."""
    _logged: set[str] = field(default_factory=set[str])
    _cached_pair_ids: PairIds | None = None

    @property
    def features(self) -> Features:
        """The columns that come out."""
        numbers = dict.fromkeys(("margin", "weight", "preference"), "float32")
        kinds = numbers | {"comparison": "string", "source": "string"}
        return Features(
            {
                "pair_id": Value("string"),
                **{side: ListOf(Value("int32")) for side in IDS},
                **{name: Value(kinds[name]) for name in self.kept},
                REASON: Value("string"),
                MESSAGE: Value("string"),
            }
        )

    def __call__(self, batch: Mapping[str, list[Any]], indices: list[int]) -> dict[str, list[Any]]:
        """The batch's columns, as many rows as came in.

        Raises:
            TemplateError: a row is a conversation, and the tokenizer has no chat template.
        """
        with uncollected():
            out = self._columns(batch, indices)
        gc.collect(0)  # a row that the template refuses leaves reference cycles
        return out

    def _columns(self, batch: Mapping[str, list[Any]], indices: list[int]) -> dict[str, list[Any]]:
        names = [n for n in (*READ, "comparison", "source", "pair_id") if n in batch]
        rows = [
            dict(zip(names, values, strict=True))
            for values in zip(*(batch[name] for name in names), strict=True)
        ]
        checked_rows = [self._checked(row) for row in rows]
        pairs = {place: pair for place, pair in enumerate(checked_rows) if isinstance(pair, Pair)}
        ids, refused = self._pair_ids(pairs)
        for place, problem in refused.items():
            checked_rows[place] = _in_words_of_config(problem)
        out: dict[str, list[Any]] = {name: [] for name in self.features}
        for place, (row, index, pair) in enumerate(zip(rows, indices, checked_rows, strict=True)):
            both = ids.get(place, NOTHING)
            problem = pair if isinstance(pair, Unusable) else self._problem(both)
            pair_id = row.get("pair_id")
            out["pair_id"].append(f"row {index}" if pair_id is None else str(pair_id))
            for side, values in zip(IDS, NOTHING if problem else both, strict=True):
                out[side].append(values)
            for name in self.kept:
                out[name].append(None if isinstance(pair, Unusable) else _term(pair, row, name))
            out[REASON].append(problem.reason if problem else "")
            out[MESSAGE].append(f"row {index}: {problem}" if problem else "")
            if problem and self.is_stream and problem.reason not in self._logged:
                self._logged.add(problem.reason)
                logger.warning("a row of the stream is not used: row %d: %s", index, problem)
        return out

    def table(self, batch: Mapping[str, list[Any]], indices: list[int]) -> pa.Table:
        """As a call, but an Arrow table, which `datasets` writes without a conversion."""
        out = self(batch, indices)
        ids = {side: join(out[side]).arrow() for side in IDS}
        return pa.table({**out, **ids}, schema=self.features.arrow_schema)

    @property
    def _pair_ids(self) -> PairIds:
        """Built on first use in each process: what it learns of a template is not pickled."""
        if self._cached_pair_ids is None:
            self._cached_pair_ids = PairIds(self.tokenizer, self.policy)
        return self._cached_pair_ids

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cached_pair_ids": None}

    def _checked(self, row: Mapping[str, Any]) -> Pair | Unusable:
        """The pair of a row, or why there is none."""
        fields = {name: row[name] for name in READ if name in row}
        pair = quick_pair(fields)
        if pair is not None and self.tokenizer.chat_template is not None:
            return pair
        fields = {name: _without_nulls(value) for name, value in fields.items()}
        try:
            item: Any = flat.pairs(fields)[0]
            pair = checked(item.kept[0] if isinstance(item, Tie) else item)
            if pair.images is not None:
                raise text_only("the row has images")
        except Unusable as problem:
            return _in_words_of_config(problem)
        if pair.format == "conversational" and self.tokenizer.chat_template is None:
            raise TemplateError(
                "the rows are conversations, but the tokenizer has no chat template; set "
                "chat_template_path to a Jinja file or to a tokenizer that has one"
            )
        return pair

    def _problem(self, ids: BothIds) -> Unusable | None:
        chosen, rejected = ids
        if self.max_length is not None and max(len(chosen), len(rejected)) > self.max_length:
            return Unusable(
                "too_long",
                "chosen" if len(chosen) > self.max_length else "rejected",
                f"found {len(chosen)} and {len(rejected)} tokens, expected {self.max_length} at "
                "most; raise max_length",
            )
        if np.array_equal(chosen, rejected):
            return Unusable(
                "identical_tokens",
                "rejected",
                "found the same token ids on both sides; the tokenizer drops what differs",
            )
        return None


def _in_words_of_config(problem: Unusable) -> Unusable:
    """The problem with settings named as in RewardConfig, without their section `templating.`."""
    message = problem.message.replace("templating.", "")
    return Unusable(problem.reason, problem.field, message, problem.pairs)


def _term(pair: Pair, row: Mapping[str, Any], name: str) -> Any:
    """The checked value of a pair; comparison and source, which a Pair lacks, from the row, where
    they may be numbers."""
    if name not in ("comparison", "source"):
        return getattr(pair, name)
    value = row.get(name)
    return None if value is None else str(value)


def _without_nulls(value: Any) -> Any:
    """The value without null keys: Arrow gives every struct the keys of all rows."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        if all(type(v) is str for v in value.values()):
            return value
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
