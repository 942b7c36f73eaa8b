"""A fast path for simple rows; all others go through the full checks of conversion.

A simple row has messages of role and content alone, one answer on each side, answers that differ,
and null in all other columns but the margin. For it `quick_pair` gives the same pair as
conversion's `columns.pairs` and `checked`, in a third of the time.
"""

from collections.abc import Mapping
from typing import Any

from tasks.conversion.first_pass.usual import NOT_USUAL, usual_messages
from tasks.conversion.preference.fields import margin_of
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.prompts import separated_messages

_READ = {"prompt", "chosen", "rejected", "margin"}


def quick_pair(row: Mapping[str, Any]) -> Pair | None:
    """The pair of a simple row with column names as in `columns.FIELDS`; None for any other row."""
    if any(value is not None and name not in _READ for name, value in row.items()):
        return None
    try:
        chosen, rejected = row["chosen"], row["rejected"]
        if "prompt" not in row:
            prompt, chosen, rejected = separated_messages(None, chosen, rejected, [])
        else:
            prompt = row["prompt"]
        if not type(prompt) is type(chosen) is type(rejected) is list:
            return None
        usual = usual_messages(prompt, chosen, rejected)
        if usual is None or not surely_differ(*usual[2][-2:]):
            return None
        *prompt, better, worse = usual[0]
        return Pair(prompt, [better], [worse], margin=margin_of(row.get("margin")))
    except NOT_USUAL:
        return None


def surely_differ(a: str, b: str) -> bool:
    """Whether two different stripped texts surely differ in NFC too; False: it is not certain.

    They do if the characters after their common prefix are ASCII in both, or missing: composition
    changes nothing there.
    """
    if a.isascii() and b.isascii():
        return True
    for place, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return f"{x}{y}{a[place + 1 : place + 2]}{b[place + 1 : place + 2]}".isascii()
    shorter = min(len(a), len(b))
    return (a[shorter : shorter + 1] + b[shorter : shorter + 1]).isascii()
