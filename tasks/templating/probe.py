"""What a template does to each shape of conversation, found out once per shape with marked text.

A shape is the sequence of roles. Every turn gets a mark of its own as content; a mark that is
missing from the rendering is a turn that the model would never see.
"""

from dataclasses import dataclass, field
from typing import Any

from tasks.errors import TemplateError
from tasks.templating.render import Messages, render

Shape = tuple[str, ...]


@dataclass
class TemplateProbe:
    """Answers per shape, each found out once."""

    tokenizer: Any
    answers: dict[Shape, str | None] = field(default_factory=dict[Shape, str | None])

    def lost(self, messages: Messages) -> str | None:
        """Which turn of such a conversation the template drops, in a sentence, or None."""
        shape = tuple(str(message["role"]) for message in messages)
        if shape not in self.answers:
            self.answers[shape] = self._probe(shape)
        return self.answers[shape]

    def _probe(self, shape: Shape) -> str | None:
        marks = [f"mark{i}of{len(shape)}" for i in range(len(shape))]
        marked: Messages = [
            {"role": role, "content": mark} for role, mark in zip(shape, marks, strict=True)
        ]
        try:
            text = render(marked, self.tokenizer)
        except TemplateError as error:
            return str(error)
        for index, mark in enumerate(marks):
            if mark not in text:
                return (
                    f"the chat template drops turn {index + 1} of {len(shape)} ({shape[index]}) in "
                    f"conversations {' > '.join(shape)}; use a template that keeps it"
                )
        return None
