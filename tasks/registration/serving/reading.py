"""Rows of a request as token ids, in a thread of their own: tokenizers are not to be shared.

In: what a form asks for. Out: ids that are not empty, no longer than the limit and within the
vocabulary, or a problem that names the row.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.registration.loader.id_rewards import check_ids
from tasks.registration.loader.inference import UNREADABLE, ServedModel
from tasks.registration.loader.row_text import encodable
from tasks.registration.serving.answer_suffix import AnswerSuffix
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import Query, RowsToScore
from tasks.registration.serving.settings import ServeSettings
from tasks.registration.serving.text_bound import TextBound
from tasks.templating.tokenizer.own_tokens import end_of


@dataclass(frozen=True)
class Encoded:
    """The sequences of a request."""

    ids: list[list[int]]
    prompts: list[Any]
    cut: int
    """Sequences that lost their start."""

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return sum(map(len, self.ids))


class Reader:
    """Renders and encodes with the model's tokenizer."""

    def __init__(self, model: ServedModel, settings: ServeSettings) -> None:
        self.model, self.settings = model, settings
        has_template = model.tokenizer.chat_template is not None
        self.conversational = has_template and model.formats != ("standard",)
        self.rendered = settings.query_form == "rendered" or (
            settings.query_form == "auto" and self.conversational
        )
        self.answer_suffix = AnswerSuffix.of(model.tokenizer)
        limits = [n for n in (settings.max_tokens, model.max_tokens) if n is not None]
        self.limit = min(limits, default=None)
        self.bound = TextBound.of(model.tokenizer) if settings.too_long == "error" else None

    def read(self, to_score: RowsToScore) -> Encoded:
        """The ids of all rows, and how many of them were cut.

        Raises:
            RequestProblem: too many rows, or one that cannot be read or is too long.
        """
        n, most = len(to_score.rows), self.settings.max_sequences
        if n == 0:
            raise RequestProblem(422, "no_input", "there is nothing to score")
        if n > most:
            raise RequestProblem(
                413, "too_many", f"{n} sequences, expected {most} or fewer; send several requests"
            )
        ids: list[list[int]] = []
        cut = 0
        for row, name in zip(to_score.rows, to_score.names, strict=True):
            whole = self._ids(row, name)
            kept = self._fitting(whole, name)
            cut += len(kept) < len(whole)
            ids.append(kept)
        return Encoded(ids, to_score.prompts, cut)

    def _ids(self, row: Any, name: str) -> list[int]:
        def check(text: str) -> None:
            """Refuses a text that is far too long before it is encoded: all others would wait."""
            least = self.bound.least(text) if self.bound else 0
            if self.limit is not None and least > self.limit:
                raise self._too_long(name, f"{least} tokens or more")

        try:
            if isinstance(row, list):
                return list(check_ids(row, self.model.scorer.vocabulary))
            if not (isinstance(row, Query) and self.rendered):
                return self.model.token_ids(row.text if isinstance(row, Query) else row, check)
            text = encodable(self.answer_suffix.completed(row.text))
            check(text)
            ids = self.model.tokenizer(text, add_special_tokens=False)["input_ids"]
        except UNREADABLE as error:
            raise RequestProblem(422, "bad_row", f"{name}: {error}", name) from error
        if not ids:
            raise RequestProblem(422, "empty", f"{name} has no token", name)
        return list(ids)

    def _fitting(self, ids: list[int], name: str) -> list[int]:
        if self.limit is None or len(ids) <= self.limit:
            return ids
        if self.settings.too_long == "cut_start":
            return end_of(np.asarray(ids), self.limit, self.model.tokenizer).tolist()
        raise self._too_long(name, f"{len(ids)} tokens")

    def _too_long(self, name: str, tokens: str) -> RequestProblem:
        return RequestProblem(
            422,
            "too_long",
            f"{name} has {tokens}, the limit is {self.limit}; shorten it, or start the "
            "server with --too-long cut_start",
            name,
        )
