"""Jinja's sandbox, which remembers what it has found to be safe.

    message.role ─┬─ a dict has no method of that name ── its item          (not first an exception)
                  └─ else, as Jinja: the attribute ── safe? asked once for a type and a name

Whether an attribute is safe depends on the type and the name alone; a template asks it for every
turn of every conversation, and half of a rendering's time would go into the answer.
"""

from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_ANSWERS = 4096
"""Answers that are remembered at most: names may come from data, as in `turn[name]`."""
_METHODS = frozenset(dir(dict))


class Sandbox(ImmutableSandboxedEnvironment):
    """As its parent, to the last error."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._safe: dict[tuple[type, str], bool] = {}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """What `obj.attribute` stands for."""
        if type(obj) is dict and attribute not in _METHODS:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may have it."""
        key = type(obj), attr
        safe = self._safe.get(key)
        if safe is None:
            safe = super().is_safe_attribute(obj, attr, value)
            if len(self._safe) < MOST_ANSWERS:
                self._safe[key] = safe
        return safe
