"""What a chat template writes after the last answer, added to rendered queries that stop within it.

    ChatML      So<|im_end|>\\n     a rollout stops at <|im_end|> and never generates the newline

The reward is read at the last token, so a query without the newline gets a different reward from
the same conversation given as messages, which is the form that the model was trained on. A policy
stops at its end token, and hardly any trainer adds what follows it. A query that stops at or after
the suffix's end token is therefore completed to exactly the text that the template would have made.

Only a special token shows that the answer is over. Where the suffix has none, or the query does not
reach it (it was cut for its length), nothing is added: ordinary text may end in a newline, too.
"""

from dataclasses import dataclass
from typing import Any, Self

from tasks.registration.loader.inference import UNREADABLE
from tasks.templating.tokenizer.special_tokens import special_tokens

ANSWER = "closing0probe"
"""Stands nowhere else in a rendered conversation."""


@dataclass(frozen=True)
class AnswerSuffix:
    """The text after the content of the last answer, up to the end of the rendered text."""

    whole: str
    least: int
    """Leading characters of `whole` that a query must already have: up to the end of its first
    special token."""

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """The suffix of a tokenizer's chat template; empty where no special token marks one."""
        if tokenizer.chat_template is None:
            return cls("", 0)
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ANSWER}]
        try:
            text: str = tokenizer.apply_chat_template(messages, tokenize=False)
        except UNREADABLE:  # the template refuses such turns
            return cls("", 0)
        _, separator, whole = text.rpartition(ANSWER)
        special = special_tokens(tokenizer)
        marks = special.markup(whole) if separator and special else []
        return cls(whole, marks[0][1]) if marks else cls("", 0)

    def completed(self, text: str) -> str:
        """The text with the rest of the suffix, if it stops within the suffix."""
        for length in range(len(self.whole), self.least - 1, -1):
            if text.endswith(self.whole[:length]):
                return text + self.whole[length:]
        return text
