"""The usual pair, told at a glance: most rows need none of the repairs that `pair` makes.

In:  prompt, chosen and rejected as a row holds them.
Out: whether they are in canonical form already: messages with role and content and nothing else,
     one answer on each side, in texts that differ. Whatever else a row may be is for `pair`, which
     comes to the same result for these, and is the one place where a fault is put into words.
"""

from typing import Any, TypeGuard

from tasks.conversion.messages import ROLES, Messages
from tasks.conversion.pair import Pair

PLAIN = Pair(None, [], [])
"""What a usual pair has beside its texts: nothing."""


def is_usual(prompt: Any, chosen: Any, rejected: Any) -> bool:
    """Whether the three are a canonical pair as they stand, but for Unicode composition."""
    if not (_is_usual(prompt) and _is_usual(chosen) and _is_usual(rejected)):
        return False
    if len(chosen) != 1 or len(rejected) != 1:
        return False
    better, worse = chosen[0], rejected[0]
    if better["role"] != "assistant" or worse["role"] != "assistant":
        return False
    a, b = better["content"].strip(), worse["content"].strip()
    return bool(a) and bool(b) and a != b and better != prompt[0] and worse != prompt[0]


def _is_usual(messages: Any) -> TypeGuard[Messages]:
    if type(messages) is not list or not messages:
        return False
    for message in messages:
        if type(message) is not dict or len(message) != 2:
            return False
        (first, role), (second, content) = message.items()
        if first != "role" or second != "content" or type(content) is not str:
            return False
        if type(role) is not str or role not in ROLES:
            return False
    return True


def longer_by(chosen: Messages, rejected: Messages) -> int:
    """By how many characters the chosen one of two single answers is longer."""
    return len(chosen[0]["content"]) - len(rejected[0]["content"])
