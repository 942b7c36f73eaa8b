"""Pairs of texts closed at a glance: those in which no special token can stand.

In:  the JSON of a row's prompt, chosen and rejected, as a piece has them.
Out: both texts as `Renderer` makes them; or None: the renderer has to look at the row.

    "Is it red?"," Yes"," No"   ->   Is it red? Yes<|endoftext|>    Is it red? No<|endoftext|>
"""

import orjson

from tasks.templating.renderer import Renderer


class PlainTexts:
    """Closes texts as one renderer does."""

    def __init__(self, renderer: Renderer) -> None:
        self._special, self._own = renderer.special, renderer.own

    def closed(self, row: bytes) -> tuple[str, str] | None:
        """Both texts of a row of texts."""
        try:
            prompt, chosen, rejected = orjson.loads(b"[%b]" % row)
        except ValueError:  # half a surrogate pair, which Python's parser takes
            return None
        asked = prompt or ""  # of a row without one it is []
        one, other = self._closed(asked + chosen), self._closed(asked + rejected)
        return None if one is None or other is None or one == other else (one, other)

    def _closed(self, text: str) -> str | None:
        if self._special is None:
            return self._own.closed(text)
        # A token that takes part of the text begins in it.
        ends = self._special.ends
        if not ends or any(character in text for character in ends):
            return None
        return text + self._own.end
