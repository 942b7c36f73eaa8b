"""Markdown for Prefect's browser interfaces: text that shows as itself, tables, nested facts.

Text that comes out of data, params or errors stands in a page through `literal`: no markup, no
link, no image and no table cell of its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST_TEXT = 500
_JOINERS = "\u200c\u200d"
"""Within Persian words, and emoji of several: they show nothing of their own."""
_MARKER = re.compile(r"^(\d*)([-+.])")
_WORD_JOINER = "\u2060"
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#!|&~$]")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)


def literal(text: object, limit: int = LONGEST_TEXT) -> str:
    """`text` as Markdown that shows exactly these characters, in one line; cut to `limit`.

    Backslashes, because one of Prefect's two browser interfaces shows entities as they are; and an
    invisible joiner inside of web addresses, because both make links of bare ones.
    """
    shown = " ".join(str(text).split())
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    shown = "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in shown)
    return _LINK.sub(_WORD_JOINER, _MARKUP.sub(r"\\\g<0>", shown))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A table; the last `numbers` columns are aligned to the right."""
    rules = ["---"] * (len(headings) - numbers) + ["--:"] * numbers
    cells = [[literal(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(headings), rules, *cells])


def bullets(texts: Iterable[object]) -> str:
    """A list, one text a point."""
    return "\n".join(f"- {_MARKER.sub(_escaped, literal(text))}" for text in texts)


def _escaped(marker: "re.Match[str]") -> str:
    """What would begin a list within the point, or draw a rule, as characters."""
    return f"{marker[1]}\\{marker[2]}"


def flattened(value: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """Nested facts as `(dotted.name, text)`; floats to five significant digits."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flattened(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        yield name, ", ".join(_brief(item) for item in value)
    else:
        yield name, _brief(value)


def count(value: Any) -> str:
    """`12,345`; nothing where there is no number."""
    return "" if value is None else f"{value:,}"


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
