"""What a chat template writes behind an answer, and queries that stop within it.

    ChatML      So<|im_end|>\\n     a rollout stops at <|im_end|>, and never makes the newline

The reward is read at the last token, so a query without the newline gets another reward than the
same conversation as messages, which is what the model was trained on. A policy stops at its end
token, and hardly any trainer adds what follows it. So a query that stops at or behind the end token
of the closing is completed with the rest: exactly the text that the template would have made.

Only a special token tells that the answer is over. Where the closing has none, or a query does not
reach it (cut for its length), nothing is added: words may end in a newline, too.
"""

from dataclasses import dataclass
from typing import Any, Self

from tasks.registration.loader.inference import UNREADABLE
from tasks.templating.tokenizer.special_tokens import special_tokens

ANSWER = "closing0probe"
"""Stands nowhere else in a rendered conversation."""


@dataclass(frozen=True)
class Closing:
    """What follows the content of the last answer, up to the end of the text."""

    whole: str
    least: int
    """Characters that a query must have of it: up to the end of its first special token."""

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """The closing of a tokenizer's chat template; empty where there is none to be told by."""
        if tokenizer.chat_template is None:
            return cls("", 0)
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ANSWER}]
        try:
            text: str = tokenizer.apply_chat_template(talk, tokenize=False)
        except UNREADABLE:  # the template refuses such turns
            return cls("", 0)
        _, found, whole = text.rpartition(ANSWER)
        special = special_tokens(tokenizer)
        marks = special.markup(whole) if found and special else []
        return cls(whole, marks[0][1]) if marks else cls("", 0)

    def completed(self, text: str) -> str:
        """The text with the rest of the closing, if it stops within that."""
        for length in range(len(self.whole), self.least - 1, -1):
            if text.endswith(self.whole[:length]):
                return text + self.whole[length:]
        return text
