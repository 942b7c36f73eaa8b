"""Pairs whose structure has been seen, rendered by replaying what the template did then.

In:  columns of JSON texts; every turn of a plain row has a role and words that look harmless.
Out: both sides' texts, or None where the renderer proper has to look at the row.

A structure is all of a conversation but its texts: roles, tools, settings. The renderer renders
the first row of each; from its text and a trace of the template the replay is learned. One row in
`SAMPLE_EVERY`, and the first ones, are rendered both ways: see `shard`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from tasks.templating.conversations import turns_of
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
Parsed = tuple[Key, list[str]]
"""One side of a plain row: its structure and its contents."""
Plain = tuple[Parsed, Parsed]


@dataclass
class Structure:
    """How conversations of one structure are rendered: one replay per outcome of the tests."""

    paths: list[Replay] = field(default_factory=list[Replay])
    closed: bool = False
    """Nothing more is learned."""


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

    def parsed(
        self,
        columns: Sequence[Sequence[bytes]],
        tools: Sequence[str | None],
        settings: Sequence[str | None],
    ) -> list[Plain | None]:
        """Both sides of each row that is plain; `columns`: prompts, chosen and rejected as JSON."""
        count = len(tools)
        if self.tracer is None:
            return [None] * count
        try:
            prompts, chosen, rejected = map(turns_of, columns)
        except ValueError:  # what Python's parser takes and this one does not
            if count < 2:
                return [None] * count
            return [
                self.parsed([[c[n]] for c in columns], tools[n : n + 1], settings[n : n + 1])[0]
                for n in range(count)
            ]
        odd = set(prompts.odd | chosen.odd | rejected.odd)
        if self.special:
            odd.update(*(turns.suspicious(self.special) for turns in (prompts, chosen, rejected)))
        bounds = (pairwise(turns.bounds) for turns in (prompts, chosen, rejected))
        found: list[Plain | None] = []
        for n, ((a, b), (c, d), (e, f)) in enumerate(zip(*bounds, strict=True)):
            if n in odd:
                found.append(None)
                continue
            words, better, worse = prompts.contents[a:b], chosen.roles[c:d], rejected.roles[e:f]
            before = (tools[n], settings[n], *prompts.roles[a:b])
            key = (*before, *better)
            other = key if better == worse else (*before, *worse)
            found.append(
                ((key, words + chosen.contents[c:d]), (other, words + rejected.contents[e:f]))
            )
        return found

    def texts(self, plain: Plain) -> tuple[str, str] | None:
        """Both renderings, or None where one of them is new."""
        (key, chosen), (other, rejected) = plain
        if key is other and (structure := self.structures.get(key)) is not None:
            for replay in structure.paths:  # most often one, and both sides go the same way
                better, worse = replay(chosen), replay(rejected)
                if better is not None and worse is not None:
                    return better, worse
        better, worse = self.text(plain[0]), self.text(plain[1])
        return None if better is None or worse is None else (better, worse)

    def text(self, side: Parsed) -> str | None:
        """The rendering, or None where this structure, or this outcome of its tests, is new."""
        key, contents = side
        structure = self.structures.get(key)
        if structure is None:
            return None
        for replay in structure.paths:
            text = replay(contents)
            if text is not None:
                return text
        return None

    def learn(self, side: Parsed, text: str) -> None:
        """Traces the template on a side that the renderer rendered; kept where both agree."""
        key, contents = side
        structure = self.structures.get(key)
        if structure is None:
            if len(self.structures) >= MOST_STRUCTURES:
                return
            structure = self.structures[key] = Structure()
            structure.closed = not self._followed(key)
        if structure.closed or self.tracer is None:
            return
        tools, settings, *roles = key
        given = {"tools": parse_tools(tools), "documents": None, "add_generation_prompt": False}
        given |= dict(self.tokenizer.special_tokens_map)
        given |= orjson.loads(settings) if settings else {}
        replay = self.tracer.trace([{"role": r} for r in roles], contents, given)
        if replay is None or replay(contents) != text:
            structure.closed = True
            return
        structure.paths.append(replay)
        structure.closed = len(structure.paths) >= MOST_PATHS

    def _followed(self, key: Key) -> bool:
        """Whether tools and settings leave nothing to the renderer proper."""
        tools, settings, *_ = key
        if settings and orjson.loads(settings).keys() & SETTINGS_OF_ANOTHER_KIND:
            return False
        return not (tools and self.special and suspicious(parse_tools(tools), self.special))
