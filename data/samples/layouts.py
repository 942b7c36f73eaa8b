"""Sample pairs as the raw rows of three layouts, with a few bad rows among them on purpose.

A bad row is an extra, damaged copy of a good one, put at a random place after it: a reader that
drops it is left with the pairs that were drawn (less the one pair that a bad row contradicts).
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from sample_pair import Pair

Message = dict[str, str]
Row = TypeVar("Row")


def conversation_lines(rng: Random, pairs: Sequence[Pair]) -> list[str]:
    """JSON lines with `prompt` messages, and one assistant message on each side."""
    rows = [
        {
            "prompt": messages(pair),
            "chosen": [assistant(pair.chosen)],
            "rejected": [assistant(pair.rejected)],
        }
        for pair in pairs
    ]
    return with_bad_rows(
        rng,
        rows,
        to_json,
        (
            lambda row: to_json(row)[:-40],  # cut off: no JSON
            lambda row: to_json({**row, "chosen": [assistant("")]}),
            lambda row: to_json({**row, "rejected": None}),
            lambda row: to_json({**row, "rejected": row["chosen"]}),
            # the contradiction of an earlier row
            lambda row: to_json({**row, "chosen": row["rejected"], "rejected": row["chosen"]}),
        ),
    )


def messages(pair: Pair) -> list[Message]:
    """The prompt: an optional system message, then user and assistant in turn."""
    system = [] if pair.system is None else [{"role": "system", "content": pair.system}]
    roles = ("user", "assistant")
    return system + [{"role": roles[n % 2], "content": turn} for n, turn in enumerate(pair.turns)]


def assistant(content: str) -> Message:
    """One assistant message."""
    return {"role": "assistant", "content": content}


def to_json(row: object) -> str:
    """The row as one line of JSON, with letters beyond ASCII as they are."""
    return json.dumps(row, ensure_ascii=False)


VOTE_COLUMNS = ("question", "better", "worse", "score_better", "score_worse", "gap")


def vote_lines(rng: Random, pairs: Sequence[Pair]) -> list[str]:
    """CSV records of single-turn pairs with the mean vote for each answer and their difference.

    A question ends in a line break: flat texts are joined as they stand.
    """
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        better, worse = rng.randint(55, 95), rng.randint(5, 45)
        votes = (f"{percent / 100:.2f}" for percent in (better, worse, better - worse))
        rows.append((flat_turns(pair)[0] + "\n", pair.chosen, pair.rejected, *votes))
    return [
        to_csv(VOTE_COLUMNS),
        *with_bad_rows(
            rng,
            rows,
            to_csv,
            (
                lambda row: to_csv(row[:2]),  # the other fields are missing
                lambda row: to_csv((row[0], "", *row[2:])),
                lambda row: to_csv((row[0], row[1], row[1], *row[3:])),
                lambda row: to_csv((*row[:4], "", "n/a")),
                to_csv,  # an exact duplicate
            ),
        ),
    ]


def to_csv(cells: Sequence[str]) -> str:
    """One CSV record without its line end; cells are quoted where they must be."""
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerow(cells)
    return record.getvalue().removesuffix("\n")


def flat_turns(pair: Pair) -> tuple[str, ...]:
    """The turns for a layout that has no system turn: it opens the first user turn instead."""
    if pair.system is None:
        return pair.turns
    return (f"{pair.system} {pair.turns[0]}", *pair.turns[1:])


def transcript_lines(rng: Random, pairs: Sequence[Pair]) -> list[str]:
    """JSON lines whose two sides are whole `Human:`/`Assistant:` transcripts."""
    rows = [
        {"chosen": transcript(pair, pair.chosen), "rejected": transcript(pair, pair.rejected)}
        for pair in pairs
    ]
    return with_bad_rows(
        rng,
        rows,
        to_json,
        (
            lambda row: to_json({**row, "rejected": row["rejected"].replace(": ", ": Now ", 1)}),
            lambda row: to_json({**row, "chosen": without_answer(row["chosen"])}),
            lambda row: to_json({**row, "rejected": row["chosen"]}),
            to_json,  # an exact duplicate
        ),
    )


def transcript(pair: Pair, answer: str) -> str:
    """The conversation and one answer as one text."""
    speakers = ("Human", "Assistant")
    turns = (*flat_turns(pair), answer)
    return "".join(f"\n\n{speakers[n % 2]}: {turn}" for n, turn in enumerate(turns))


def without_answer(text: str) -> str:
    """The transcript with an empty last reply."""
    mark = "\n\nAssistant: "
    return text.rpartition(mark)[0] + mark


def with_bad_rows(
    rng: Random,
    rows: Sequence[Row],
    render: Callable[[Row], str],
    bad: Sequence[Callable[[Row], str]],
) -> list[str]:
    """The rendered rows, and for each way of `bad` one damaged copy at some place after its row."""
    after: dict[int, str] = {}
    step = len(rows) // len(bad)
    for number, damage in enumerate(bad):
        place = number * step + rng.randrange(20, step)
        after[place] = damage(rows[place - rng.randrange(1, 20)])
    lines: list[str] = []
    for place, row in enumerate(rows):
        lines.append(render(row))
        if place in after:
            lines.append(after[place])
    return lines
