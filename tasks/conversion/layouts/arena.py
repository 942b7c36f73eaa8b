r"""Layout `arena`: two models answer the same turns, and a person says which did better.

    {"model_a": "x", "model_b": "y", "prompt": "[\"Hi\", \"And?\"]",
     "response_a": "[\"Hello.\", \"Well.\"]", "response_b": "[\"No.\", \"No!\"]",
     "winner_model_a": "1", "winner_model_b": "0", "winner_tie": "0"}

is one pair: prompt [user "Hi"]; chosen [assistant "Hello.", user "And?", assistant "Well."];
rejected [assistant "No.", user "And?", assistant "No!"]. Each list has one element per turn, as a
list or as its JSON text. Beside a `winner` they are one turn's texts, as they are, unless all three
are such lists:

    {"model_a": "x", "model_b": "y", "winner": "tie", "prompt": "Hi", "response_a": "Hello.", ...

where the answers may be `response_1` and `response_2`, too (the human preferences of PPE). Or
there are whole conversations as messages:

    {"model_a": "x", "model_b": "y", "winner": "model_b", "conversation_a": [{"role": "user", ...

There, `turn` says which answer was judged, counted from 1 (MT-Bench shows whole conversations and
has each answer judged); what comes behind it is left out, and a row in which that answer is not
cannot be used.
"""

from typing import Any, Literal

from tasks.conversion.conversation.messages import Messages, check_messages, is_answer
from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.conversational import pair_as_conversation
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.labels import good
from tasks.conversion.preference.pair import IMPLICIT, pair_of
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

Better = Literal["a", "b", "tie"]
BETTER: tuple[Better, ...] = ("a", "b", "tie")
WINNERS = ("winner_model_a", "winner_model_b", "winner_tie")
CONVERSATIONS = ("conversation_a", "conversation_b")
TEXTS = (("response_a", "response_b"), ("response_1", "response_2"))
READ = ("prompt", *TEXTS[0], *WINNERS, "winner", *CONVERSATIONS, "turn", *TEXTS[1])
TIES = ("tie", "tie (bothbad)", "both_bad", "tie (inconsistent)")
_TURNS = 'a list with one text per turn, such as ["Hello."]'


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Two models, and one of the ways to name a winner."""
    models = {"model_a", "model_b"} <= columns
    return models and (
        {"winner", *CONVERSATIONS} <= columns
        or {*WINNERS, "prompt", *TEXTS[0]} <= columns
        or any({"winner", "prompt", *names} <= columns for names in TEXTS)
    )


def pairs(row: Row) -> list[Item]:
    """The row's one pair, as messages, or its tie.

    Raises:
        Unusable: missing_column, bad_label, null, null_content, bad_json, wrong_type,
            bad_transcript, or a message's reason.
    """
    better = _better(row)
    prompt, sides = _sides(row)
    pair = pair_as_conversation(pair_of(prompt, sides, better != "b"))
    if better == "tie":
        field = "winner" if "winner" in row else "winner_tie"
        return [Tie(field, f"found {found(row[field])}: a tie prefers neither answer", [pair])]
    return [pair]


def _sides(row: Row) -> tuple[Any, list[Any]]:
    """The prompt (`IMPLICIT` for whole conversations), and the answers of both models."""
    if any(name in row for name in CONVERSATIONS):
        judged = _turn(row.get("turn"))
        conversations = {
            name: as_messages(listed(required(row, name), name, "a list of messages"))
            for name in CONVERSATIONS
        }
        return IMPLICIT, [
            _until(judged, messages, name) for name, messages in conversations.items()
        ]
    names = TEXTS[1] if "winner" in row and "response_1" in row else TEXTS[0]
    prompt, *answers = [required(row, name) for name in ("prompt", *names)]
    if "winner" in row and not all(_is_turns(value) for value in (prompt, *answers)):
        return prompt, answers
    prompts = _texts(prompt, "prompt")
    return IMPLICIT, [_conversation(prompts, row, name) for name in names]


def _is_turns(value: Any) -> bool:
    """Whether it is a list with one text per turn, or its JSON."""
    try:
        turns = listed(value, "", _TURNS)
    except Unusable:
        return False
    return all(isinstance(turn, str | None) for turn in turns)


def _better(row: Row) -> Better:
    if "winner" in row:
        winner = row["winner"]
        if isinstance(winner, str) and winner.strip() in TIES:
            return "tie"
        if winner not in ("model_a", "model_b"):
            listing = ", ".join(("model_a", "model_b", *TIES))
            raise Unusable(
                "bad_label", "winner", f"found {found(winner)}, expected one of {listing}"
            )
        return "a" if winner == "model_a" else "b"
    won = [good(required(row, name), name) for name in WINNERS]
    if sum(won) != 1:
        raise Unusable(
            "bad_label",
            "winner_model_a",
            f"found {sum(won)} of {', '.join(WINNERS)} set, expected exactly one of them",
        )
    return BETTER[won.index(True)]


def _turn(value: Any) -> int | None:
    """Which answer of a conversation was judged, from 1; None: the last."""
    number = exact_number(value, "wrong_type", "turn")
    if number is not None and (number < 1 or number != int(number)):
        raise Unusable(
            "wrong_type", "turn", f"found {found(value)}, expected 1 for the first answer, 2 ..."
        )
    return None if number is None else int(number)


def _until(judged: int | None, messages: Messages, name: str) -> Messages:
    """A conversation up to the answer that was judged.

    Raises:
        Unusable: bad_label, or a message's reason.
    """
    if judged is None:
        return messages
    answers = [i for i, message in enumerate(messages) if is_answer(message)]
    if judged > len(answers):
        check_messages(messages, name, [])  # a bad message may be the answer that was judged
        raise Unusable(
            "bad_label",
            "turn",
            f"found {judged}, but {len(answers)} answers in {name}, expected the number of one of "
            "them; correct it, or drop the row",
        )
    return messages[: answers[judged - 1] + 1]


def _texts(value: Any, field: str) -> list[str]:
    """The texts of all turns; none of them may be null."""
    texts = listed(value, field, _TURNS)
    for i, text in enumerate(texts):
        if text is None:
            raise Unusable(
                "null_content",
                f"{field}[{i}]",
                f"found null as turn {i + 1} of {len(texts)}, expected its text: the model gave "
                "no answer; drop the row",
            )
        if not isinstance(text, str):
            raise Unusable("wrong_type", f"{field}[{i}]", f"found {found(text)}, expected text")
    return texts


def _conversation(prompts: list[str], row: Row, field: str) -> Messages:
    answers = _texts(required(row, field), field)
    if len(answers) != len(prompts):
        raise Unusable(
            "bad_transcript",
            field,
            f"found {len(answers)} answers to {len(prompts)} prompts, expected one to each",
        )
    return [
        {"role": role, "content": text}
        for turn in zip(prompts, answers, strict=True)
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
