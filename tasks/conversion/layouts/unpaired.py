"""Layout `unpaired`: one answer per row, and whether it is good.

    {"prompt": "The sky is", "completion": " blue.", "label": true}
    {"prompt": "The sky is", "completion": " green.", "label": false}

are one pair, joined by their prompt: chosen " blue.", rejected " green.". A row whose prompt has no
answer of the other label is counted as `unpaired_alone`. Instead of prompt and completion a row
may have `messages`, also as JSON text, of which the last is the completion; turns may be under
`from` and `value`.
"""

from typing import Any, cast

from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.options import LabelOptions
from tasks.conversion.preference.answers import Answer, Item, check_completion
from tasks.conversion.preference.fields import template_kwargs_of, tools_of
from tasks.conversion.preference.labels import good
from tasks.conversion.unusable import Unusable, not_as_expected

READ = ("prompt", "completion", "label", "messages", "tools", "chat_template_kwargs")


def fits(columns: set[str], row: Row) -> bool:
    """A label that says good or bad, beside one completion."""
    if not {"prompt", "completion", "label"} <= columns and not {"messages", "label"} <= columns:
        return False
    try:
        good(row.get("label"))
    except Unusable:
        return False
    return not {"chosen", "rejected"} & columns


def read(row: Row, options: LabelOptions) -> list[Item]:  # noqa: ARG001
    """The row's answer with its label.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_label, no_prompt, empty_response, or a
            message's reason.
    """
    prompt, completion = _prompt_and_completion(row)
    check_completion(completion, "completion")
    return [
        Answer(
            prompt,
            completion,
            good(required(row, "label")),
            tools=tools_of(row.get("tools")),
            chat_template_kwargs=template_kwargs_of(row.get("chat_template_kwargs")),
        )
    ]


def _prompt_and_completion(row: Row) -> tuple[Any, Any]:
    if "messages" not in row:
        prompt = as_messages(required(row, "prompt"))
        if prompt is None:
            raise not_as_expected(prompt, "prompt", "text or messages")
        return prompt, as_messages(required(row, "completion"))
    turns = cast(list[Any], as_messages(listed(row["messages"], "messages", "a list of messages")))
    if len(turns) < 2:
        raise Unusable(
            "no_prompt",
            "messages",
            f"found {len(turns)} messages, expected a prompt's and an answer after it",
        )
    return turns[:-1], turns[-1:]
