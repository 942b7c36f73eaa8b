"""What each endpoint takes and answers: the forms of the trainers and servers that people have.

    /get_reward   OpenRLHF    {"query": [str]}                    -> {"rewards": [float]}
    /reward       slime       {"prompt", "response", "label"}     -> float
    /classify     vLLM        {"input": [str]} or {"messages"}    -> {"data": [{"probs": [float]}]}
    /score        vLLM        {"queries", "documents"}            -> {"data": [{"score": float}]}
    /v1/rewards   ours        {"input": [row]} or {"messages"}    -> {"data": [{"reward": float}]}

Bare strings (`query`, `prompt` + `response`, `input`) are read as the setting `query_form` says.
One that the chat template rendered and that stops at the end token, as rollouts do, is completed
with what the template writes after it (answer_suffix.py), and so gets the reward of the same
messages. Token ids are scored as they are.

Fields that a form has and scoring does not need (label, model, user ...) are let pass. Rewards are
raw, never a sigmoid: `probs` too, as vLLM answers for a model of problem type regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt

from tasks.registration.serving.problems import RequestProblem

Messages = list[dict[str, Any]]
Texts = str | list[str]

SCORED = (
    ("queries", "documents"),
    ("queries", "items"),
    ("text_1", "text_2"),
    ("data_1", "data_2"),
)
"""vLLM's names of prompts and answers, all of which its server takes."""


@dataclass(frozen=True)
class Query:
    """A bare string: a text or a rendered conversation, as the setting `query_form` says."""

    text: str


@dataclass(frozen=True)
class RowsToScore:
    """The rows of a request, whatever its protocol."""

    rows: list[Any]
    """Each a Query, a list of token ids, or a row as the loader takes it."""
    prompts: list[Any]
    """For each row a key; rows of one prompt have equal keys."""
    names: list[str]
    """Place of each row in the request, for messages."""


class Form(BaseModel):
    """Base of all request bodies; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class OpenRlhfRequest(Form):
    """`prompts` tells which queries answer one prompt."""

    query: list[str] | str
    prompts: list[Any] | None = None

    def to_score(self) -> RowsToScore:
        """One row per query."""
        queries = [self.query] if isinstance(self.query, str) else self.query
        return rows_to_score([Query(text) for text in queries], "query", self.prompts)


class SlimeRequest(Form):
    """One sample of a rollout."""

    prompt: str | Messages
    response: str

    def to_score(self) -> RowsToScore:
        """A conversation, or text that the template rendered."""
        if isinstance(self.prompt, str):
            return rows_to_score([Query(self.prompt + self.response)], "response")
        answer = {"role": "assistant", "content": self.response}
        return rows_to_score([{"messages": [*self.prompt, answer]}], "response")


class ClassifyRequest(Form):
    """Texts, token ids, or one conversation."""

    input: str | list[str] | list[StrictInt] | list[list[StrictInt]] | None = None
    messages: Messages | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def to_score(self) -> RowsToScore:
        """One row per text or list of ids."""
        if self.messages is not None:
            if self.input is not None:
                raise RequestProblem(
                    422, "bad_request", "'input' and 'messages' are both given; leave out one"
                )
            options = {"tools": self.tools, "chat_template_kwargs": self.chat_template_kwargs}
            return RowsToScore([{"messages": self.messages, **options}], [0], ["messages"])
        if self.input is None:
            raise RequestProblem(422, "no_input", "expected 'input' or 'messages'")
        value: Any = self.input
        alone = isinstance(value, str) or (bool(value) and isinstance(value[0], int))
        texts_or_ids = [value] if alone else value
        rows = [Query(row) if isinstance(row, str) else row for row in texts_or_ids]
        return rows_to_score(rows, "input")


class ScoreRequest(Form):
    """Prompts and answers under any of vLLM's names; one of either goes with all of the other."""

    queries: Texts | None = None
    documents: Texts | None = None
    items: Texts | None = None
    text_1: Texts | None = None
    text_2: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None

    def to_score(self, conversational: bool) -> RowsToScore:
        """A user's and an assistant's turn each, or text after text."""
        one, other = self._names()
        values = (getattr(self, one), getattr(self, other))
        first, second = ([t] if isinstance(t, str) else t for t in values)
        n = max(len(first), len(second))
        if len(first) not in (1, n) or len(second) not in (1, n):
            raise RequestProblem(
                422,
                "unequal_lengths",
                f"{one} has {len(first)} texts and {other} has {len(second)}; expected as many, "
                "or one of either",
                other,
            )
        first, second = (texts * n if len(texts) == 1 else texts for texts in (first, second))
        pairs = zip(first, second, strict=True)
        rows = [_talk(*pair) if conversational else pair[0] + pair[1] for pair in pairs]
        return rows_to_score(rows, other, first)

    def _names(self) -> tuple[str, str]:
        """The two fields that are given, and no third one."""
        present = {name for name in ScoreRequest.model_fields if getattr(self, name) is not None}
        for names in SCORED:
            if present == {*names}:
                return names
        expected = ", or ".join(" and ".join(map(repr, names)) for names in SCORED)
        raise RequestProblem(
            422,
            "bad_request",
            f"expected {expected}; found {' and '.join(map(repr, sorted(present))) or 'none'}",
        )


def rows_to_score(
    rows: Sequence[Any], where: str, prompts: Sequence[Any] | None = None
) -> RowsToScore:
    """The rows of one list of the request; with a prompt for each, those of equal prompts belong
    together."""
    if prompts is None or len(prompts) != len(rows):
        keys: list[Any] = list(range(len(rows)))
    else:
        keys = [repr(prompt) for prompt in prompts]
    return RowsToScore(list(rows), keys, [f"{where}[{i}]" for i in range(len(rows))])


def _talk(question: str, answer: str) -> dict[str, Any]:
    turns = (("user", question), ("assistant", answer))
    return {"messages": [{"role": role, "content": text} for role, text in turns]}
