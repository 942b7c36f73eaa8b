"""Layout `rewardbench2`: version 2 of that benchmark's rows, answers that are right and wrong.

    {"id": "math-0", "subset": "Math", "prompt": "1+1", "chosen": ["2"],
     "rejected": ["3", "4", "11"], "num_correct": 1, "total_completions": 4}

are three pairs of messages: each right answer with each wrong one. Rows of the subset Ties have
several right answers; those are not compared with one another, and prompts with very many of both
are cut at `max_pairs`.
"""

from decimal import Decimal
from typing import Any, cast

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.options import LabelOptions
from tasks.conversion.preference.answers import Answer, Item, capped, comparison_of
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.pairing import pair_up
from tasks.conversion.unusable import Unusable

READ = ("prompt", "chosen", "rejected")


def fits(columns: set[str], row: Row) -> bool:
    """One prompt, and texts in two lists."""
    answers = all(_is_texts(row.get(name)) for name in ("chosen", "rejected"))
    return answers and "prompt" in columns and not _is_texts(row.get("prompt"))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast(list[Any], value))


def read(row: Row, options: LabelOptions) -> list[Item]:
    """The row's pairs, as messages.

    Raises:
        Unusable: missing_column, null, bad_json, wrong_type, unpaired_alone.
    """
    prompt = required(row, "prompt")
    right = listed(required(row, "chosen"), "chosen", "a list of answers")
    wrong = listed(required(row, "rejected"), "rejected", "a list of answers")
    if not right or not wrong:
        raise Unusable(
            "unpaired_alone",
            "rejected" if right else "chosen",
            f"found {len(right)} right and {len(wrong)} wrong answers, expected some of both",
        )
    answers = right + wrong
    scores = [Decimal(i < len(right)) for i in range(len(answers))]
    names = [i.to_bytes(8, "big") for i in range(len(answers))]  # a row has an order of its own
    up = pair_up(scores, names, options.pairs, options.max_pairs)
    judged = [Answer(prompt, answer, i < len(right)) for i, answer in enumerate(answers)]
    comparison = comparison_of(judged) if len(up.pairs) > 1 else None
    items: list[Item] = [
        as_conversation(Pair(prompt, answers[i], answers[j], comparison=comparison))
        for i, j in up.pairs
    ]
    if up.capped:
        items.append(capped(up.capped, options.max_pairs, "chosen"))
    return items
