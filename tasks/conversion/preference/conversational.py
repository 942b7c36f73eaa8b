"""Texts as turns: a prompt is a user's, an answer an assistant's.

    Pair("Hi", "Hello.", "No.")  ->  [user "Hi"], [assistant "Hello."], [assistant "No."]

What is a list of messages already stays as it is.
"""

from dataclasses import replace
from typing import Any

from tasks.conversion.preference.answers import Answer, Item
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.ties import Tie


def as_conversation(item: Item) -> Item:
    """The item with a text prompt as a user's turn and text answers as an assistant's."""
    if isinstance(item, Pair):
        return pair_as_conversation(item)
    if isinstance(item, Tie):
        kept = [pair_as_conversation(pair) for pair in item.kept]
        return Tie(item.field, item.message, kept, item.pairs)
    if isinstance(item, Answer):
        return replace(
            item,
            prompt=_turn("user", item.prompt),
            completion=_turn("assistant", item.completion),
        )
    return item


def pair_as_conversation(pair: Pair) -> Pair:
    """The pair with a text prompt as a user's turn and text answers as an assistant's."""
    return replace(
        pair,
        prompt=_turn("user", pair.prompt),
        chosen=_turn("assistant", pair.chosen),
        rejected=_turn("assistant", pair.rejected),
    )


def _turn(role: str, value: Any) -> Any:
    return [{"role": role, "content": value}] if isinstance(value, str) else value
