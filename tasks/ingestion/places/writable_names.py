"""Names of files that no line of a table or log can hold, such as those of a stranger's archive.

caf\\udce9.jsonl  ->  "is not UTF-8"          a\\x1b[2J.jsonl  ->  "holds a control character"
"""

import unicodedata

_CONTROL = "holds a control character"
_FAULTS = {"Cs": "is not UTF-8", "Cc": _CONTROL, "Zl": _CONTROL, "Zp": _CONTROL}
"""By the Unicode category of the character."""


def unwritable(name: str) -> str:
    """What is wrong with the name; empty for nothing."""
    return next(filter(None, (_FAULTS.get(unicodedata.category(c)) for c in name)), "")
