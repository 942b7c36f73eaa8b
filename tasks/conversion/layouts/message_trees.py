"""Layout `message_trees`: a conversation that branches, its sibling answers ranked (OpenAssistant).

    {"message_tree_id": "t", "tree_state": "ready_for_export", "prompt":
      {"text": "Hi", "role": "prompter", "replies": [
        {"text": "Hello.", "role": "assistant", "rank": 0, "replies": [
          {"text": "Who?", "role": "prompter", "replies": [
            {"text": "An assistant.", "role": "assistant", "rank": 1, "replies": []},
            {"text": "I am Joe.", "role": "assistant", "rank": 0, "replies": []}]}]},
        {"text": "No.", "role": "assistant", "rank": 1, "replies": []}]}}

                Hi
           ┌────┴────┐
       Hello. (0)  No. (1)              Hi                  Hello.     > No.
           │                            Hi, Hello., Who?    I am Joe.  > An assistant.
         Who?
      ┌────┴─────────┐
    An assistant. (1)  I am Joe. (0)

is two comparisons: each message with several answers asks, with all that was said down to it. Rank
0 is the best; ranks tell an order and no distance, so there is no margin. A message with one answer
compares nothing. Below every answer the conversation goes on, the worse ones too; what was deleted,
or turned down by reviewers, is left out with all below it.
"""

from dataclasses import dataclass
from typing import Any

from tasks.conversion.conversation.messages import Messages
from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Item, alone, ranked
from tasks.conversion.preference.scores import Score, score_of_rank, without_margins
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = ("prompt",)
ROLES = {"prompter": "user", "assistant": "assistant"}
"""Those of the release, and what they are called here."""


@dataclass(frozen=True)
class _Branch:
    """A message of the tree with its replies."""

    turns: Messages
    """The messages from the root of the tree down to this one."""
    replies: list[Any]
    field: str
    """Where the message stands in the row."""


def fits(columns: set[str], row: Row) -> bool:
    """A prompt that is a message with its replies."""
    return "prompt" in columns and is_object(row.get("prompt"), "text", "replies")


def read(row: Row, options: RankingOptions) -> list[Item]:
    """The pairs of all comparisons of the tree; what cannot be compared, one by one.

    Raises:
        Unusable: missing_column, null, wrong_type, null_content, unknown_role, unrated (the first
            message was deleted), unpaired_alone.
    """
    items: list[Item] = []
    waiting = [_followed([], required(row, "prompt"), "prompt")]
    while waiting:
        branch = waiting.pop()
        answers: list[tuple[str, Any, Score]] = []
        below: list[_Branch] = []
        for i, reply in enumerate(branch.replies):
            field = f"{branch.field}.replies[{i}]"
            try:
                below.append(_followed(branch.turns, reply, field))
            except Unusable as problem:
                items.append(problem)
                continue
            answer = below[-1].turns[-1:]
            if answer[0]["role"] == "assistant":
                score = score_of_rank(reply.get("rank"), f"{field}.rank")
                answers.append((f"{field}.text", answer, score))
        waiting += reversed(below)
        if len(answers) > 1:
            items += without_margins(ranked(answers, branch.turns, options))
    if not items:
        raise alone(1, "answers")
    return items


def _followed(turns: Messages, message: Any, field: str) -> _Branch:
    """The branch of a message below these turns."""
    if not is_object(message):
        raise not_as_expected(message, field, "a message with its replies")
    if message.get("deleted") is True or message.get("review_result") is False:
        raise Unusable(
            "unrated",
            field,
            "found a message that was deleted or that reviewers turned down: it is left out, with "
            "all replies below it",
        )
    role, text = message.get("role"), message.get("text")
    if role not in ROLES:
        raise Unusable(
            "unknown_role", f"{field}.role", f"found {found(role)}, expected {' or '.join(ROLES)}"
        )
    if not isinstance(text, str):
        raise Unusable("null_content", f"{field}.text", f"found {found(text)}, expected text")
    replies = message.get("replies")
    return _Branch(
        [*turns, {"role": ROLES[role], "content": text}],
        [] if replies is None else listed(replies, f"{field}.replies"),
        field,
    )
