"""Layout `rewardbench`: version 1 of that benchmark's rows, an instruction and two answers.

    {"id": 30, "subset": "llmbar-natural", "prompt": "Hi", "chosen": "Hello.",
     "chosen_model": "human", "rejected": "No.", "rejected_model": "human"}

is one pair of messages: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant
"No."]. Such rows are recognised as `trl`, which leaves the texts as texts: name this layout to
have them as turns of a conversation.
"""

from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.preference.conversational import pair_as_conversation
from tasks.conversion.preference.pair import Pair

READ = ("subset", "prompt", "chosen", "rejected")


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Never: what has these columns is a `trl` row as well."""
    return False


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column.
    """
    required(row, "subset")
    sides = [required(row, name) for name in ("prompt", "chosen", "rejected")]
    return [pair_as_conversation(Pair(*sides))]
