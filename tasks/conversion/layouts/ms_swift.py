"""Layout `ms_swift`: a conversation that ends in the better answer, and the worse one beside it.

    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
     "rejected_response": "No."}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."]. In place
of `rejected_response`, `rejected_messages` may hold the other conversation as a whole. Optional:
`tools`, `margin`.
"""

from typing import Any

from tasks.conversion.conversation.messages import is_answer
from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.preference.fields import margin_of, tools_of
from tasks.conversion.preference.pair import IMPLICIT, Pair, answer_turn
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = ("messages", "rejected_response", "rejected_messages", "tools", "margin")


def fits(columns: set[str], row: Row) -> bool:
    """Messages beside a rejected text, or beside other messages."""
    messages = isinstance(row.get("messages"), list)
    return messages and bool({"rejected_response", "rejected_messages"} & columns)


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, or the reason of a single value.
    """
    messages: Any = as_messages(listed(required(row, "messages"), "messages"))
    other = row.get("rejected_messages")
    if other is not None:
        prompt, chosen = IMPLICIT, messages
        rejected: Any = as_messages(listed(other, "rejected_messages"))
    else:
        if not messages or not is_answer(messages[-1]):
            last = found(messages[-1]) if messages else "no message"
            message = f"found {last} at the end, expected the better answer, an assistant's turn"
            raise Unusable("no_final_assistant", "messages", message)
        answer = required(row, "rejected_response")
        if not isinstance(answer, str):
            raise not_as_expected(answer, "rejected_response", "text")
        prompt, chosen, rejected = messages[:-1], messages[-1:], answer_turn(answer)
    tools, margin = tools_of(row.get("tools")), margin_of(row.get("margin"))
    return [Pair(prompt=prompt, chosen=chosen, rejected=rejected, tools=tools, margin=margin)]
