"""What a trace came to, as functions that make the same of other contents.

In:  the parts of a traced text, and the answers of all tests that the template made on the way.
Out: functions of a conversation's contents that give its text, or None where a test comes out
     otherwise.

    parts  "<|im_start|>user\\n", c[0], ...     tests  not ('</think>' in c[1]), ...
        ->  b"".join((b"<|im_start|>user\\n", e[0], ...)) if not ('</think>' in c[1]) else None

They make UTF-8, which is what is stored: contents are encoded once (`e`) for all that says them.
Most tests look for a mark that hardly any text holds. Where one look at many rows tells that none
of them has a mark's first character, nobody asks every content for the mark.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tasks.templating.environment import tojson
from tasks.templating.traced.symbols import Part

Replay = Callable[[Sequence[str], Sequence[bytes]], bytes | None]
"""The text for other contents, none of them empty, which are also given as UTF-8; or None where a
test comes out otherwise than in the trace."""
_CONTENT = re.compile(r"c\[(\d+)\]")
_BARE = r"c\[(\d+)\](?:\.[lr]?strip\((?:None|'(?: |\\[nrt])+')?\))*"
"""A content, or what is left of it without white space around it."""
_MARK = r"""(?P<quote>['"])(?P<mark>[^\w'"\\][^'"\\]*)(?P=quote)"""
_WHOLE, _ANYTHING = re.compile(_BARE), re.compile(rf"bool\({_BARE}\)")
_IN = re.compile(rf"\({_MARK} in {_BARE}\)")
_AT_AN_END = re.compile(rf"{_BARE}\.(?:starts|ends)with\({_MARK}\)")
_ALWAYS = re.compile(r"bool\(c\[\d+\]\)")
"""True of every content: none is empty."""
_LOOKED_FOR = re.compile(r"""\((['"])([^\w'"\\][^'"\\]*)\1 in c\[\d+\]\)""")
"""A mark that begins with no letter: those are everywhere."""


class Replays(NamedTuple):
    """What one trace taught."""

    replay: Replay
    calm: Replay | None
    """The same of contents that hold none of `firsts`; None: such contents come out otherwise."""
    firsts: frozenset[str]
    """The first characters of the marks that are looked for in contents."""
    joint: "Joint | None"
    """The same as data."""


class Joint(NamedTuple):
    """A text as what it is joined of, where no content has white space around it, or one of
    `firsts` in it."""

    parts: tuple[bytes | int, ...]
    """Text, and places of contents."""
    bared: bool
    """Whether white space around contents is cut off, or asked for."""
    firsts: frozenset[str]
    """The first characters of all marks that are looked for, in ASCII."""


def replays_of(parts: Sequence[Part], tests: dict[tuple[str, bool], None]) -> Replays:
    """The noted tests and joins as functions; all their text is made by `symbols`."""
    merged: list[Part] = []
    for part in parts:
        if merged and not part[0] and not merged[-1][0]:
            merged[-1] = (False, merged[-1][1] + part[1])
        else:
            merged.append(part)
    joined = "".join(f"{_encoded(part)}, " for part in merged)
    told = [(test, answer) for test, answer in tests if not (answer and _ALWAYS.fullmatch(test))]
    marks = {(test, answer): m[2] for test, answer in told if (m := _LOOKED_FOR.fullmatch(test))}
    whole = _function(joined, told)
    calm = None if any(answer for _, answer in marks) else whole
    if calm and marks:
        calm = _function(joined, [test for test in told if test not in marks])
    firsts = frozenset(mark[0] for mark in marks.values())
    return Replays(whole, calm, firsts, _joint(merged, tests))


def _joint(merged: Sequence[Part], tests: Iterable[tuple[str, bool]]) -> Joint | None:
    """The parts as data; None where they are more than contents, or a test looks for more than a
    mark that is not there."""
    firsts: set[str] = set()
    bared = any(made and not _CONTENT.fullmatch(text) for made, text in merged)
    for test, answer in tests:
        if answer and _ANYTHING.fullmatch(test):
            bared = bared or not _ALWAYS.fullmatch(test)
            continue
        found = _IN.fullmatch(test) or _AT_AN_END.fullmatch(test)
        if answer or found is None or not found["mark"].isascii():
            return None
        firsts.add(found["mark"][0])
    parts: list[bytes | int] = []
    for made, text in merged:
        content = _WHOLE.fullmatch(text) if made else None
        if made and content is None:
            return None
        parts.append(int(content[1]) if content else text.encode())
    return Joint(tuple(parts), bared, frozenset(firsts)) if parts else None


def replayed(replay: Replay, contents: Sequence[str]) -> str | None:
    """What a replay makes of contents, as text."""
    found = replay(contents, list(map(str.encode, contents)))
    return None if found is None else found.decode()


def _function(joined: str, tests: Iterable[tuple[str, bool]]) -> Replay:
    same = " and ".join(f"{'' if answer else 'not '}{test}" for test, answer in tests) or "True"
    source = f"lambda c, e: join(({joined})) if {same} else None"
    replay: Replay = eval(source, {"tojson": tojson, "join": b"".join})
    return replay


def _encoded(part: Part) -> str:
    """The expression for a part of a text as UTF-8."""
    made, text = part
    if not made:
        return repr(text.encode())
    whole = _CONTENT.fullmatch(text)
    return f"e[{whole[1]}]" if whole else f"{text}.encode()"
