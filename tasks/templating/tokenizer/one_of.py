"""A regular expression for the longest of many texts, with common beginnings factored out.

    <|end|>, <|pad_0|>, <|pad_1|>  ->  <[|](?:end[|]>|pad_(?:0[|]>|1[|]>))

Tokenizers in use reserve hundreds of special tokens, or thousands: side by side, re reads every
character of each, and tries one after the other at every place of a text.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter, ne

DEEPEST = 40
"""Groups within each other: a run of spaces may be a token at every length."""


def one_of(texts: Sequence[str], depth: int = 0) -> str:
    """The expression for these texts: where several fit at one place, the longest is found."""
    first, last = min(texts), max(texts)
    differs = [*map(ne, first, last), True].index(True)
    head, rests = first[:differs], sorted(text[differs:] for text in texts)
    if depth < DEEPEST:
        by_first = groupby(filter(None, rests), itemgetter(0))
        branches = [one_of([*some], depth + 1) for _, some in by_first]
    else:
        branches = [re.escape(rest) for rest in sorted(filter(None, rests), key=len, reverse=True)]
    inner = f"(?:{'|'.join(branches)}){'?' if '' in rests else ''}" if branches else ""
    return re.escape(head) + inner
