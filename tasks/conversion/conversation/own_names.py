"""Turns under names of a source's own, brought to `role` and `content`, as its options say.

    options: {turns: {role: speaker, content: text}, roles: {customer: user, agent: assistant}}

    [{"speaker": "customer", "text": "Hi"}]  ->  [{"role": "user", "content": "Hi"}]

A turn is what has the key that is named for `role`; wherever it stands in a row, in lists or below
other keys. What is within a turn, such as the arguments of a call, is left as it is. Role names
that are known anyway (`message_names.ROLE_MAP`) need no word here.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import orjson

from tasks.conversion.conversation.json_text import json_value


@dataclass(frozen=True)
class OwnNames:
    """What a source calls things."""

    turns: Mapping[str, str]
    """Key of a message -> the source's name of it."""
    roles: Mapping[str, str]
    """The source's name of a role, in lower case -> the role."""

    @classmethod
    def of(cls, turns: Mapping[Any, str], roles: Mapping[str, str]) -> Self:
        """As a source's options have them; the case of a role's name is nothing to go by."""
        return cls(turns, {name.strip().lower(): role for name, role in roles.items()})

    def __bool__(self) -> bool:
        """Whether it has any names of its own."""
        return bool(self.turns or self.roles)

    def away(self, row: Mapping[str, Any], json_columns: Collection[str] = ()) -> dict[str, Any]:
        """The row with its turns under the names known here; those columns may hold turns as JSON,
        and still do."""
        return {
            column: self._in_json(value)
            if isinstance(value, str) and column in json_columns
            else self._in(value)
            for column, value in row.items()
        }

    def _in(self, value: Any) -> Any:
        if isinstance(value, list):
            return [*map(self._in, cast(list[Any], value))]
        if not isinstance(value, dict):
            return value
        found = cast(dict[str, Any], value)
        keys = (self.turns["role"],) if "role" in self.turns else ("role", "from")
        if not any(key in found for key in keys):
            return {name: self._in(inner) for name, inner in found.items()}
        theirs = {source: name for name, source in self.turns.items() if source in found}
        turn = {name: said for name, said in found.items() if name not in theirs}
        turn |= {name: found[source] for source, name in theirs.items()}
        for key in ("role", "from"):
            if isinstance(turn.get(key), str):
                turn[key] = self.roles.get(turn[key].strip().lower(), turn[key])
        return turn

    def _in_json(self, text: str) -> str:
        if text.lstrip()[:1] not in ("[", "{"):
            return text
        try:
            value = json_value(text)
        except orjson.JSONDecodeError:
            return text
        named = self._in(value)
        return text if named == value else json.dumps(named, ensure_ascii=False)
