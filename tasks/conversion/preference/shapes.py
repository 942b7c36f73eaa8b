"""Shapes of preference data: text or messages, with the prompt apart or inside both answers.

All functions are pure and work on plain JSON values, so that they serve a notebook as well.
The vocabulary is that of the field: *standard* format is text, *conversational* is messages;
a prompt is *explicit* when it has a column of its own, *implicit* when both answers begin with it.

The rule of `extract_prompt`, stated once:
- messages: the longest common beginning that leaves each side at least one message;
- text: the longest common beginning, cut back to where a run of whitespace before a word starts,
  so that no word is torn and the space belongs to the answer, and cut back further until each
  side keeps something other than whitespace. With no such place, the prompt is empty.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

COLUMNS = ("prompt", "chosen", "rejected", "completion", "messages")
"""Columns that can hold a conversation."""


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages: objects with a role, at least one."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, dict) and "role" in item for item in cast(list[Any], value))


def is_conversational(example: Mapping[str, Any]) -> bool:
    """Whether any of the example's columns holds messages.

    All columns are looked at, so the answer does not depend on their order.

    >>> is_conversational({"prompt": [{"role": "user", "content": "Hi"}]})
    True
    >>> is_conversational({"prompt": "Hi"})
    False
    """
    return any(is_messages(example.get(column)) for column in COLUMNS)


def extract_prompt(example: Mapping[str, Any]) -> dict[str, Any]:
    """The example with the prompt that `chosen` and `rejected` share as a column of its own.

    Prompt + answer is the answer as it was, for both. Other columns are kept.

    >>> extract_prompt({"chosen": "The sky is blue.", "rejected": "The sky is green."})
    {'prompt': 'The sky is', 'chosen': ' blue.', 'rejected': ' green.'}
    """
    chosen, rejected = example["chosen"], example["rejected"]
    if isinstance(chosen, str):
        cut = common_text(chosen, rejected)
    else:
        cut = common_messages(chosen, rejected)
    columns = {"prompt": chosen[:cut], "chosen": chosen[cut:], "rejected": rejected[cut:]}
    return columns | {k: v for k, v in example.items() if k not in columns}


def maybe_extract_prompt(example: Mapping[str, Any]) -> dict[str, Any]:
    """`extract_prompt` for a preference example with an implicit prompt; others come back equal."""
    if "prompt" in example or "chosen" not in example or "rejected" not in example:
        return dict(example)
    return extract_prompt(example)


def common_messages(chosen: Sequence[Any], rejected: Sequence[Any]) -> int:
    """How many leading messages are shared, leaving one to each side (0 where a side is empty)."""
    limit = min(len(chosen), len(rejected)) - 1
    for i in range(limit):
        if chosen[i] != rejected[i]:
            return i
    return max(limit, 0)


def common_text(chosen: str, rejected: str) -> int:
    """Length of the shared text that ends where a word does (the rule is in the module's head).

    "The sky is blue." and "The sky is bright." share "The sky is" (10), not "The sky is b".
    "The sky is " and "The sky is blue." share "The sky" (7): 10 would leave one side blank.
    """
    cut = _shared_length(chosen, rejected)
    longest = min(len(chosen.rstrip()), len(rejected.rstrip()))
    if cut == longest == 0:
        return 0
    both_go_on_blank = chosen[cut : cut + 1].isspace() and rejected[cut : cut + 1].isspace()
    cut = _start_of_last_gap(chosen, cut + both_go_on_blank)
    while cut >= longest:  # one side would be left blank
        cut = _start_of_last_gap(chosen, cut)
        if cut == 0:
            return 0
    return cut


def _shared_length(a: str, b: str) -> int:
    """Length of the longest common beginning, by halving: the comparisons run in C."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _start_of_last_gap(text: str, end: int) -> int:
    """Where the last run of whitespace in `text[:end]` starts; 0 where there is none."""
    i = end - 1
    while i >= 0 and not text[i].isspace():
        i -= 1
    return len(text[: i + 1].rstrip())
