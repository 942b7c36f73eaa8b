"""What a table of the page is made of: headings and cells of text, nothing of HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """One table; all columns but the first `names` hold numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    names: int = 1
    strong: frozenset[int] = field(default_factory=frozenset[int])
    """Rows that stand out."""
    folded: bool = False
    """Shown only when asked for."""
