"""Layout `sharegpt_ranking`: a conversation under `from` and `value`, and two answers to it.

    {"conversations": [{"from": "human", "value": "Hi"}],
     "chosen": {"from": "gpt", "value": "Hello."}, "rejected": {"from": "gpt", "value": "No."}}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."]. An answer
may also be plain text, or a list of turns. Optional: `system` (put before the conversation),
`tools`, `margin`. Without `conversations`, turns that answer may be to `messages`.
"""

from typing import Any

from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts.columns import Row, required, with_system
from tasks.conversion.layouts.trl import is_whole
from tasks.conversion.preference.fields import margin_of, tools_of
from tasks.conversion.preference.pair import Pair, answer_turn
from tasks.conversion.preference.shapes import is_messages
from tasks.conversion.unusable import not_as_expected

READ = ("conversations", "messages", "chosen", "rejected", "system", "tools", "margin")


def fits(columns: set[str], row: Row) -> bool:
    """A list of conversations beside two answers, or one of messages beside turns that answer."""
    if isinstance(row.get("conversations"), list):
        return {"chosen", "rejected"} <= columns
    answers = [as_messages(row.get(name)) for name in ("chosen", "rejected")]
    answering = all(is_messages(turns) and not is_whole(turns) for turns in answers)
    return answering and isinstance(row.get("messages"), list) and "prompt" not in columns


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, or the reason of a single value.
    """
    name = "messages" if "conversations" not in row and "messages" in row else "conversations"
    turns = required(row, name)
    if not isinstance(turns, list):
        raise not_as_expected(turns, name, "a list")
    return [
        Pair(
            prompt=with_system(row.get("system"), as_messages(turns)),
            chosen=_answer(required(row, "chosen")),
            rejected=_answer(required(row, "rejected")),
            tools=tools_of(row.get("tools")),
            margin=margin_of(row.get("margin")),
        )
    ]


def _answer(value: Any) -> Any:
    return answer_turn(value) if isinstance(value, str) else as_messages(value)
