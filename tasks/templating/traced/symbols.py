"""Symbols: stand-ins for a row's contents that record everything a template does with them.

A symbol stands for a text. A test of it returns the text's own result and is recorded; stripping,
slicing or joining it gives another symbol; any other operation ends the trace. So, unlike with a
plain text, nothing that depends on the content goes unnoticed.

    'Q: ' + content.strip()     ->  parts ("Q: ", c[0].strip())
    '</think>' in content       ->  False, noted as ("('</think>' in c[0])", False)
"""

from functools import partial
from typing import Any, NoReturn

Part = tuple[bool, str]
"""(True, a Python expression over the contents `c`) or (False, literal text)."""
CUTS = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace"),
    *("upper", "lower", "title", "capitalize"),
)
TESTS = ("startswith", "endswith")


class Untraceable(Exception):
    """The template did something with a text that cannot be traced."""


def untraceable(*_: Any, **__: Any) -> NoReturn:
    """Ends the trace."""
    raise Untraceable


class Symbol:
    """A text: its present value, and the expression that makes it of the contents."""

    __slots__ = ("_parts", "_tests", "_value")

    def __init__(self, parts: tuple[Part, ...], value: str, tests: list[tuple[str, bool]]) -> None:
        self._parts, self._value, self._tests = parts, value, tests

    def __getattr__(self, name: str) -> Any:
        if name in CUTS:
            return partial(self._cut, name)
        if name in TESTS:
            return partial(self._method_test, name)
        if name == "split":
            return self._split
        if hasattr(str, name):
            raise Untraceable
        raise AttributeError(name)

    def __add__(self, other: Any) -> "Symbol":
        if isinstance(other, Symbol):
            return Symbol(self._parts + other._parts, self._value + other._value, self._tests)
        if type(other) is str:
            return Symbol((*self._parts, (False, other)), self._value + other, self._tests)
        raise Untraceable

    def __radd__(self, other: Any) -> "Symbol":
        if type(other) is str:
            return Symbol(((False, other), *self._parts), other + self._value, self._tests)
        raise Untraceable

    def __bool__(self) -> bool:
        return self._noted(f"bool({code(self)})", bool(self._value))

    def __contains__(self, item: Any) -> bool:
        return self._noted(f"({_argument(item)} in {code(self)})", value(item) in self._value)

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, int | float | list | dict):
            return False
        return self._noted(f"({code(self)} == {_argument(other)})", self._value == value(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __getitem__(self, place: Any) -> "Symbol":
        if not isinstance(place, slice):
            if isinstance(place, str):
                raise TypeError(place)  # as a text does: the template sees an undefined name
            raise Untraceable
        bounds = (place.start, place.stop, place.step)
        if any(type(n) not in (int, type(None)) for n in bounds):
            raise Untraceable
        return self._derived(f"{code(self)}[slice{bounds!r}]", self._value[place])

    __hash__ = untraceable  # pyright: ignore[reportAssignmentType]
    __str__ = __repr__ = __format__ = __iter__ = __len__ = untraceable
    __lt__ = __le__ = __gt__ = __ge__ = __mul__ = __rmul__ = __mod__ = __rmod__ = untraceable
    __int__ = __float__ = __index__ = untraceable

    def _cut(self, name: str, *args: Any, **kwargs: Any) -> "Symbol":
        if kwargs:
            raise Untraceable
        arguments = ", ".join(_argument(item) for item in args)
        text = getattr(self._value, name)(*map(value, args))
        return self._derived(f"{code(self)}.{name}({arguments})", text)

    def _method_test(self, name: str, *args: Any, **kwargs: Any) -> bool:
        if kwargs or len(args) != 1:
            raise Untraceable
        answer = getattr(self._value, name)(value(args[0]))
        return self._noted(f"{code(self)}.{name}({_argument(args[0])})", answer)

    def _split(self, *args: Any, **kwargs: Any) -> "Pieces":
        if kwargs or not args or any(type(item) not in (str, int) for item in args):
            raise Untraceable
        arguments = ", ".join(map(_argument, args))
        return Pieces(self, f"{code(self)}.split({arguments})", self._value.split(*args))

    def _derived(self, expression: str, text: str) -> "Symbol":
        return Symbol(((True, expression),), text, self._tests)

    def _noted(self, expression: str, answer: bool) -> bool:
        self._tests.append((expression, answer))
        return answer


class Pieces:
    """The result of `split`: only its first and last piece, which always exist, can be traced."""

    __slots__ = ("_code", "_symbol", "_texts")

    def __init__(self, symbol: Symbol, expression: str, texts: list[str]) -> None:
        self._symbol, self._code, self._texts = symbol, expression, texts

    def __getitem__(self, place: Any) -> Symbol:
        if type(place) is not int or place not in (0, -1):
            raise Untraceable
        return self._symbol._derived(f"{self._code}[{place}]", self._texts[place])  # pyright: ignore[reportPrivateUsage]

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    __hash__ = untraceable  # pyright: ignore[reportAssignmentType]
    __eq__ = __ne__ = __bool__ = __contains__ = __add__ = __radd__ = untraceable  # pyright: ignore[reportAssignmentType]
    __str__ = __repr__ = __format__ = __iter__ = __len__ = untraceable
    __lt__ = __le__ = __gt__ = __ge__ = __mul__ = __rmul__ = __mod__ = __rmod__ = untraceable


def code(symbol: Symbol) -> str:
    """The expression that makes the symbol's text."""
    parts = [text if is_code else repr(text) for is_code, text in parts_of(symbol)]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def parts_of(symbol: Symbol) -> tuple[Part, ...]:
    """What the symbol's text is joined of."""
    return symbol._parts  # pyright: ignore[reportPrivateUsage]


def value(operand: Any) -> Any:
    """The text of a symbol; a plain text or number as it is; anything else ends the trace."""
    if isinstance(operand, Symbol):
        return operand._value  # pyright: ignore[reportPrivateUsage]
    if type(operand) in (str, int, type(None)):
        return operand
    raise Untraceable


def json_of(symbol: Symbol, ensure_ascii: bool, text: str) -> Symbol:
    """The symbol's text as JSON."""
    return symbol._derived(f"tojson({code(symbol)}, {ensure_ascii!r})", text)  # pyright: ignore[reportPrivateUsage]


def _argument(operand: Any) -> str:
    return code(operand) if isinstance(operand, Symbol) else repr(value(operand))
