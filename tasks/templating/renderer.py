"""Both texts of a canonical pair, or the reason why it has none.

    prompt ─┬─ chosen   ─ template, or as text with EOS ─┐
            │                                            ├─ every turn there? one BOS? they differ?
            └─ rejected ─ template, or as text with EOS ─┘

The only place where a row is checked in full. The faster ways (`replaying`, `columns`,
`plain_texts`) give the same texts for rows that need fewer checks, and are compared with this one.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from tasks.conversion.conversation.messages import image_parts
from tasks.conversion.unusable import Unusable
from tasks.errors import TemplateError, shown
from tasks.templating.limits import (
    CPU_SECONDS,
    LENGTH_ALLOWANCE,
    LENGTH_FACTOR,
    OverLimit,
    cpu_limit,
)
from tasks.templating.parts import missing_text, other_part, text_only
from tasks.templating.pictures import Pictures
from tasks.templating.refusals import (
    forgery,
    looked_into,
    over_limit,
    own_bos,
    private_use,
    same_texts,
)
from tasks.templating.render import Messages, no_template, parse_tools, render_with
from tasks.templating.tokenizer.bos import bos_problem
from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.templating.tokenizer.special_tokens import (
    ALIASES,
    Literals,
    Policy,
    blanked,
    special_tokens,
)
from tasks.templating.tokenizer.stand_ins import DOCUMENTS, held, with_literals
from tasks.templating.traced.probe import TemplateProbe
from tasks.templating.turn_order import unusual_order

Side = Literal["chosen", "rejected"]


@dataclass(frozen=True)
class Rendered:
    """The text of one side, prompt included, and where it must be tokenized as ordinary text."""

    text: str
    literals: Literals = ()
    """Empty unless special tokens in the row's own text would otherwise be read as markup."""


@dataclass
class Renderer:
    """Renders canonical pairs with one tokenizer."""

    tokenizer: Any
    policy: Policy
    cpu_seconds: float = CPU_SECONDS
    """Processor time that rendering one row may take."""
    images: bool = False
    """Whether image parts are rendered, and their placeholders counted; else they are refused."""

    def __post_init__(self) -> None:
        self.probe = TemplateProbe(self.tokenizer)
        self.pictures = Pictures(self.tokenizer)
        self.own = own_tokens(self.tokenizer)
        self.special = None if self.policy == "keep" else special_tokens(self.tokenizer)

    def sides(self, row: dict[str, Any]) -> tuple[Rendered, Rendered]:
        """The chosen and the rejected side.

        Raises:
            Unusable: the row's text could be taken for markup, the template refuses the row,
                loses a part of it or takes too long, or both sides come out equal.
            TemplateError: there is no template.
        """
        try:
            with cpu_limit(self.cpu_seconds):
                return self._sides(row)
        except OverLimit as error:
            raise over_limit(str(error)) from None

    def _sides(self, row: dict[str, Any]) -> tuple[Rendered, Rendered]:
        side = self._conversation if row["format"] == "conversational" else self._text
        chosen, rejected = side(row, "chosen"), side(row, "rejected")
        if chosen == rejected:
            raise same_texts()
        return chosen, rejected

    def _text(self, row: dict[str, Any], side: Side) -> Rendered:
        prompt: str = json.loads(row["prompt"]) if row["prompt"] is not None else ""
        whole = prompt + json.loads(row[side])
        text, literals, forged = self.own.with_literals(whole, self.special)
        if forged is None:
            return Rendered(text)
        in_prompt = self.special and self.special.pattern.search(prompt)
        return self._literal(text, literals, forged, "prompt" if in_prompt else side)

    def _conversation(self, row: dict[str, Any], side: Side) -> Rendered:
        if self.tokenizer.chat_template is None:
            raise no_template()
        prompt: Messages = json.loads(row["prompt"]) if row["prompt"] is not None else []
        messages: Messages = [*prompt, *json.loads(row[side])]
        if other := other_part(messages, images=self.images):
            raise text_only(f"a message has a part of type {shown(other)}")
        images = image_parts(messages)
        if images:
            messages = self.pictures.readable(messages)
        tools = parse_tools(row["tools"])
        settings = json.loads(row["chat_template_kwargs"]) if row["chat_template_kwargs"] else {}
        if self.special and self.policy == "quarantine":
            words = {"prompt": prompt, side: messages, "tools": tools}
            words["chat_template_kwargs"] = settings.get(DOCUMENTS)
            for name, value in words.items():
                if forged := held(value, self.special):
                    raise forgery(name, forged)
        rendered = self._in_order(messages, tools, settings, side)
        size = sum(len(row[n] or "") for n in ("prompt", side, "tools", "chat_template_kwargs"))
        if len(rendered.text) > LENGTH_ALLOWANCE + LENGTH_FACTOR * size:
            raise over_limit(f"made {len(rendered.text):,} characters of a row of {size:,}")
        if missing := missing_text(messages, rendered.text):
            raise Unusable("template_drops_turn", side, missing)
        if images:
            self.pictures.check(messages, blanked(rendered.text, rendered.literals), side)
        bos = self.own.bos
        if bos and (problem := bos_problem(blanked(rendered.text, rendered.literals), bos)):
            if str(messages[0].get("content")).lstrip().startswith(bos):
                raise own_bos(bos)
            raise Unusable("template_error", side, problem)
        return rendered

    def _in_order(
        self, messages: Messages, tools: Any, settings: dict[str, Any], side: Side
    ) -> Rendered:
        """The rendering; where the template refuses or drops turns in an unusual order, the error
        names that order."""
        try:
            rendered = self._rendered(messages, tools, settings, side)
            if lost := self.probe.lost(messages, tools, settings):
                raise Unusable(lost.reason, side, lost.message)
        except Unusable as problem:
            order = unusual_order(messages)
            if order is None or problem.reason not in ("template_error", "template_drops_turn"):
                raise
            reason, sentence = order
            raise Unusable(reason, side, f"{sentence}; {problem.message}") from None
        return rendered

    def _rendered(
        self, messages: Messages, tools: Any, settings: dict[str, Any], side: Side
    ) -> Rendered:
        def rendering(messages: Messages, tools: Any, settings: dict[str, Any]) -> str:
            return render_with(messages, self.tokenizer, tools, settings)

        try:
            text, literals, forged = with_literals(
                rendering, self.special, messages, tools, settings
            )
        except TemplateError as error:
            raise Unusable("template_error", side, str(error)) from error
        if forged is None:
            return Rendered(text)
        if self.policy == "encode":
            with suppress(TemplateError):  # it refuses such words, which it is not shown
                if text != rendering(messages, tools, settings):
                    raise looked_into(side, forged)
        return self._literal(text, literals, forged, side)

    def _literal(self, text: str, literals: Literals, forged: str, field: str) -> Rendered:
        if self.policy == "quarantine":
            raise forgery(field, forged)
        if ALIASES.search(text):
            raise private_use(field)
        return Rendered(text, literals)
