"""Pairs whose structure is known, rendered by replaying what the template did with the first one.

In:  conversations of plain rows whose contents hold no special token.
Out: both sides' texts, row after row, up to the first row that needs the renderer.

    a structure's first row  ─ renderer ─ text ─┬─ written
                                  trace ────────┴─ equal? then its replay is learned
    rows of that structure   ─ replay ─ text, or None: a test had another result ─ renderer

A structure is everything of a conversation but its texts: roles, tools and settings. One row in
`SAMPLE_EVERY`, and the first ones, are rendered both ways: see `shard_rows`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tasks.templating.limits import LENGTH_ALLOWANCE
from tasks.templating.render import parse_tools
from tasks.templating.replay.conversations import Key, Plain, Side
from tasks.templating.tokenizer.bos import begins_badly
from tasks.templating.tokenizer.plain_tokenizer import UNUSED
from tasks.templating.tokenizer.special_tokens import SpecialTokens
from tasks.templating.traced.text import Joint, Replay, replayed
from tasks.templating.traced.tracing import Tracer, tracer

MOST_PATHS = 16
MOST_STRUCTURES = 2048

Pair = tuple[list[Replay], list[Replay]]
"""The replays of both sides."""
BothTexts = tuple[list[bytes], list[bytes]]
"""The chosen and the rejected texts of some rows, as UTF-8."""


@dataclass
class Structure:
    """How conversations of one structure are rendered: one replay per combination of test results.

    See `traced/text.py` for what the replays are.
    """

    paths: list[Replay] = field(default_factory=list[Replay])
    calm: list[Replay] = field(default_factory=list[Replay])
    """The replays for contents that surely hold no marker, without the searches for markers."""
    joint: Joint | None = None
    """The rendering as literals and contents, for contents that need no test."""
    closed: bool = False
    """Whether no further replays are learned."""


@dataclass
class Replayer:
    """Replays with one tokenizer's template; learns from a renderer's texts, of whatever shard."""

    tokenizer: Any
    special: SpecialTokens | None
    bos: str | None = None
    structures: dict[Key, Structure] = field(default_factory=dict[Key, Structure])

    def __post_init__(self) -> None:
        template = self.tokenizer.chat_template
        self.tracer: Tracer | None = tracer(template) if isinstance(template, str) else None
        self._firsts: set[str] = set()
        """First characters of the markers that templates search for; rows without any are calm."""
        self._pairs: dict[tuple[Any, ...], Pair] = {}
        """By whether a row is calm, and by its shape."""

    def begin(self) -> None:
        """To be called before each shard: forgets all structures if there is no room for more."""
        if len(self.structures) >= MOST_STRUCTURES:
            self.structures.clear()
            self._firsts.clear()
            self._pairs.clear()

    def end(self) -> None:
        """Stops replaying for good: a replay has been wrong."""
        self.tracer = None

    def replay(self, plain: Plain, start: int, stop: int, texts: BothTexts) -> int:
        """Adds both texts of each row from `start` on to `texts`; returns where it stopped.

        That is at `stop`, or at the first row that needs the renderer, if only to say what is wrong
        with it. None of these rows may be odd.
        """
        calm = not plain.piece.may_hold(self._firsts)
        known, bos, most = self._pairs.get, self.bos, LENGTH_ALLOWANCE
        roles, contents, encoded = plain.turns.roles, plain.turns.contents, plain.turns.encoded
        add_chosen, add_rejected = texts[0].append, texts[1].append
        for n, tools, settings, a, b, c, d in plain.rows(start, stop):
            shape = (calm, tools, settings, b - a, c - b, *roles[a:d])
            paths = known(shape) or self._pair(shape)
            if paths is None:
                return n
            words, utf8 = contents[a:c], encoded[a:c]
            for replay in paths[0]:  # most often one
                chosen = replay(words, utf8)
                if chosen is not None:
                    break
            else:
                return n
            words[b - a :], utf8[b - a :] = contents[c:d], encoded[c:d]
            for replay in paths[1]:
                rejected = replay(words, utf8)
                if rejected is not None:
                    break
            else:
                return n
            long = len(chosen) + len(rejected) > most and _too_long(chosen, rejected)
            if long or chosen == rejected:
                return n
            if bos and (begins_badly(chosen, bos) or begins_badly(rejected, bos)):
                return n
            add_chosen(chosen)
            add_rejected(rejected)
        return stop

    def known(self, plain: Plain, row: int) -> tuple[str, str] | None:
        """Both texts of one row, or None where it needs the renderer."""
        texts = both_texts()
        if self.replay(plain, row, row + 1, texts) == row:
            return None
        return texts[0][0].decode(), texts[1][0].decode()

    def text(self, side: Side) -> str | None:
        """The rendering, or None where its structure or its combination of test results is new."""
        key, contents = side
        structure = self.structures.get(key)
        if structure is None:
            return None
        for replay in structure.paths:
            text = replayed(replay, contents)
            if text is not None:
                return text
        return None

    def learn(self, side: Side, text: str) -> None:
        """Traces the template on a side that the renderer has rendered to `text`, and keeps the
        replay if it gives the same text."""
        key, contents = side
        structure = self.structures.get(key)
        if structure is None:
            if len(self.structures) >= MOST_STRUCTURES:
                return
            structure = self.structures[key] = Structure()
        if structure.closed or self.tracer is None:
            return
        tools, settings, *roles = key
        variables = {"tools": parse_tools(tools), "documents": None, "add_generation_prompt": False}
        variables |= dict(self.tokenizer.special_tokens_map)
        given: dict[str, Any] = orjson.loads(settings) if settings else {}
        variables |= {name: value for name, value in given.items() if name not in UNUSED}
        traced = self.tracer.trace([{"role": r} for r in roles], contents, variables)
        if traced is None or replayed(traced.replay, contents) != text:
            structure.closed = True
            return
        structure.paths.append(traced.replay)
        if traced.calm is not None:
            structure.calm.append(traced.calm)
        structure.joint = structure.joint or traced.joint
        self._firsts |= traced.firsts
        structure.closed = len(structure.paths) >= MOST_PATHS

    def joints(self, roles: Sequence[str], *answers: Sequence[str]) -> list[Joint]:
        """The joints of conversations with these roles and each of these answers' roles, without
        tools and settings; an empty list where one of them is not known."""
        structures = (self.structures.get((None, None, *roles, *answer)) for answer in answers)
        joints = [structure.joint for structure in structures if structure and structure.joint]
        return joints if len(joints) == len(answers) else []

    def _pair(self, shape: tuple[Any, ...]) -> Pair | None:
        """The replays of both sides of rows of one shape; None where one of them is new."""
        calm, tools, settings, in_prompt, in_chosen, *roles = shape
        context = (tools, settings, *roles[:in_prompt])
        chosen = self.structures.get((*context, *roles[in_prompt : in_prompt + in_chosen]))
        rejected = self.structures.get((*context, *roles[in_prompt + in_chosen :]))
        if chosen is None or rejected is None:
            return None
        if len(self._pairs) >= MOST_STRUCTURES:
            self._pairs.clear()
        both = (chosen.calm, rejected.calm) if calm else (chosen.paths, rejected.paths)
        self._pairs[shape] = both
        return both


def both_texts() -> BothTexts:
    """The texts of no row, to add to."""
    return [], []


def _too_long(*texts: bytes) -> bool:
    """Whether one has more characters than every row may have: then the renderer has to decide."""
    return any(len(text.decode()) > LENGTH_ALLOWANCE for text in texts)
