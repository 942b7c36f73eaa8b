"""Layout `trl`: `chosen` and `rejected`, with or without a `prompt`, as text or as messages.

    {"prompt": [{"role": "user", "content": "What color is the sea?"}],
     "chosen": [{"role": "assistant", "content": "Blue."}],
     "rejected": [{"role": "assistant", "content": "Red."}], "margin": 2}

is one pair: the prompt's messages, an answer on each side, margin 2. Optional beside them:
`margin`, `tools` (a list, or its JSON text), `chat_template_kwargs`, `images`. Each row's shape is
found on its own: text or messages, explicit or implicit prompt, a prompt that both answers repeat,
a text prompt beside messages. Messages may be under `from` and `value` in place of `role` and
`content`, one may stand without a list around it, and they may be JSON text in the cells of a
column (`json_cells`).
Other columns (`score_chosen`, `messages`, ids ...) are not read; but texts beside a column such as
`question`, or one of messages, and no `prompt`, or beside a `system`, are not taken for this
layout: these have to be mapped, or they would be lost in silence.
"""

from typing import Any, Literal

from tasks.conversion.conversation.messages import is_answer
from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts import columns, hh_rlhf
from tasks.conversion.layouts.columns import Row
from tasks.conversion.options import CellOptions
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.fields import margin_of
from tasks.conversion.preference.pair import IMPLICIT
from tasks.conversion.preference.shapes import is_messages

_SELDOM = ("tools", "chat_template_kwargs", "images")
READ = ("prompt", "chosen", "rejected", "margin", *_SELDOM)
SYSTEMS = ("system", "system_prompt")
ASKED = (
    *("question", "instruction", "input", "query", "problem", "history", "context", "post"),
    *("conversation", "conversations", "messages", "user_prompt", "trajectory"),
)
"""Columns that hold prompts, under other names."""


class TrlOptions(CellOptions):
    """Where the prompt stands."""

    prompt: Literal["column", "in_answers"] = "column"
    """`in_answers`: where the answers are whole conversations, the column `prompt` is not read; for
    sources that keep another form of it there."""


def fits(columns: set[str], row: Row) -> bool:
    """Both answers are text or both are messages, and they are no hh_rlhf transcripts."""
    chosen, rejected = row.get("chosen"), row.get("rejected")
    if isinstance(chosen, str) and isinstance(rejected, str):
        plain_prompt = isinstance(row.get("prompt", ""), str | list)
        return plain_prompt and not hh_rlhf.fits(columns, row) and not _asked_elsewhere(row)
    if not is_messages(as_messages(chosen)) or not is_messages(as_messages(rejected)):
        return False
    asked = "prompt" in row or is_whole(chosen)
    return (asked and is_messages(chosen)) or not _asked_elsewhere(row)


def _asked_elsewhere(row: Row) -> bool:
    """Whether a column other than `prompt` holds what is answered, or a part of it."""
    if "prompt" in row:
        return any(row.get(name) for name in (*SYSTEMS, "conversations"))
    return any(row.get(name) for name in SYSTEMS) or any(map(is_asked, row, row.values()))


def is_asked(name: str, value: Any) -> bool:
    """Whether a column that is not read holds prompts: it has such a name, or holds messages."""
    messages = isinstance(value, list) and is_messages(as_messages(value))
    return name not in READ and bool(value) and (name in ASKED or messages)


def read(row: Row, options: TrlOptions) -> list[Item]:
    """The row's one pair.

    Raises:
        Unusable: missing_column, or the reason of a single value.
    """
    for name in ("chosen", "rejected"):
        columns.required(row, name)  # the error names all columns of the row
    fields = {name: row[name] for name in READ if name in row}
    if options.prompt == "in_answers" and is_whole(row.get("chosen")):
        fields.pop("prompt", None)
    return columns.pairs(fields)


def is_whole(answer: Any) -> bool:
    """Whether an answer is a conversation from its beginning."""
    turns = as_messages(answer)
    return is_messages(turns) and not is_answer(turns[0])


def sides(row: Row) -> tuple[Any, Any, Any, float | None] | None:
    """Prompt, chosen, rejected and margin of a row that has nothing else to read; else None."""
    prompt = row.get("prompt", IMPLICIT)
    if len(row) == 3 and prompt is not IMPLICIT:
        return prompt, row["chosen"], row["rejected"], None
    if any(row.get(name) is not None for name in _SELDOM):
        return None
    return prompt, row["chosen"], row["rejected"], margin_of(row.get("margin"))
