r"""Layout `hh_rlhf`: two transcripts that part at the last answer.

    {"chosen":   "\n\nHuman: Hi\n\nAssistant: Hello. How are you?",
     "rejected": "\n\nHuman: Hi\n\nAssistant: Go away."}

is one pair: prompt [user "Hi"], chosen [assistant "Hello. How are you?"], rejected [assistant
"Go away."]. A turn starts where a blank line is followed by `Human:` or `Assistant:` and by one
space, a line break or the end; that space is not part of the turn, every other character is. The
prompt is all that stands before the last turn, and must be the same on both sides.
"""

import re
from typing import Any

from tasks.conversion.conversation.messages import Messages
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.preference.pair import Pair, answer_turn
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = ("chosen", "rejected")
ROLES = {"Human": "user", "Assistant": "assistant"}
_TURN = re.compile(r"\n\n(Human|Assistant):(?: |(?=\n)|\Z)")
_CRLF_TURN = re.compile(r"\r\n\r\n(Human|Assistant):")
_START = re.compile(r"\s*(Human|Assistant):")


def fits(columns: set[str], row: Row) -> bool:
    """Both answers are transcripts, and there is no prompt column."""
    texts = row.get("chosen"), row.get("rejected")
    return "prompt" not in columns and all(isinstance(t, str) and _START.match(t) for t in texts)


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_transcript, no_final_assistant, no_prompt,
            prompts_differ.
    """
    prompt, chosen, rejected, _ = sides(row)
    return [Pair(prompt, chosen, rejected)]


def sides(row: Row) -> tuple[Messages, Messages, Messages, None]:
    """Prompt, chosen and rejected of that pair, and no margin.

    Raises:
        Unusable: as `pairs`.
    """
    text, other = required(row, "chosen"), required(row, "rejected")
    chosen = _turns(text, "chosen")
    prompt = chosen[:-1]
    shared = text[: len(text) - len(chosen[-1]["content"])]
    if isinstance(other, str) and shared.endswith(" ") and other.startswith(shared):
        answer = other[len(shared) :]
        if not _TURN.search(answer):  # the usual case: the prompt need not be split again
            return prompt, chosen[-1:], answer_turn(answer), None
    rejected = _turns(other, "rejected")
    if prompt != rejected[:-1]:
        raise _prompts_differ(prompt, rejected[:-1])
    return prompt, chosen[-1:], rejected[-1:], None


def _turns(text: Any, field: str) -> Messages:
    """The transcript's messages: a prompt, and an assistant's turn at the end."""
    if not isinstance(text, str):
        expected = "a transcript as text; messages are read by layout trl"
        raise not_as_expected(text, field, expected)
    turns = split_turns(text, field)
    if turns[-1]["role"] != "assistant":
        raise Unusable(
            "no_final_assistant",
            field,
            "found a Human's turn at the end, expected an Assistant's: the turn that is compared"
            + _line_ends(text),
        )
    if len(turns) == 1:
        raise Unusable(
            "no_prompt", field, "found only an Assistant's turn, expected a Human's before it"
        )
    return turns


def split_turns(text: str, field: str) -> Messages:
    """The messages of a transcript, at least one.

    Raises:
        Unusable: bad_transcript.
    """
    parts = _TURN.split(text if text.startswith("\n\n") else "\n\n" + text.lstrip())
    if parts[0].strip() or len(parts) == 1:
        raise Unusable(
            "bad_transcript",
            field,
            f"found {found(text)}, expected it to begin with '\\n\\nHuman: '" + _line_ends(text),
        )
    return [
        {"role": ROLES[speaker], "content": content}
        for speaker, content in zip(parts[1::2], parts[2::2], strict=True)
    ]


def _line_ends(text: str) -> str:
    """What to do about turns that begin with the line ends of Windows, where there are any."""
    return "; write its line ends as LF, not CR LF" if _CRLF_TURN.search(text) else ""


def _prompts_differ(chosen: Messages, rejected: Messages) -> Unusable:
    both = zip(chosen, rejected, strict=False)
    shorter = min(len(chosen), len(rejected))
    turn = next((i for i, (a, b) in enumerate(both) if a != b), shorter)
    texts = [
        found(side[turn]["content"]) if turn < len(side) else "no such turn"
        for side in (chosen, rejected)
    ]
    return Unusable(
        "prompts_differ",
        "rejected",
        f"found prompts of {len(chosen)} and {len(rejected)} turns that part at turn {turn + 1}: "
        f"{texts[0]} in chosen, {texts[1]} in rejected; expected the same turns before the last "
        "answer; correct the transcripts or drop the row",
    )
