"""Who moved which alias, from where to where, when and why: tags of the registered model.

move.00007      {"alias": "champion", "previous": 3, "version": 5, "how": "register", ...}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tasks.registration.registry import CHAMPION

if TYPE_CHECKING:
    from mlflow import MlflowClient

MOVE = "move."

How = Literal["register", "promote", "rollback"]


@dataclass(frozen=True)
class Move:
    """One move of an alias; `version` None takes it away, `previous` None: nobody had it.

    Two are equal that move the same, whoever makes them and why.
    """

    alias: str
    previous: int | None
    version: int | None
    how: How
    why: str = field(compare=False)
    who: str = field(compare=False)
    when: str = field(compare=False)


def entries(tags: Mapping[str, str]) -> dict[int, Move]:
    """The moves that are written in a registered model's tags, by number."""
    found = {int(k.removeprefix(MOVE)): v for k, v in tags.items() if k.startswith(MOVE)}
    return {number: Move(**json.loads(found[number])) for number in sorted(found)}


def history(client: "MlflowClient", name: str) -> list[Move]:
    """The moves that were made, oldest first.

    An entry whose move was never made: the alias was found again where that entry had found it.
    """
    registered: Any = client.get_registered_model(name)
    written = entries(registered.tags)
    made: dict[int, Move] = {}
    for alias in {move.alias for move in written.values()}:
        held = registered.aliases.get(alias)
        found = None if held is None else int(held)
        for number, move in reversed(written.items()):
            if move.alias != alias:
                continue
            if found != move.previous:
                made[number] = move
            found = move.previous
    return [made[number] for number in sorted(made)]


def former_champions(moves: list[Move]) -> list[int]:
    """The champions before the present one, latest first; those rolled back are left out."""
    stack: list[int] = []
    for move in moves:
        if move.alias != CHAMPION or move.version is None:
            continue
        if move.how == "rollback":
            while stack and stack[-1] != move.version:
                stack.pop()
        if not stack or stack[-1] != move.version:
            stack.append(move.version)
    return stack[-2::-1]
