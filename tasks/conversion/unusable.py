"""Why a row or a pair cannot be used, and how such a sentence is worded."""

from typing import Any

from tasks.errors import shown

NOT_QUARANTINED = frozenset({"joined", "capped", "overridden_drop", "overridden_tie"})
"""What these count is in the pairs that were made, or could have been, or was decided by a person:
nothing to look after."""

_NO_NUMBERS = [{"number": name} for name in ("NaN", "Infinity", "-Infinity")]
"""What ingestion writes in their place: JSON has no form for them."""


class Unusable(Exception):
    """One row (or one of its pairs) cannot be used; caught per row and written to quarantine.

    Not a PipelineError: it never leaves the stage. `reason` is a short name that is counted,
    `field` the column at fault, `message` what was found, what was expected, and what to do.
    `pairs` is how many pairs of the row it stands for: a ranking may hold several ties.
    """

    def __init__(self, reason: str, field: str, message: str, pairs: int = 1) -> None:
        super().__init__(f"{reason}: {field}: {message}")
        self.reason = reason
        self.field = field
        self.message = message
        self.pairs = pairs


def not_as_expected(value: Any, field: str, expected: str) -> Unusable:
    """The reason of a value that is missing (`null`) or of another type (`wrong_type`)."""
    if value is None:
        return Unusable("null", field, f"found null, expected {expected}; drop the row or fill it")
    return Unusable("wrong_type", field, f"found {found(value)}, expected {expected}")


def found(value: Any) -> str:
    """What stands in a row, in words: its JSON type and its beginning.

    `found(True)` is "the boolean True", `found(None)` is "null".
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {value}"
    if isinstance(value, int | float):
        return f"the number {shown(value, 40)}"
    if isinstance(value, str):
        return f"the text {shown(value, 60)}"
    if value in _NO_NUMBERS:
        return f"the number {value['number']}"
    if isinstance(value, list):
        return f"a list of {len(value)}: {shown(value, 60)}"
    return f"an object: {shown(value, 60)}"
