"""Answers that are judged one by one, and the pairs that they make with one another.

A layout that finds a score or a label per answer builds `Answer`s: of one row, which `ranked`
pairs at once, or one per row, which are paired when all rows of their prompt stand together
(`groups`). Scores 3, 1 and 2 of three answers become three pairs with the margins 2, 1 and 1;
the labels good, bad and bad become two pairs without a margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Literal, cast

import orjson

from tasks.conversion.conversation.messages import check_messages
from tasks.conversion.options import LabelOptions, RankingOptions
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.pairing import PairedUp, pair_up
from tasks.conversion.preference.repeated import AVERAGED, judged, undecided
from tasks.conversion.preference.sides import check_last_turn, empty_response
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

Rules = RankingOptions | LabelOptions


@dataclass(frozen=True)
class Answer:
    """One answer to a prompt, and what it was judged to be worth; values as the row holds them."""

    prompt: Any
    """None where another row of the same group states it."""
    completion: Any
    """None in a row that states no more than the group's prompt."""
    score: Decimal | bool
    """Higher is better; a bool is a label: good or bad, and no more is known."""
    group: str | None = None
    """The id that joins rows; None: their prompt does."""
    tools: str | None = None
    chat_template_kwargs: str | None = None


Item = Pair | Unusable | Answer
"""What a layout may find in a row. Unusable stands for some of the row's pairs, not for all."""


def check_completion(completion: Any, field: str) -> None:
    """Raises Unusable unless the completion can stand in a pair.

    Asked before answers are paired: a bad one is one loss, not one with every partner.

    Raises:
        Unusable: null, wrong_type, empty_response, no_final_assistant, or a message's reason.
    """
    if completion is None:
        raise Unusable("null", field, "found null, expected an answer; drop the row or fill it")
    if isinstance(completion, list):
        check_last_turn(field, check_messages(cast(list[Any], completion), field, []))
    elif not isinstance(completion, str):
        raise Unusable(
            "wrong_type", field, f"found {found(completion)}, expected text or a list of messages"
        )
    elif not completion.strip():
        raise empty_response(field, completion)


def ranked(
    answers: Sequence[tuple[str, Any, Decimal | bool | Unusable | None]],
    prompt: Any,
    rules: Rules,
    **context: str | None,
) -> list[Pair | Unusable]:
    """The pairs of one row's answers, given as (field, completion, score).

    An answer without a score (None), with one that cannot be read (its `Unusable`), or that is no
    answer itself is one item; the others are paired. `context`: tools, chat_template_kwargs.

    Raises:
        Unusable: unpaired_alone, where nothing can be compared.
    """
    items: list[Pair | Unusable] = []
    usable: list[Answer] = []
    for field, completion, score in answers:
        try:
            check_completion(completion, field)
        except Unusable as problem:
            items.append(problem)
            continue
        if isinstance(score, Unusable):
            items.append(score)
        elif score is None:
            items.append(Unusable("unrated", field, "found no score for this answer: left out"))
        else:
            usable.append(Answer(prompt, completion, score, **context))
    items += [item for item, _ in joined(usable, rules)]
    if not items:
        raise alone(len(usable), "answers")
    return items


def joined(answers: Sequence[Answer], rules: Rules) -> list[tuple[Pair | Unusable, int]]:
    """The pairs of one prompt's answers, each with the position of the answer that is chosen.

    Ties and pairs over the cap stand behind them as one `Unusable` each. Good answers are no ties
    with one another, and bad ones neither: a label compares only good with bad. Of an answer that
    is judged several times there is one (`repeated`).
    """
    labels = all(isinstance(answer.score, bool) for answer in answers)
    names = [*map(_name, answers)]
    once = [*judged(names, [answer.score for answer in answers])]
    said = [one for one in once if one.score is not None]
    left_out = [(undecided(one.ratings), one.place) for one in once if one.score is None]
    answers = [replace(answers[one.place], score=one.score) for one in said]
    averaged = [one.ratings > 1 for one in said]
    scores = [Decimal(answer.score) for answer in answers]
    up = pair_up(scores, [names[one.place] for one in said], rules.pairs, rules.max_pairs)
    made = [
        _noted(
            _pair(answers[i], answers[j], scores[i] - scores[j], labels), averaged[i] | averaged[j]
        )
        for i, j in up.pairs
    ]
    tied = [] if labels else [_pair(answers[i], answers[j]) for i, j in up.tied]
    named = [p for p in (*made, *tied) if isinstance(p, Pair)]
    comparison = comparison_of(answers) if len(named) > 1 else None
    items: list[tuple[Pair | Unusable, int]] = [
        (_compared(item, comparison), i) for item, (i, _) in zip(made, up.pairs, strict=True)
    ]
    if up.ties and not labels:
        items.append((_ties(up, tied, comparison, len(answers)), 0))
    if up.capped:
        message = f"{up.capped} pairs over max_pairs {rules.max_pairs} are left out"
        items.append((Unusable("capped", "score", message, up.capped), 0))
    return [(item, said[i].place) for item, i in items] + left_out


def alone(count: int, what: Literal["answers", "rows"]) -> Unusable:
    """The reason of answers that have no partner."""
    judged = f"{count} {what} to this prompt and no two of which one is better"
    found = f"no more than one {what[:-1]} to this prompt" if count == 1 else judged
    return Unusable(
        "unpaired_alone",
        "completion",
        f"found {found}, expected a good and a worse one; add rows of the same prompt",
    )


def comparison_of(answers: Sequence[Answer]) -> str:
    """The id of a list of judged answers to one prompt: whatever their order, and their source."""
    judged = sorted(_name(answer) + _spelled(answer.score).encode() for answer in answers)
    first = answers[0]
    context = [(first.tools or "").encode(), (first.chat_template_kwargs or "").encode()]
    return blake2b(b"\0".join([*context, *judged]), digest_size=16).hexdigest()


def _spelled(score: Decimal | bool) -> str:
    """A score in one spelling: JSON and tables write 1 and 1.0 of one."""
    return str(score if isinstance(score, bool) else score.normalize())


def _compared(item: Pair | Unusable, comparison: str | None) -> Pair | Unusable:
    return replace(item, comparison=comparison) if isinstance(item, Pair) else item


def _noted(item: Pair | Unusable, averaged: bool) -> Pair | Unusable:
    return replace(item, notes=(AVERAGED,)) if averaged and isinstance(item, Pair) else item


def _ties(
    up: PairedUp, tied: Sequence[Pair | Unusable], comparison: str | None, answers: int
) -> Tie:
    message = f"found {up.ties} of {answers} answers' pairs with equal scores: no choice"
    kept = [replace(pair, comparison=comparison) for pair in tied if isinstance(pair, Pair)]
    return Tie("score", message, kept, up.ties)


def _pair(
    better: Answer, worse: Answer, difference: Decimal | None = None, labels: bool = False
) -> Pair | Unusable:
    """The pair of two answers; a difference of labels is no margin."""
    if better.prompt != worse.prompt:
        return Unusable(
            "prompts_differ",
            "prompt",
            f"found {found(better.prompt)} and {found(worse.prompt)} in rows of one group, "
            "expected one prompt; correct the id that joins them",
        )
    return Pair(
        better.prompt,
        better.completion,
        worse.completion,
        better.tools,
        better.chat_template_kwargs,
        None if difference is None or labels else float(difference),
    )


def _name(answer: Answer) -> bytes:
    said = orjson.dumps([answer.prompt, answer.completion], option=orjson.OPT_SORT_KEYS)
    return blake2b(said, digest_size=16).digest()
