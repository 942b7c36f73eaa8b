"""A benchmark's items as token ids, by the model's own template and tokenizer.

    item -> render(prompt + answer) -> ids, one array per answer

A model without a chat template reads the prompt, a line break, and the answer as one text. Every
item has to be scored, so what training would leave out is read all the same: a special token in an
item's own words gets the ids of ordinary text (unless the model was trained to `keep` it), and what
is too long loses its beginning, as in the benchmarks' own tools, though not an encoder's [CLS].
Both are counted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.conversion.conversation.messages import text_of
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable
from tasks.evaluation.benchmarks.items import Item, Text, as_turns
from tasks.evaluation.tables.scores import TokenIds
from tasks.templating.renderer import Rendered
from tasks.templating.tokenizer.own_tokens import end_of
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.batches.reading import RowReader, canonical_row

BESIDE = ("No.", "Yes.")
"""A pair is what gets rendered: one of these stands beside each answer."""


@dataclass(frozen=True)
class Encoded:
    """The answers of one item; `unscored` says why there are none."""

    ids: tuple[TokenIds, ...] = ()
    tokens: tuple[int, ...] = ()
    """Lengths before anything was cut off."""
    forged: int = 0
    """Answers with a special token in their own words or the prompt's."""
    unscored: str | None = None


class ItemReader:
    """Reads items with the tokenizer of a model directory."""

    def __init__(self, model: Path, policy: str) -> None:
        from transformers import AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(model)
        keep = policy == "keep" or not tokenizer.is_fast
        chosen: Policy = "keep" if keep else "encode"
        self.standard = tokenizer.chat_template is None
        self.reader = RowReader(tokenizer, chosen)

    def encode(self, item: Item, max_length: int | None) -> Encoded:
        """The ids of every answer, the last `max_length` of each."""
        try:
            sides = [self._rendered(item, answer) for answer in item.answers]
        except Unusable as error:
            return Encoded(unscored=f"{error.reason}: {error.message}")
        ids = self.reader.ids(sides, standard=self.standard)
        return Encoded(
            ids=tuple(self._cut(each, max_length) for each in ids),
            tokens=tuple(map(len, ids)),
            forged=sum(bool(side.literals) for side in sides),
        )

    def _cut(self, ids: TokenIds, most: int | None) -> TokenIds:
        return ids if most is None else end_of(ids, most, self.reader.tokenizer)

    def _rendered(self, item: Item, answer: Text) -> Rendered:
        beside = BESIDE[_words(answer) == BESIDE[0]]
        if self.standard:
            pair = Pair(f"{_words(item.prompt)}\n", _words(answer), beside)
        else:
            chosen, rejected = (as_turns(side, "assistant") for side in (answer, beside))
            pair = Pair(item.turns, chosen, rejected)
        return self.reader.sides(canonical_row(pair))[0]


def _words(text: Text) -> str:
    if isinstance(text, str):
        return text.strip()
    return "\n".join(map(text_of, text)).strip()
