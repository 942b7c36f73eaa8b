"""Layout `alpaca`: an instruction and its input, and two answers to it.

    {"instruction": "Translate.", "input": "Guten Tag", "chosen": "Good day", "rejected": "No."}

is one pair: prompt [user "Translate.\\nGuten Tag"], chosen [assistant "Good day"], rejected
[assistant "No."], as LLaMA-Factory reads it. Optional: `input`, `system` (put before the
conversation), `history`, earlier turns as [[question, answer], ...], `tools` and `margin`.
Older files have both answers in one list, the better one first: {"output": ["Good day", "No."]}.
"""

from typing import Any, cast

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, required, with_system
from tasks.conversion.preference.fields import margin_of, tools_of
from tasks.conversion.preference.pair import Pair, answer_turn
from tasks.conversion.unusable import Unusable, not_as_expected

READ = (
    *("instruction", "input", "chosen", "rejected", "output"),
    *("system", "history", "tools", "margin"),
)
TURNS = "[[question, answer], ...]"
SIDES = ("chosen", "rejected")


def fits(columns: set[str], row: Row) -> bool:
    """Two texts that answer an instruction, beside which stands an input, empty or not."""
    answers = _both(row) or [row.get(side) for side in SIDES]
    texts = all(isinstance(value, str) for value in (row.get("instruction"), *answers))
    return texts and len(answers) == 2 and "input" in columns and "prompt" not in columns


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, wrong_type, no_prompt, or the reason of a single value.
    """
    parts = [_text("instruction", required(row, "instruction")), _text("input", row.get("input"))]
    if not any(part.strip() for part in parts):
        raise Unusable("no_prompt", "instruction", "found neither it nor an input, expected text")
    asked = {"role": "user", "content": "\n".join(part for part in parts if part)}
    prompt = [*_earlier(row.get("history") or []), asked]
    chosen, rejected = _answers(row)
    return [
        Pair(
            prompt=with_system(row.get("system"), prompt),
            chosen=answer_turn(chosen),
            rejected=answer_turn(rejected),
            tools=tools_of(row.get("tools")),
            margin=margin_of(row.get("margin")),
        )
    ]


def _answers(row: Row) -> list[str]:
    """The better answer and the worse one."""
    both = _both(row)
    if both is None:
        return [_text(side, required(row, side)) for side in SIDES]
    if len(both) != 2:
        expected = "two, the better one first; name the two in columns chosen and rejected"
        raise Unusable("wrong_type", "output", f"found {len(both)} answers, expected {expected}")
    return [_text(f"output[{place}]", answer) for place, answer in enumerate(both)]


def _both(row: Row) -> list[Any] | None:
    """The list of answers of an older row."""
    answers = row.get("output")
    alone = all(row.get(side) is None for side in SIDES)
    return cast(list[Any], answers) if alone and isinstance(answers, list) else None


def _earlier(history: Any) -> list[dict[str, Any]]:
    """The turns before the instruction."""
    turns: list[dict[str, Any]] = []
    for place, turn in enumerate(listed(history, "history", TURNS)):
        if not isinstance(turn, list) or len(turn) != 2:  # pyright: ignore[reportUnknownArgumentType]
            at = f"history[{place}]"
            raise not_as_expected(turn, at, "[question, answer]")
        for role, content in zip(("user", "assistant"), turn, strict=True):  # pyright: ignore[reportUnknownArgumentType]
            turns.append({"role": role, "content": content})
    return turns


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | None):
        raise not_as_expected(value, name, "text")
    return value or ""
