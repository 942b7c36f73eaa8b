"""Both texts of a canonical pair, or the reason why it has none."""

import json
import re
from dataclasses import dataclass
from typing import Any

from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError, shown
from tasks.templating.probe import TemplateProbe
from tasks.templating.render import Messages, parse_tools, render, with_end


@dataclass
class Renderer:
    """Both texts of a canonical pair, or the reason why it has none."""

    tokenizer: Any
    forged: "re.Pattern[str] | None"
    """Finds a special token inside a row's own text; None: such text is kept as it is."""

    def __post_init__(self) -> None:
        self.probe = TemplateProbe(self.tokenizer)

    def texts(self, row: dict[str, Any]) -> tuple[str, str]:
        """The chosen and the rejected text, prompt included.

        Raises:
            Unusable: the row's text could be taken for markup, the template refuses the row or
                loses a part of it, or both sides come out equal.
        """
        if self.forged:
            self._refuse_forged(row)
        if row["format"] == "conversational":
            chosen, rejected = (self._conversation(row, side) for side in ("chosen", "rejected"))
        else:
            prompt = json.loads(row["prompt"]) if row["prompt"] is not None else ""
            end = self.tokenizer.eos_token
            sides = (json.loads(row["chosen"]), json.loads(row["rejected"]))
            chosen, rejected = (with_end(prompt + side, end) for side in sides)
        if chosen == rejected:
            raise Unusable(
                "identical_rendered",
                "chosen",
                "both sides are the same text once rendered: the template drops what differs",
            )
        return chosen, rejected

    def _conversation(self, row: dict[str, Any], side: str) -> str:
        prompt = json.loads(row["prompt"]) if row["prompt"] is not None else []
        messages: Messages = [*prompt, *json.loads(row[side])]
        lost = self.probe.lost(messages)
        if lost:
            raise Unusable("template_drops_turn", side, lost)
        kwargs = json.loads(row["chat_template_kwargs"]) if row["chat_template_kwargs"] else {}
        try:
            return render(messages, self.tokenizer, parse_tools(row["tools"]), **kwargs)
        except TemplateError as error:
            raise Unusable("template_error", side, str(error)) from error

    def _refuse_forged(self, row: dict[str, Any]) -> None:
        assert self.forged is not None
        for name in ("prompt", "chosen", "rejected"):
            found = self.forged.search(row[name] or "")
            if found:
                raise Unusable(
                    "special_token_in_text",
                    name,
                    f"the text holds the special token {shown(found.group())}, which the model "
                    "would read as markup; mend the row, or set "
                    "templating.special_tokens_in_text: keep",
                )


def special_token_pattern(tokenizer: Any) -> "re.Pattern[str] | None":
    """Matches any special token of the tokenizer as it stands in JSON text."""
    tokens = {str(t) for t in tokenizer.all_special_tokens}
    tokens |= {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
    escaped = sorted(
        (json.dumps(t, ensure_ascii=False)[1:-1] for t in tokens if t.strip()), key=len
    )
    return re.compile("|".join(re.escape(t) for t in reversed(escaped))) if escaped else None
