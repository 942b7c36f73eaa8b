"""Labels, as sources write them: good or bad, and names of the better of two answers."""

from typing import Any

from tasks.conversion.preference.fields import exact_number
from tasks.conversion.unusable import Unusable, found

_WORDS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def good(value: Any, field: str = "label") -> bool:
    """Whether a label says good: a boolean, 1 or 0, or their text in a CSV cell.

    Raises:
        Unusable: null, bad_label.
    """
    if value is None:
        raise Unusable("null", field, "found null, expected true or false; drop the row or fill it")
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    known = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise Unusable("bad_label", field, f"found {found(value)}, expected true or false")
    return known


def plain(value: Any) -> str | None:
    """A label as it is compared: 1, 1.0 and the cell "1" are the same, true and "True" are.

    "" of a blank cell; None where it is no label: null, a list, an object.
    """
    if isinstance(value, bool):
        return str(value).lower()
    try:
        number = exact_number(value, "bad_label", "label")
    except Unusable:
        text = value.strip() if isinstance(value, str) else None
        return text.lower() if text and text.lower() in ("true", "false") else text
    if number is None:
        return None if value is None else ""
    return str(number.normalize())
