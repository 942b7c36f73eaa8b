"""The length of a symbol's text, which a template may compare with a number.

content | length > 0    ->  True, noted as ("(len(c[0]) > 0)", True)
content | length + 1    ->  ends the trace
"""

from typing import Any

from tasks.templating.traced.symbols import Symbol, Untraceable, code, untraceable, value


class Length:
    """How long a text is: may be compared with a number, and nothing else."""

    __slots__ = ("_symbol",)

    def __init__(self, symbol: Symbol) -> None:
        self._symbol = symbol

    def _compared(self, sign: str, other: Any, answer: bool) -> bool:
        expression = f"(len({code(self._symbol)}) {sign} {int(other)})"
        return self._symbol._noted(expression, answer)  # pyright: ignore[reportPrivateUsage]

    def __eq__(self, other: object) -> bool:
        return self._compared("==", _number(other), len(value(self._symbol)) == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._compared("<", _number(other), len(value(self._symbol)) < other)

    def __le__(self, other: Any) -> bool:
        return self._compared("<=", _number(other), len(value(self._symbol)) <= other)

    def __gt__(self, other: Any) -> bool:
        return self._compared(">", _number(other), len(value(self._symbol)) > other)

    def __ge__(self, other: Any) -> bool:
        return self._compared(">=", _number(other), len(value(self._symbol)) >= other)

    def __bool__(self) -> bool:
        return self > 0

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    # Whatever else is done with it is a TypeError, which ends the trace as well, but for places in
    # lists and dictionaries: for one of a wrong type, Jinja goes on with an undefined value.
    __hash__ = __index__ = untraceable  # pyright: ignore[reportAssignmentType]
    __str__ = __repr__ = __format__ = untraceable


def _number(other: Any) -> int:
    if type(other) is not int:
        raise Untraceable
    return other
