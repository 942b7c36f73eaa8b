"""Layout `trl`: `chosen` and `rejected`, with or without a `prompt`, as text or as messages.

    {"prompt": [{"role": "user", "content": "What color is the sea?"}],
     "chosen": [{"role": "assistant", "content": "Blue."}],
     "rejected": [{"role": "assistant", "content": "Red."}], "margin": 2}

is one pair: the prompt's messages, an answer on each side, margin 2. Optional beside them:
`margin`, `tools` (a list, or its JSON text), `chat_template_kwargs`, `images`. Each row's shape is
found on its own: text or messages, explicit or implicit prompt, a prompt that both answers repeat,
a text prompt beside messages. Other columns (`score_chosen`, `messages`, ids ...) are not read.
"""

from typing import Any

from tasks.conversion.answers import Item
from tasks.conversion.layouts import columns, hh_rlhf
from tasks.conversion.layouts.columns import Row
from tasks.conversion.shapes import is_messages

READ = ("prompt", "chosen", "rejected", "margin", "tools", "chat_template_kwargs", "images")


def fits(columns: set[str], row: Row) -> bool:
    """Both answers are text or both are messages, and they are no hh_rlhf transcripts."""
    chosen, rejected = row.get("chosen"), row.get("rejected")
    if isinstance(chosen, str) and isinstance(rejected, str):
        plain_prompt = isinstance(row.get("prompt", ""), str | list)
        return plain_prompt and not hh_rlhf.fits(columns, row) and "conversations" not in row
    return is_messages(chosen) and is_messages(rejected)


def pairs(row: Row) -> list[Item]:
    """The row's one pair.

    Raises:
        Unusable: missing_column, or the reason of a single value.
    """
    return columns.pairs({name: row[name] for name in READ if name in row})


def sides(row: Row) -> tuple[Any, Any, Any] | None:
    """Prompt, chosen and rejected of a row of just these columns."""
    if row.keys() != _SIDES:
        return None
    return row["prompt"], row["chosen"], row["rejected"]


_SIDES = {"prompt", "chosen", "rejected"}
