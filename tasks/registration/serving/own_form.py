"""The request body of this server's own endpoint: rows with one or more answers, or a conversation.

{"input": [{"prompt": ..., "completions": [...]}, {"messages": [...]}, {"text": ...}]}
{"messages": [...], "tools": [...], "chat_template_kwargs": {...}}
"""

from typing import Any

from pydantic import ConfigDict

from tasks.registration.loader.given_rows import conversation
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import Form, Messages, RowsToScore

CONTENT = ("messages", "text", "prompt", "completion", "completions")
FORMS = (("messages",), ("text",), ("prompt", "completion"), ("prompt", "completions"))
"""Fields that may be given together; of any other combination some would be ignored silently."""


class Row(Form):
    """A conversation, a text, or a prompt with one or several answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: Messages | None = None
    text: str | None = None
    prompt: str | Messages | None = None
    completion: str | Messages | None = None
    completions: list[str | Messages] | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def rows(self, where: str) -> list[tuple[Any, str]]:
        """Rows as the loader takes them, each with its place in the request, for messages."""
        present = tuple(name for name in CONTENT if getattr(self, name) not in (None, []))
        if present not in FORMS:
            raise RequestProblem(
                422,
                "no_input" if len(present) < 2 else "bad_row",
                "expected 'messages', 'text', or 'prompt' with 'completion' or 'completions', "
                f"found {' and '.join(map(repr, present)) or 'nothing'}",
                where,
            )
        options = {"tools": self.tools, "chat_template_kwargs": self.chat_template_kwargs}
        is_text = "text" in present or isinstance(self.prompt, str)
        if is_text and any(value is not None for value in options.values()):
            raise RequestProblem(
                422,
                "bad_row",
                "'tools' and 'chat_template_kwargs' are for the chat template, which text does "
                "not go through: give messages",
                where,
            )
        if "prompt" not in present:
            row = self.text if "text" in present else {"messages": self.messages, **options}
            return [(row, where)]
        answers = self.completions or [self.completion]
        try:
            rows = [conversation(self.prompt, answer, options) for answer in answers]
        except ValueError as error:
            raise RequestProblem(422, "bad_row", str(error), where) from error
        if not self.completions:
            return [(rows[0], where)]
        return [(row, f"{where}.completions[{i}]") for i, row in enumerate(rows)]


class RewardsRequest(Form):
    """Rows, or one conversation."""

    input: list[Row] | None = None
    messages: Messages | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    normalize: bool = False
    """Mean 0 and deviation 1 over the held-out answers; needs the model's normalization.json."""

    def to_score(self) -> RowsToScore:
        """All answers of all rows, in order."""
        alone = (self.messages, self.tools, self.chat_template_kwargs)
        if self.input is not None and alone != (None, None, None):
            raise RequestProblem(
                422,
                "bad_request",
                "'messages', 'tools' and 'chat_template_kwargs' beside 'input' belong to none of "
                "its rows; put them into the rows",
            )
        if self.input is None and self.messages is None:
            raise RequestProblem(422, "no_input", "expected 'input' or 'messages'")
        if self.input is None:
            kwargs = self.chat_template_kwargs
            row = Row(messages=self.messages, tools=self.tools, chat_template_kwargs=kwargs)
            named = [("messages", row)]
        else:
            named = [(f"input[{i}]", row) for i, row in enumerate(self.input)]
        every = [(i, *pair) for i, (name, row) in enumerate(named) for pair in row.rows(name)]
        return RowsToScore([e[1] for e in every], [e[0] for e in every], [e[2] for e in every])
