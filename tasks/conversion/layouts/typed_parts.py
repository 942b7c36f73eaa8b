"""Layout `typed_parts`: whole conversations on both sides, contents as lists of typed parts.

    {"chosen_messages": [{"role": "user", "content": [{"type": "text", "value": "Hi"}]},
                         {"role": "assistant", "content": [{"type": "text", "value": "Hello."}]}],
     "rejected_messages": [{"role": "user", "content": [{"type": "text", "value": "Hi"}]},
                           {"role": "assistant", "content": [{"type": "text", "value": "No."}]}]}

is one pair: prompt [user "Hi"], the messages that both sides begin with; chosen [assistant
"Hello."], rejected [assistant "No."]. Text parts are joined; `loss_weight` is not read: a reward
model scores the answer as a whole.
"""

from typing import Any, cast

from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.preference.pair import IMPLICIT, Pair

READ = ("chosen_messages", "rejected_messages")


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Both sides are lists under their own names."""
    return all(isinstance(row.get(side), list) for side in READ)


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column.
    """
    return [Pair(IMPLICIT, *(_side(required(row, side)) for side in READ))]


def _side(messages: Any) -> Any:
    """The messages with `value` renamed to `text`; what has another form is left to the checks."""
    if not isinstance(messages, list):
        return messages
    return [_message(m) for m in cast(list[Any], messages)]


def _message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    kept = {k: v for k, v in cast(Row, message).items() if k != "loss_weight"}
    if isinstance(kept.get("content"), list):
        kept["content"] = [_part(part) for part in kept["content"]]
    return kept


def _part(part: Any) -> Any:
    if not isinstance(part, dict) or "value" not in part:
        return part
    return {"text" if k == "value" else k: v for k, v in cast(Row, part).items()}
