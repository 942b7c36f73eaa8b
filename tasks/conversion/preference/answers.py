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
from tasks.conversion.preference.pairing import pair_up
from tasks.conversion.preference.repeated import AVERAGED, judged, undecided
from tasks.conversion.preference.sides import check_kind, check_last_turn, empty_response
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

    Called before answers are paired, so that a bad one is one loss and not one per partner.

    Raises:
        Unusable: null, wrong_type, empty_response, no_final_assistant, or a message's reason.
    """
    check_kind(field, completion)
    if isinstance(completion, list):
        check_last_turn(field, check_messages(cast(list[Any], completion), field, []))
    elif not completion.strip():
        raise empty_response(field, completion)


def ranked(
    answers: Sequence[tuple[str, Any, Decimal | bool | Unusable | None]],
    prompt: Any,
    rules: Rules,
    **context: str | None,
) -> list[Pair | Unusable]:
    """The pairs of one row's answers, given as (field, completion, score).

    An answer that cannot be compared becomes one `Unusable`: its completion is unusable, it has no
    score (None), or its score cannot be read (the `Unusable` given in its place). The others are
    paired. `context`: tools, chat_template_kwargs.

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

    Ties and pairs over the cap stand behind them as one `Unusable` each. A label compares good
    answers with bad ones only: two good ones are no tie, nor are two bad ones. An answer that is
    judged several times counts once (`repeated`).
    """
    labels = all(isinstance(answer.score, bool) for answer in answers)
    names = [*map(_name, answers)]
    distinct = [*judged(names, [answer.score for answer in answers])]
    decided = [one for one in distinct if one.score is not None]
    left_out = [(undecided(one.ratings), one.place) for one in distinct if one.score is None]
    answers = [replace(answers[one.place], score=one.score) for one in decided]
    scores = [Decimal(answer.score) for answer in answers]
    up = pair_up(scores, [names[one.place] for one in decided], rules.pairs, rules.max_pairs)
    pairs: list[Pair | Unusable] = []
    for i, j in up.pairs:
        averaged = decided[i].ratings > 1 or decided[j].ratings > 1
        margin = None if labels else float(scores[i] - scores[j])
        pairs.append(_pair(answers[i], answers[j], margin, (AVERAGED,) if averaged else ()))
    tied = [] if labels else [_pair(answers[i], answers[j]) for i, j in up.tied]
    if sum(isinstance(pair, Pair) for pair in (*pairs, *tied)) > 1:
        comparison = comparison_of(answers)
        pairs, tied = ([_compared(pair, comparison) for pair in some] for some in (pairs, tied))
    items = [(pair, i) for pair, (i, _) in zip(pairs, up.pairs, strict=True)]
    if up.ties and not labels:
        message = f"found {up.ties} of {len(answers)} answers' pairs with equal scores: no choice"
        kept = [pair for pair in tied if isinstance(pair, Pair)]
        items.append((Tie("score", message, kept, up.ties), 0))
    if up.capped:
        items.append((capped(up.capped, rules.max_pairs, "score"), 0))
    return [(item, decided[i].place) for item, i in items] + left_out


def capped(count: int, max_pairs: int, field: str) -> Unusable:
    """The reason of the pairs over the cap, all in one."""
    message = f"{count} pairs over max_pairs {max_pairs} are left out"
    return Unusable("capped", field, message, count)


def alone(count: int, what: Literal["answers", "rows"]) -> Unusable:
    """The reason of answers that have no partner."""
    one = f"no more than one {what[:-1]} to this prompt"
    several = f"{count} {what} to this prompt and no two of which one is better"
    return Unusable(
        "unpaired_alone",
        "completion",
        f"found {one if count == 1 else several}, expected a good and a worse one; add rows of the "
        "same prompt",
    )


def comparison_of(answers: Sequence[Answer]) -> str:
    """The id of a list of judged answers to one prompt; their order and source do not change it."""
    entries = sorted(_name(answer) + _spelled(answer.score).encode() for answer in answers)
    first = answers[0]
    context = [(first.tools or "").encode(), (first.chat_template_kwargs or "").encode()]
    return blake2b(b"\0".join([*context, *entries]), digest_size=16).hexdigest()


def _spelled(score: Decimal | bool) -> str:
    """A score in one spelling: some files write 1, others 1.0."""
    return str(score if isinstance(score, bool) else score.normalize())


def _compared(item: Pair | Unusable, comparison: str | None) -> Pair | Unusable:
    return replace(item, comparison=comparison) if isinstance(item, Pair) else item


def _pair(
    better: Answer, worse: Answer, margin: float | None = None, notes: tuple[str, ...] = ()
) -> Pair | Unusable:
    """The pair of two answers, or the reason of two that answer different prompts."""
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
        margin,
        notes=notes,
    )


def _name(answer: Answer) -> bytes:
    """A digest of the prompt and the completion: equal for one answer that is judged twice."""
    text = orjson.dumps([answer.prompt, answer.completion], option=orjson.OPT_SORT_KEYS)
    return blake2b(text, digest_size=16).digest()
