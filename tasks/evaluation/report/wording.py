"""Figures and texts as they stand on the page."""

import unicodedata
from typing import Any

from tasks.evaluation.measures.intervals import Interval

NOTHING = "–"
_MINUS = "\N{MINUS SIGN}"
_KEPT = "\n\t"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"
"""Format characters that scripts and emoji need."""


def visible(text: str) -> str:
    """The text with nothing in it that a reader cannot see: control characters, marks that turn the
    direction of writing, and code points without a character, each as [U+202E]."""
    if text.isprintable():
        return text
    return "".join(char if _is_seen(char) else f"[U+{ord(char):04X}]" for char in text)


def _is_seen(char: str) -> bool:
    return char in _KEPT or char in _JOINERS or unicodedata.category(char) not in _HIDDEN


def count(value: float | None) -> str:
    """`12,345`."""
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """`71.3 %`."""
    return NOTHING if value is None else f"{100 * value:z.1f} %".replace("-", _MINUS)


def share_interval(interval: Interval | None) -> str:
    """`68.9 to 73.6 %`."""
    if interval is None:
        return NOTHING
    low, high = (f"{100 * limit:z.1f}".replace("-", _MINUS) for limit in interval)
    return f"{low} to {high} %"


def number(value: float | None) -> str:
    """Three figures, such as `0.613` or `12.4`."""
    if value is None:
        return NOTHING
    text = (
        f"{value:z.3f}"
        if abs(value) < 10
        else f"{value:.1f}"
        if abs(value) < 1e4
        else f"{value:.3g}"
    )
    return text.replace("-", _MINUS)


def interval(found: Interval | None) -> str:
    """`0.52 to 0.71`."""
    return NOTHING if found is None else f"{number(found[0])} to {number(found[1])}"


def plain(value: Any) -> str:
    """A fact of any kind in one line."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return NOTHING if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def worded(name: str) -> str:
    """A figure's name as words."""
    return name.replace("_", " ")
