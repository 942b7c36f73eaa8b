"""Raw preference rows, as a script brings them -> token ids, by the pipeline's own functions.

    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green.", "margin": 0.5}
        ->  {"chosen_input_ids": [...], "rejected_input_ids": [...], "margin": 0.5}

Each row is checked as conversion checks it, rendered as templating renders it and encoded as
tokenization encodes it: a row ends in the same ids here and in the pipeline. Text or messages,
prompt explicit or implicit, `tools`, `chat_template_kwargs`, `margin`, `weight`, `preference` and
`comparison` are understood; ties are kept, as the script that brings them wants.
A row that cannot be used is left out, counted by its reason, and the count is logged.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from datasets import Features, Value
from datasets import Sequence as ListOf

from tasks.conversion.layouts import columns as flat
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError
from tasks.templating.renderer import Rendered
from tasks.tokenization.encode import Ids
from tasks.training.batches.reading import Policy, RowReader, canonical_row

logger = logging.getLogger(__name__)

Sides = tuple[Rendered, Rendered]
Found = tuple[Sides, Pair] | Unusable

READ = (
    *("prompt", "chosen", "rejected", "margin", "weight", "preference"),
    *("tools", "chat_template_kwargs", "images"),
)
TERMS = ("margin", "weight", "preference", "comparison", "source")
"""What of a row travels beside its ids."""
IDS = ("chosen_input_ids", "rejected_input_ids")
NOTHING = (np.empty(0, np.int32),) * 2
REASON, MESSAGE = "unused_reason", "unused_message"


@dataclass
class RawPairs:
    """A batch of raw rows as columns of token ids; a row that is not used says why."""

    tokenizer: Any
    max_length: int | None
    kept: Sequence[str]
    """Which of `TERMS` and `pair_id` the rows have."""
    policy: Policy = "quarantine"
    """What becomes of a row with a special token in its own words, as in templating."""
    as_it_comes: bool = False
    """Whether the first row of each reason is logged at once: a stream is never counted whole."""
    _seen: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.reader = RowReader(self.tokenizer, self.policy)

    @property
    def features(self) -> Features:
        """The columns that come out."""
        numbers = dict.fromkeys(("margin", "weight", "preference"), "float32")
        kinds = numbers | {"comparison": "string", "source": "string"}
        return Features(
            {
                "pair_id": Value("string"),
                **{side: ListOf(Value("int32")) for side in IDS},
                **{name: Value(kinds[name]) for name in self.kept if name in kinds},
                REASON: Value("string"),
                MESSAGE: Value("string"),
            }
        )

    def __call__(self, batch: Mapping[str, list[Any]], indices: list[int]) -> dict[str, list[Any]]:
        """The batch's columns, as many rows as came in.

        Raises:
            TemplateError: a row is a conversation, and the tokenizer has no chat template.
        """
        names = [n for n in (*READ, "comparison", "source", "pair_id") if n in batch]
        rows = [
            dict(zip(names, values, strict=True))
            for values in zip(*(batch[name] for name in names), strict=True)
        ]
        found = [self._rendered(row) for row in rows]
        ids = self._encoded(found)
        out: dict[str, list[Any]] = {name: [] for name in self.features}
        for row, index, pair, given in zip(rows, indices, found, ids, strict=True):
            problem = pair if isinstance(pair, Unusable) else self._problem(given)
            out["pair_id"].append(str(row.get("pair_id", f"row {index}")))
            for side, values in zip(IDS, NOTHING if problem else given, strict=True):
                out[side].append(values)
            for name in (name for name in TERMS if name in out):
                out[name].append(None if isinstance(pair, Unusable) else _term(pair[1], row, name))
            out[REASON].append(problem.reason if problem else "")
            out[MESSAGE].append(f"row {index}: {problem}" if problem else "")
            if problem and self.as_it_comes and problem.reason not in self._seen:
                self._seen.add(problem.reason)
                logger.warning("a row of the stream is not used: row %d: %s", index, problem)
        return out

    def _rendered(self, row: Mapping[str, Any]) -> Found:
        """Both texts and the pair that they are of; or why there are none."""
        given = {name: _without_nulls(row[name]) for name in READ if name in row}
        try:
            item: Any = flat.pairs(given)[0]
            pair = checked(item.kept[0] if isinstance(item, Tie) else item)
            if pair.format == "conversational" and self.tokenizer.chat_template is None:
                raise TemplateError(
                    "the rows are conversations, but the tokenizer has no chat template; set "
                    "chat_template_path to a Jinja file or to a tokenizer that has one"
                )
            return self.reader.sides(canonical_row(pair, self.tokenizer.eos_token)), pair
        except Unusable as problem:
            message = problem.message.replace("templating.", "")  # RewardConfig has the same names
            return Unusable(problem.reason, problem.field, message, problem.pairs)

    def _encoded(self, found: Sequence[Found]) -> list[tuple[Ids, ...]]:
        """Both sides' ids of every row that was rendered; nothing for the others."""
        ids: list[tuple[Ids, ...]] = [()] * len(found)
        for form in ("standard", "conversational"):
            mine = {
                i: f[0] for i, f in enumerate(found) if isinstance(f, tuple) and f[1].format == form
            }
            texts = [side for both in mine.values() for side in both]
            sides = self.reader.ids(texts, standard=form == "standard")
            for number, place in enumerate(mine):
                ids[place] = (sides[2 * number], sides[2 * number + 1])
        return ids

    def _problem(self, ids: tuple[Ids, ...]) -> Unusable | None:
        chosen, rejected = ids
        if self.max_length is not None and max(len(chosen), len(rejected)) > self.max_length:
            return Unusable(
                "too_long",
                "chosen" if len(chosen) > self.max_length else "rejected",
                f"found {len(chosen)} and {len(rejected)} tokens, expected {self.max_length} at "
                "most; raise max_length",
            )
        if list(chosen) == list(rejected):
            return Unusable(
                "identical_tokens",
                "rejected",
                "found the same token ids on both sides; the tokenizer drops what differs",
            )
        return None


def _term(pair: Pair, row: Mapping[str, Any], name: str) -> Any:
    """What the pair says, checked; conversion names no comparison or source for a row."""
    return row[name] if name in ("comparison", "source") else getattr(pair, name)


def _without_nulls(value: Any) -> Any:
    """The value without keys that are null: Arrow gives every struct all keys of all rows."""
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
