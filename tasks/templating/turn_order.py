"""Orders of turns that many templates refuse or drop: looked at where one does.

assistant > user > assistant          starts_with_assistant
user > system > assistant             system_position
user > user > assistant               roles_do_not_alternate
"""

from itertools import pairwise

from tasks.templating.render import Messages

SYSTEM = ("system", "developer")


def unusual_order(messages: Messages) -> tuple[str, str] | None:
    """The reason's name and a sentence, or None for the usual order of turns."""
    roles = [str(message["role"]) for message in messages]
    systems = [i for i, role in enumerate(roles) if role in SYSTEM]
    if systems and systems != [0]:
        return (
            "system_position",
            f"found a {roles[systems[-1]]} turn as turn {systems[-1] + 1} of {len(roles)}, "
            "expected one at most, and at the beginning",
        )
    talk = [i for i, role in enumerate(roles) if role not in SYSTEM]
    if talk and roles[talk[0]] == "assistant":
        return (
            "starts_with_assistant",
            "found an assistant's turn as the first, expected a user's before it",
        )
    for i, j in pairwise(talk):
        if roles[i] == roles[j] != "tool":
            return (
                "roles_do_not_alternate",
                f"found two {roles[i]} turns in a row, turns {i + 1} and {j + 1}; join them",
            )
    return None
