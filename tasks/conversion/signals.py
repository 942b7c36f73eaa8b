"""What a person should know of a pair's words, though nothing is wrong with it: counted only.

In:  a pair and the JSON bytes that are stored of it.
Out: notes, which the report counts per source; never the words themselves.

Bytes are searched, and mostly only for one mark: this runs on every pair.
"""

import re
import unicodedata
from collections import Counter
from typing import Any

from tasks.conversion.messages import Messages
from tasks.conversion.pair import Pair

_BIDIRECTIONAL = re.compile(b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
"""U+202A to U+202E and U+2066 to U+2069: text that is read in another order than it stands in."""
_SECRETS = (
    (b"AKIA", re.compile(rb"AKIA[0-9A-Z]{16}"), "access key"),
    (b"ghp_", re.compile(rb"ghp_[0-9A-Za-z]{36}"), "access token"),
    (b"sk-", re.compile(rb"\bsk-[0-9A-Za-z_-]{20,}"), "access token"),
    (b"PRIVATE KEY-----", re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "private key"),
    (b"eyJ", re.compile(rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"), "signed web token"),
    (b"@", re.compile(rb"[\w.+-]{1,64}@[\w-]{1,64}\.[A-Za-z]{2,}"), "e-mail address"),
)
"""A mark that is cheap to look for, what it is a part of, and what that is called."""
LETTERS = 200
"""Characters of an answer by which its script is told."""


def signals(pair: Pair, *stored: bytes | None) -> list[str]:
    """The notes on a canonical pair, each at most once."""
    notes: list[str] = []
    text = b"\0".join(part for part in stored if part)
    if not text.isascii():
        if _BIDIRECTIONAL.search(text):
            notes.append("text that is displayed in another order (bidirectional controls)")
        script = script_of(_words(pair.chosen)[:LETTERS])
        if script not in ("LATIN", ""):
            notes.append(f"answers in {script} script")
    notes += dict.fromkeys(
        f"text that looks like an {name}" if name[0] in "ae" else f"text that looks like a {name}"
        for mark, pattern, name in _SECRETS
        if mark in text and pattern.search(text)
    )
    if pair.format == "conversational":
        sides: list[Messages] = [[*(pair.prompt or []), *s] for s in (pair.chosen, pair.rejected)]
        if any(unmatched_tool_turn(side) is not None for side in sides):
            notes.append("tool turn without its call")
    return notes


def script_of(text: str) -> str:
    """The script of most letters, by their Unicode names; "" where there are none.

    >>> script_of("\u043f\u0440\u0438 hi")
    'CYRILLIC'
    """
    scripts = Counter(unicodedata.name(c, "?").split()[0] for c in text if c.isalpha())
    return scripts.most_common(1)[0][0] if scripts else ""


def unmatched_tool_turn(messages: Messages) -> int | None:
    """Position of the first tool turn that answers no call made before it, or None.

    By id where the turn states one and the calls have ids; else a call before it is enough.
    """
    ids: set[Any] = set()
    called = False
    for i, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            called = True
            ids.add(call.get("id"))
        if message["role"] == "tool":
            wanted = message.get("tool_call_id")
            named = ids - {None}
            if not called or (wanted is not None and named and wanted not in named):
                return i
    return None


def _words(answer: str | Messages) -> str:
    if isinstance(answer, str):
        return answer
    return " ".join(str(m["content"]) for m in answer if isinstance(m["content"], str))
