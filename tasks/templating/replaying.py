"""Pairs whose structure has been seen, rendered by replaying what the template did then.

In:  rows of plain conversations: every message has a role and a text, no text is suspicious.
Out: both sides' texts, or None where the renderer proper has to look at the row.

A structure is all of a conversation but its texts: roles, tools, settings. The renderer renders
the first row of each; from its text and a trace of the template the replay is learned. One row in
`SAMPLE_EVERY`, and the first ones, are rendered both ways: see `shard`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tasks.templating.render import parse_tools
from tasks.templating.special_tokens import SpecialTokens, suspicious
from tasks.templating.tracing import Replay, Tracer, tracer

MOST_PATHS = 16
MOST_STRUCTURES = 2048
KEYS = {"role", "content"}
SETTINGS_OF_ANOTHER_KIND = frozenset(
    {
        *("chat_template", "tokenize", "documents", "messages", "tools", "add_generation_prompt"),
        *("continue_final_message", "padding", "truncation", "max_length", "return_tensors"),
        *("return_dict", "tokenizer_kwargs", "conversation"),
    }
)

Key = tuple[str | None, ...]
"""Tools, settings, and the roles of all turns."""


@dataclass
class Structure:
    """How conversations of one structure are rendered: one replay per outcome of the tests."""

    paths: list[Replay] = field(default_factory=list[Replay])
    closed: bool = False
    """Nothing more is learned."""


@dataclass(frozen=True)
class Parsed:
    """One side of a plain row."""

    key: Key
    contents: list[str]


@dataclass
class Replayer:
    """Replays with one tokenizer's template; learns from a renderer's texts."""

    tokenizer: Any
    special: SpecialTokens | None
    structures: dict[Key, Structure] = field(default_factory=dict[Key, Structure])

    def __post_init__(self) -> None:
        template = self.tokenizer.chat_template
        self.tracer: Tracer | None = tracer(template) if isinstance(template, str) else None
        names = [{name: ""} for name in KEYS]
        if self.special and suspicious(names, self.special):
            self.tracer = None

    def parsed(self, row: Sequence[Any]) -> tuple[Parsed, Parsed] | None:
        """Both sides of a row (prompt, chosen, rejected, tools, settings: JSON), if it is plain."""
        if self.tracer is None:
            return None
        try:
            return self._parsed(*row)
        except orjson.JSONDecodeError:  # what Python's parser takes and this one does not
            return None

    def _parsed(
        self,
        prompt: str | None,
        chosen: str,
        rejected: str,
        tools: str | None,
        settings: str | None,
    ) -> tuple[Parsed, Parsed] | None:
        turns = orjson.loads(prompt) if prompt is not None else []
        roles: list[str | None] = [tools, settings]
        contents: list[str] = []
        if not self._plain(turns, roles, contents):
            return None
        sides: list[Parsed] = []
        for side in (chosen, rejected):
            own_roles, own = roles.copy(), contents.copy()
            if not self._plain(orjson.loads(side), own_roles, own):
                return None
            sides.append(Parsed(tuple(own_roles), own))
        return sides[0], sides[1]

    def text(self, side: Parsed) -> str | None:
        """The rendering, or None where this structure, or this outcome of its tests, is new."""
        structure = self.structures.get(side.key)
        if structure is None:
            return None
        for replay in structure.paths:
            text = replay(side.contents)
            if text is not None:
                return text
        return None

    def learn(self, side: Parsed, text: str) -> None:
        """Traces the template on a side that the renderer rendered; kept where both agree."""
        structure = self.structures.get(side.key)
        if structure is None:
            if len(self.structures) >= MOST_STRUCTURES:
                return
            structure = self.structures[side.key] = Structure()
            structure.closed = not self._followed(side.key)
        if structure.closed or self.tracer is None:
            return
        tools, settings, *roles = side.key
        given = {"tools": parse_tools(tools), "documents": None, "add_generation_prompt": False}
        given |= dict(self.tokenizer.special_tokens_map)
        given |= orjson.loads(settings) if settings else {}
        replay = self.tracer.trace([{"role": r} for r in roles], side.contents, given)
        if replay is None or replay(side.contents) != text:
            structure.closed = True
            return
        structure.paths.append(replay)
        structure.closed = len(structure.paths) >= MOST_PATHS

    def _plain(self, turns: Any, roles: list[str | None], contents: list[str]) -> bool:
        """Whether all turns are; their roles and contents are added."""
        special = self.special
        for turn in turns:
            content = turn.get("content")
            if type(content) is not str or not content or len(turn) != 2:
                return False
            if special is not None and not special.innocent(content):
                return False
            roles.append(turn.get("role"))
            contents.append(content)
        return True

    def _followed(self, key: Key) -> bool:
        """Whether tools and settings leave nothing to the renderer proper."""
        tools, settings, *roles = key
        if any(type(role) is not str for role in roles):
            return False
        if settings and orjson.loads(settings).keys() & SETTINGS_OF_ANOTHER_KIND:
            return False
        return not (tools and self.special and suspicious(parse_tools(tools), self.special))
