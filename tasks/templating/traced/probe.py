"""Which parts of a conversation a template drops, found once per shape by rendering marked text.

A shape is everything of a conversation but its words: roles, names and identifiers, which turns
have content and calls, how calls and tools are written, and the template's further arguments. Every
turn, call, argument and tool gets a marker of its own; a marker that is missing from the rendering
is something that the model would never see.

    user > assistant (1 call) > tool > assistant, with 1 tool
        -> "the chat template drops the calls of turn 2 of 4 (assistant) ..."

Templates may test the words, too: marked text is tried plain and after a think block, and what
survives in either counts as kept. A template that refuses the marked text (the row itself was
rendered before) is not judged by it. The result depends only on what is rendered for it, so it is
the same whichever row of a shape came first.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from tasks.errors import TemplateError
from tasks.templating.render import Messages, render_with

Reason = Literal["template_drops_turn", "template_drops_tools"]
Tools = list[dict[str, Any]] | None
Style = Literal["plain", "after_thinking"]
STYLES: tuple[Style, ...] = ("plain", "after_thinking")
MOST_SHAPES = 2**14
"""Shapes whose results are remembered at most."""


@dataclass(frozen=True)
class Lost:
    """What never reaches the model."""

    reason: Reason
    message: str


@dataclass
class TemplateProbe:
    """The results per shape, each found once."""

    tokenizer: Any
    answers: dict[bytes, Lost | None] = field(default_factory=dict[bytes, Lost | None])

    def lost(
        self, messages: Messages, tools: Tools = None, settings: Mapping[str, Any] | None = None
    ) -> Lost | None:
        """What of such a conversation the template drops, or None."""
        marked = _marked_turns(messages, "plain")
        rendered = json.dumps([marked, _marked_tools(tools), dict(settings or {})])
        shape = hashlib.sha256(rendered.encode()).digest()
        if shape not in self.answers:
            if len(self.answers) >= MOST_SHAPES:
                self.answers.clear()
            self.answers[shape] = self._probe(messages, tools, settings or {})
        return self.answers[shape]

    def _probe(self, messages: Messages, tools: Tools, settings: Mapping[str, Any]) -> Lost | None:
        renderings, lost = "", None
        for style in STYLES:
            marked = _marked_turns(messages, style)
            try:
                renderings += render_with(marked, self.tokenizer, _marked_tools(tools), settings)
            except TemplateError:
                continue
            lost = _missing(messages, tools, renderings)
            if lost is None:
                return None
        return lost


def _marked_turns(messages: Messages, style: Style) -> Messages:
    return [_marked(turn, i, style) for i, turn in enumerate(messages)]


def _marked(turn: Mapping[str, Any], index: int, style: Style) -> dict[str, Any]:
    """The turn with a mark for its text, and for the name and the argument of each call."""
    marked = dict(turn)
    if turn.get("content"):
        thinking = style == "after_thinking" and turn["role"] == "assistant"
        before = "<think>\nthought\n</think>\n\n" if thinking else ""
        marked["content"] = _marked_content(turn["content"], before + _turn_mark(index))
    if turn.get("tool_calls"):
        marked["tool_calls"] = [
            _marked_call(call, index, n) for n, call in enumerate(turn["tool_calls"])
        ]
    return marked


def _marked_content(content: Any, mark: str) -> Any:
    """The mark in place of the words; other parts than texts stay."""
    if not isinstance(content, list):
        return mark
    parts = cast(list[dict[str, Any]], content)
    return [{**part, "text": mark} if "text" in part else part for part in parts]


def _marked_call(call: Mapping[str, Any], index: int, number: int) -> dict[str, Any]:
    function = {**_function(call), "name": _call_mark(index, number)}
    arguments = function.get("arguments")
    if _arguments(arguments):
        value = {"key": _argument_mark(index, number)}
        function["arguments"] = json.dumps(value) if isinstance(arguments, str) else value
    return {**call, "function": function} if "function" in call else function


def _marked_tools(tools: Tools) -> Tools:
    if not tools:
        return None
    marked: list[dict[str, Any]] = []
    for n, tool in enumerate(tools):
        function = {**_function(tool), "name": _tool_mark(n)}
        if _properties(tool):
            value = {"type": "string", "description": "key"}
            function["parameters"] = {
                "type": "object",
                "properties": {_parameter_mark(n): value},
                "required": [],
            }
        marked.append({**tool, "function": function} if "function" in tool else function)
    return marked


def _missing(messages: Messages, tools: Tools, text: str) -> Lost | None:
    """The first thing whose mark is not in the rendering, in letters of either case."""
    text = text.lower()
    for n, tool in enumerate(tools or ()):
        marks = [_tool_mark(n), *([_parameter_mark(n)] if _properties(tool) else [])]
        if not all(mark in text for mark in marks):
            what = "the tools" if marks[0] not in text else "the parameters of the tools"
            return _tools_lost(what, "that a row declares")
    path = " > ".join(str(turn["role"]) for turn in messages)
    for i, turn in enumerate(messages):
        where = f"turn {i + 1} of {len(messages)} ({turn['role']}) in conversations {path}"
        for n, call in enumerate(turn.get("tool_calls") or ()):
            arguments = _arguments(_function(call).get("arguments"))
            if _call_mark(i, n) not in text:
                return _tools_lost("the tool calls of", where)
            if arguments and _argument_mark(i, n) not in text:
                return _tools_lost("the arguments of the tool calls of", where)
        if turn.get("tool_calls") or not _has_words(turn.get("content")) or _turn_mark(i) in text:
            continue  # of a turn with calls, these are what has to survive
        if turn["role"] == "tool":
            return _tools_lost("the tool result,", where)
        advice = f"the chat template drops {where}; use a template that keeps it"
        return Lost("template_drops_turn", advice)
    return None


def _has_words(content: Any) -> bool:
    if not isinstance(content, list):
        return bool(content)
    return any("text" in part for part in cast(list[dict[str, Any]], content))


def _tools_lost(what: str, where: str) -> Lost:
    message = (
        f"the chat template drops {what} {where}: the model would judge answers without seeing "
        "them; set templating.chat_template_path to a template with tool calling, or leave such "
        "rows out"
    )
    return Lost("template_drops_tools", message)


def _function(value: Mapping[str, Any]) -> dict[str, Any]:
    """The inside of a call or of a tool, which may be written without its `function`."""
    return dict(value.get("function") or value)


def _arguments(arguments: Any) -> Any:
    """The arguments of a call, whether an object or its JSON text."""
    return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments


def _properties(tool: Mapping[str, Any]) -> Any:
    parameters = _function(tool).get("parameters")
    if not isinstance(parameters, dict):
        return None
    return cast(dict[str, Any], parameters).get("properties")


def _turn_mark(index: int) -> str:
    return f"turnmark{index}x"


def _call_mark(index: int, number: int) -> str:
    return f"callmark{index}x{number}x"


def _argument_mark(index: int, number: int) -> str:
    return f"argumentmark{index}x{number}x"


def _tool_mark(number: int) -> str:
    return f"toolmark{number}x"


def _parameter_mark(number: int) -> str:
    return f"parametermark{number}x"
