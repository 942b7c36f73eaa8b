"""Layout `context_ranking`: a conversation as `context`, turns under `from` and `content`.

    {"context": [{"from": "human", "content": "Hi"}],
     "chosen": [{"from": "assistant", "content": "Hello."}],
     "rejected": [{"from": "assistant", "content": "No."}]}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."].
"""

from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import not_as_expected

READ = ("context", "chosen", "rejected")


def fits(columns: set[str], row: Row) -> bool:
    """A list as context beside two lists of turns, not under `role`."""
    lists = all(isinstance(row.get(name), list) for name in READ)
    turns = lists and all(is_object(turn, "from") for turn in row["chosen"])
    return turns and "prompt" not in columns


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type.
    """
    context = required(row, "context")
    if not isinstance(context, list):
        raise not_as_expected(context, "context", "a list of turns")
    sides = [as_messages(required(row, name)) for name in ("chosen", "rejected")]
    return [Pair(as_messages(context), *sides)]
