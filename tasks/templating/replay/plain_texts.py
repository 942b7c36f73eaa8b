"""The quick way for pairs of plain texts: those that can hold no special token only get their EOS.

In:  the JSON of a row's prompt, chosen and rejected, as a piece has them.
Out: both texts as `Renderer` makes them; or None where the row needs the renderer.

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
        prompt = prompt or ""  # a row without one has []
        one, other = self._closed(prompt + chosen), self._closed(prompt + rejected)
        return None if one is None or other is None or one == other else (one, other)

    def _closed(self, text: str) -> str | None:
        if self._special is None:
            return self._own.closed(text)
        # A special token that overlaps the text has its first or its last character in it.
        ends = self._special.ends
        if not ends or any(character in text for character in ends):
            return None
        return text + self._own.end
