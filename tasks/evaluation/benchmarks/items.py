"""What every benchmark is made of: a prompt with several answers, the right ones first.

In: rows of a benchmark's file. Out: items; once scored, `Scored`. A row that is not of the schema
is an error that names file, row and column: a benchmark with guessed rows is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tasks.conversion.conversation.messages import Messages, check_messages
from tasks.conversion.preference.identity import prompt_group
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown

Text = str | Messages


@dataclass(frozen=True)
class Place:
    """Where a row stands, for messages."""

    benchmark: str
    file: str
    row: int

    def wrong(self, column: str, found: object, expected: str) -> DataError:
        """The error of a value that is not what the schema says."""
        return DataError(
            f"{self.file} row {self.row}: column {column!r} of benchmark {self.benchmark} is "
            f"{shown(found)}, expected {expected}; give the benchmark's own file"
        )


@dataclass(frozen=True)
class Item:
    """One prompt with its answers, the first `correct` of which are the right ones."""

    place: Place
    id: str
    subset: str
    prompt: Text
    answers: tuple[Text, ...]
    correct: int

    @property
    def turns(self) -> Messages:
        """The prompt as messages."""
        return as_turns(self.prompt, "user")

    @property
    def group(self) -> str:
        """What conversion calls this prompt: equal for prompts that look alike."""
        return prompt_group(Pair(self.turns, "", ""))


@dataclass(frozen=True)
class Scored:
    """An item and the reward of each of its answers, in their order."""

    item: Item
    rewards: tuple[float, ...]

    @property
    def right(self) -> tuple[float, ...]:
        """Rewards of the right answers."""
        return self.rewards[: self.item.correct]

    @property
    def wrong(self) -> tuple[float, ...]:
        """Rewards of the others."""
        return self.rewards[self.item.correct :]


def as_turns(text: Text, role: str) -> Messages:
    """Text as one message of `role`; messages as they are."""
    return [{"role": role, "content": text}] if isinstance(text, str) else text


def value(row: Mapping[str, Any], column: str, place: Place) -> Any:
    """The row's value.

    Raises:
        DataError: the row has no such column, or null in it.
    """
    if row.get(column) is not None:
        return row[column]
    found = "null" if column in row else f"only {', '.join(map(shown, sorted(row)))}"
    raise DataError(
        f"{place.file} row {place.row}: benchmark {place.benchmark} needs column {column!r}, found "
        f"{found}; give the benchmark's own file, or rename the column"
    )


def label(row: Mapping[str, Any], column: str, place: Place) -> str:
    """A name or a number, as text."""
    found = value(row, column, place)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise place.wrong(column, found, "a name or a number")
    return str(found)


def text(row: Mapping[str, Any], column: str, place: Place) -> Text:
    """Text, or a list of messages."""
    found = value(row, column, place)
    if isinstance(found, str):
        return found
    if isinstance(found, list):
        try:
            return check_messages(cast(list[Any], found), column, [])
        except Unusable as error:
            raise place.wrong(column, cast(object, found), f"messages ({error.message})") from None
    raise place.wrong(column, found, "text or a list of messages")


def texts(row: Mapping[str, Any], column: str, place: Place) -> tuple[str, ...]:
    """A list of texts, of one at least."""
    found = value(row, column, place)
    values = cast(Sequence[Any], found if isinstance(found, list) else [])
    if not values or not all(isinstance(each, str) for each in values):
        raise place.wrong(column, found, "a list of texts")
    return tuple(values)
