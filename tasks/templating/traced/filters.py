"""Jinja's filters and tests while a template is traced: their results for symbols.

    {{ content | trim }}           the symbol's `strip`, which each replay repeats
    {% if content is string %}     the same for every text
    {{ content | upper }}          not traced: the trace ends

For any other value they work as usual.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from tasks.templating.environment import tojson
from tasks.templating.traced.symbol_lengths import Length
from tasks.templating.traced.symbols import Pieces, Symbol, Untraceable, json_of, value

ANSWERS = {
    **dict.fromkeys(("string", "defined", "iterable", "sequence"), True),
    **dict.fromkeys(("none", "undefined", "mapping", "number", "boolean", "callable"), False),
    **dict.fromkeys(("integer", "float", "true", "false"), False),
}
"""What Jinja's tests say of any text."""
COMPARISONS = frozenset({"eq", "==", "equalto", "ne", "!=", "in"})


def traced_filter(name: str, usual: Any) -> Any:
    """The filter with its result for symbols; one that is not in `FILTERS` ends the trace."""
    return _guarded(usual, FILTERS.get(name, _refused))


def traced_test(name: str, usual: Any) -> Any:
    """The test with its result for symbols; comparisons are left to the symbols themselves."""
    if name in COMPARISONS:
        return usual
    return _guarded(usual, (lambda *_: ANSWERS[name]) if name in ANSWERS else _refused)


def _guarded(usual: Any, traced: Callable[..., Any]) -> Any:
    """`traced` where the first argument is a symbol, else `usual`; its marks for Jinja are kept."""
    from jinja2.utils import _PassArg  # pyright: ignore[reportPrivateUsage]

    skipped = 0 if _PassArg.from_obj(usual) is None else 1

    def guarded(*args: Any, **kwargs: Any) -> Any:
        first = args[skipped]
        if isinstance(first, Pieces | Length):
            raise Untraceable
        if isinstance(first, Symbol):
            return traced(*args[skipped:], **kwargs)
        return usual(*args, **kwargs)

    if skipped:
        guarded.jinja_pass_arg = usual.jinja_pass_arg  # pyright: ignore[reportFunctionMemberAccess]
    return guarded


def _refused(*_: Any, **__: Any) -> NoReturn:
    raise Untraceable


def _itself(text: Symbol) -> Symbol:
    return text


def _trimmed(text: Symbol, chars: Any = None) -> Any:
    return text.strip(chars)


def _replaced(text: Symbol, old: Any, new: Any, count: Any = None) -> Any:
    return text.replace(old, new) if count is None else text.replace(old, new, count)


def _default(text: Symbol, instead: Any = "", boolean: bool = False) -> Any:
    return instead if boolean and not text else text


def _json(text: Symbol, ensure_ascii: bool = False, **_: Any) -> Symbol:
    """Its other arguments change nothing in a text."""
    return json_of(text, bool(ensure_ascii), tojson(value(text), ensure_ascii=bool(ensure_ascii)))


FILTERS: dict[str, Callable[..., Any]] = {
    "string": _itself,
    "trim": _trimmed,
    "replace": _replaced,
    "length": Length,
    "count": Length,
    "tojson": _json,
    "default": _default,
    "d": _default,
}
"""What filters give for symbols."""
