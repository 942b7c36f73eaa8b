"""Prompt and answers told apart, whichever of the shapes of a preference row they came in.

    implicit             {chosen, rejected}                      -> what both begin with
    explicit             {prompt, chosen, rejected}              -> as it is
    explicit, repeated   {prompt, chosen: prompt + answer, ...}  -> the repetition is taken out
    text prompt          {prompt: "Hi", chosen: [messages]}      -> a user turn, or one found inside

Each row is decided by its own content. In a conversation the two sides may only part at a turn of
the assistant: where they part at a user's turn, they answer different prompts.
"""

from tasks.conversion.conversation.messages import Messages, text_of
from tasks.conversion.preference.shapes import common_messages, common_text
from tasks.conversion.unusable import Unusable, found

REPEATED = "prompt repeated in both answers -> taken out"
ASKING = ("user", "system", "developer")


def separated_text(
    prompt: str | None, chosen: str, rejected: str, notes: list[str]
) -> tuple[str | None, str, str]:
    """Prompt and answers of a pair of texts; prompt None where nothing is shared.

    A prompt of several words that both answers begin with is a repetition. One that only one
    answer begins with is an answer that quotes its question, and stays.

    Raises:
        Unusable: empty_response, where an answer is nothing but the repeated prompt.
    """
    if prompt is None:
        cut = common_text(chosen, rejected)
        return chosen[:cut] or None, chosen[cut:], rejected[cut:]
    repeated = chosen.startswith(prompt) and rejected.startswith(prompt)
    if not repeated or len(prompt.split()) < 2:
        return prompt, chosen, rejected
    n = len(prompt)
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer[n:].strip():
            raise Unusable(
                "empty_response",
                name,
                "found only the prompt again, expected an answer after it; drop the row",
            )
    if _tears_a_word(chosen, n) or _tears_a_word(rejected, n):
        return prompt, chosen, rejected
    notes.append(REPEATED)
    return prompt, chosen[n:], rejected[n:]


def _tears_a_word(text: str, cut: int) -> bool:
    return text[cut - 1].isalnum() and text[cut].isalnum()


def separated_messages(
    prompt: str | Messages | None, chosen: Messages, rejected: Messages, notes: list[str]
) -> tuple[Messages, Messages, Messages]:
    """Prompt and answers of a pair of conversations, all as messages.

    Raises:
        Unusable: prompts_differ, prompt_not_prefix, prompt_duplicated, or no_prompt.
    """
    if isinstance(prompt, str):
        if chosen[0]["role"] not in ASKING and rejected[0]["role"] not in ASKING:
            notes.append("prompt text -> user message")
            return [{"role": "user", "content": prompt}], chosen, rejected
        return _with_text_prompt(prompt, chosen, rejected, notes)
    if prompt is None:
        return _common_beginning([], chosen, rejected)
    n = len(prompt)
    inside = [side[:n] == prompt for side in (chosen, rejected)]
    if all(inside) and len(chosen) > n and len(rejected) > n:
        notes.append(REPEATED)
        chosen, rejected = chosen[n:], rejected[n:]
    elif any(inside):
        name = "chosen" if inside[0] else "rejected"
        raise Unusable(
            "prompt_duplicated",
            name,
            f"found the whole prompt again at the beginning of {name}, but not on both sides with "
            "an answer after it; expected it so on both sides, or on neither",
        )
    if chosen[0]["role"] not in ASKING and rejected[0]["role"] not in ASKING:
        _check_unanswered(prompt, chosen, rejected)
        return prompt, chosen, rejected
    if prompt[-1]["role"] == "user":
        raise _not_a_prefix(prompt, chosen, rejected)
    return _common_beginning(prompt, chosen, rejected)


def _check_unanswered(prompt: Messages, chosen: Messages, rejected: Messages) -> None:
    """Refuses a prompt that is the whole conversation, the answer of one side at its end."""
    answered = text_of(prompt[-1]).strip() if prompt[-1]["role"] == "assistant" else ""
    for name, side in (("chosen", chosen), ("rejected", rejected)):
        if answered and side[0]["role"] == "assistant" and text_of(side[0]).strip() == answered:
            raise Unusable(
                "prompt_duplicated",
                f"prompt[{len(prompt) - 1}]",
                f"found at the prompt's end the answer that {name} begins with: {found(answered)}; "
                "expected the turns that are answered; take it out of the prompt",
            )


def _with_text_prompt(
    prompt: str, chosen: Messages, rejected: Messages, notes: list[str]
) -> tuple[Messages, Messages, Messages]:
    """Where both sides repeat the text prompt as a user turn, as in UltraFeedback-binarized."""
    whole = _common_beginning([], chosen, rejected)
    user_texts = [text_of(m).strip() for m in whole[0] if m["role"] == "user" and m["content"]]
    if prompt.strip() not in user_texts:
        seen = found(user_texts[0]) if user_texts else "no user turn"
        raise Unusable(
            "prompt_not_prefix",
            "prompt",
            f"found {found(prompt)} as prompt but {seen} in the turns that both sides share, "
            "expected the prompt to be one of their user turns; correct it, or have it left unread "
            "with layout: trl, options: {prompt: in_answers} (in a script: remove the column)",
        )
    notes.append(REPEATED)
    return whole


def _common_beginning(
    prompt: Messages, chosen: Messages, rejected: Messages
) -> tuple[Messages, Messages, Messages]:
    """The prompt with the turns that both sides share after it; they must part at an answer."""
    n = common_messages(chosen, rejected)
    whole = prompt + chosen[:n]
    for name, side in (("chosen", chosen), ("rejected", rejected)):
        if side[n]["role"] in ASKING:
            raise Unusable(
                "prompts_differ",
                f"{name}[{n}]",
                f"found that the two sides part at turn {n + 1}, where {name} has a "
                f"{side[n]['role']!r} turn: {found(side[n]['content'])}; expected them to part at "
                "an assistant's turn, after the same prompt",
            )
    if not whole:
        raise Unusable(
            "no_prompt",
            "chosen",
            "found an assistant's turn at the very beginning and no prompt, expected the turns "
            "that are answered; give them in 'prompt' or before the answer",
        )
    return whole, chosen[n:], rejected[n:]


def _not_a_prefix(prompt: Messages, chosen: Messages, rejected: Messages) -> Unusable:
    name, side = ("chosen", chosen) if chosen[0]["role"] in ASKING else ("rejected", rejected)
    both = zip(prompt, side, strict=False)
    turn = next((i for i, (a, b) in enumerate(both) if a != b), len(side))
    theirs = found(side[turn]["content"]) if turn < len(side) else "nothing"
    mine = found(prompt[turn]["content"]) if turn < len(prompt) else "nothing more"
    return Unusable(
        "prompt_not_prefix",
        f"{name}[{turn}]",
        f"found {theirs} at turn {turn + 1} where the prompt has {mine}; expected {name} to begin "
        "with an assistant's turn, or to repeat the whole prompt",
    )
