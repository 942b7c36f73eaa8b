"""A tool's turn and the call that it answers.

    assistant {"tool_calls": [{"id": "a", ...}]}, tool {"tool_call_id": "a"}   matched
    assistant {"tool_calls": [{"id": "a", ...}]}, tool {"tool_call_id": "b"}   not
    user, tool {}                                                              not

By id where the turn states one and the calls have ids; else a call before it is enough. Such turns
are counted, or left out with their row where the source's options say so (`tool_turns`).
"""

from typing import Any

from tasks.conversion.conversation.messages import Messages, check_messages
from tasks.conversion.preference.answers import Answer, Item
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable
from tasks.errors import shown


def unmatched_tool_turn(messages: Messages) -> int | None:
    """Position of the first tool turn that answers no call made before it, or None."""
    ids: set[Any] = set()
    called = False
    for i, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            called = True
            ids.add(call.get("id"))
        if message["role"] == "tool":
            call_id = message.get("tool_call_id")
            named = ids - {None}
            if not called or (call_id is not None and named and call_id not in named):
                return i
    return None


def with_matched_turns(item: Item) -> Item:
    """The item, or the reason why it is left out: a tool's turn in it answers no call.

    What cannot be read as messages at all is left to the check that every pair passes.
    """
    try:
        if isinstance(item, Tie):
            faults = [_fault(pair) for pair in item.kept]
            return next((fault for fault in faults if fault is not None), item)
        if isinstance(item, Pair):
            return _fault(item) or item
        if isinstance(item, Answer):
            return _fault_of_answer(item) or item
    except Unusable:
        return item
    return item


def _fault(pair: Pair) -> Unusable | None:
    whole = checked(pair)
    if whole.format == "standard":
        return None
    sides = (("chosen", whole.chosen), ("rejected", whole.rejected))
    faults = (_unmatched(whole.prompt, side, name) for name, side in sides)
    return next((fault for fault in faults if fault is not None), None)


def _fault_of_answer(answer: Answer) -> Unusable | None:
    if not isinstance(answer.prompt, list) or not isinstance(answer.completion, list):
        return None
    prompt = check_messages(answer.prompt, "prompt", [])
    completion = check_messages(answer.completion, "completion", [])
    return _unmatched(prompt, completion, "completion")


def _unmatched(prompt: Messages, side: Messages, name: str) -> Unusable | None:
    place = unmatched_tool_turn(prompt + side)
    if place is None:
        return None
    turn = (prompt + side)[place]
    field = f"prompt[{place}]" if place < len(prompt) else f"{name}[{place - len(prompt)}]"
    return Unusable(
        "unmatched_tool_turn",
        field,
        f"found a tool's turn with tool_call_id {shown(turn.get('tool_call_id'), 40)}, expected a "
        "call of that id in tool_calls of a turn before it; correct the ids, leave the row out, or "
        "keep such rows with options tool_turns: count",
    )
