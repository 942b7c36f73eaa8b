"""Ties: pairs neither side of which is better. Left out and counted, or kept with preference 0.5.

A layout that finds a tie returns it with its reason and with the pair that it would be; the params
(`ties`) say which of the two is taken.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tasks.conversion.preference.pair import TIE, Pair
from tasks.conversion.unusable import Unusable

Ties = Literal["drop", "keep"]


class Tie(Unusable):
    """The reason of one tie, or of the ties of a ranking, and the pairs that they are if kept."""

    def __init__(self, field: str, message: str, kept: Sequence[Pair], pairs: int = 1) -> None:
        super().__init__("tie", field, message, pairs)
        self.kept = tuple(replace(pair, preference=TIE, margin=None) for pair in kept)

    def items(self) -> list[Pair | Unusable]:
        """The pairs, and the ties over the cap in one line."""
        items: list[Pair | Unusable] = list(self.kept)
        over = self.pairs - len(self.kept)
        if over:
            message = f"{over} ties over max_pairs are left out"
            items.append(Unusable("capped", self.field, message, over))
        return items
