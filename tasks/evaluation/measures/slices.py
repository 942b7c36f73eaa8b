"""The sets of pairs that are looked at apart: by length, turns, language and format, and by what
the sources' rows say."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from tasks.evaluation.tables.row_columns import NONE
from tasks.evaluation.tables.scores import Floats, Mask, Scores, Strings
from tasks.evaluation.tables.texts import Texts

Slices = list[tuple[str, Mask]]

LENGTH_RATIOS = (0.5, 0.8, 1.25, 2.0)
PROMPT_TOKENS = (32, 128, 512, 2048)
TURNS = (2, 3, 5)
MOST_LABELS = 30
"""Values of a column that are looked at apart: the most frequent ones."""
OTHERS = " other values)"
"""What the slice of the rarer values ends in."""
FIFTHS = (0.2, 0.4, 0.6, 0.8)


def slices_of(scores: Scores, texts: Texts | None) -> dict[str, Slices]:
    """`{dimension: [(label, rows)]}`; every pair is in one slice of a dimension, empty ones are
    left out. Without texts: length ratio and prompt length only.

    length_ratio    tokens of the chosen answer over those of the rejected one
    prompt_tokens   leading tokens that both sides share
    """
    found = {
        "length_ratio": _bins(length_ratio(scores), LENGTH_RATIOS, lambda x: f"{x:g}"),
        "prompt_tokens": _bins(scores.shared_tokens.astype(np.float64), PROMPT_TOKENS, _whole),
    }
    if texts is None:
        return found
    turns = _bins(texts.turns.astype(np.float64), TURNS, _whole)
    named = {"language": texts.language, "format": texts.format}
    return found | {
        "turns": turns,
        **{
            name: [(label, values == label) for label in sorted(set(values.tolist()))]
            for name, values in named.items()
        },
    }


def slices_of_labels(labels: Strings) -> Slices:
    """The pairs of each label, `[N]`, in the order of the labels, numbers as such.

    Of more than 30 labels the rarer ones, and those of a single pair, are together, at the end.
    Numbers of which those would be most of the pairs are cut into fifths instead.
    """
    counts = Counter(sorted(labels.tolist()))  # of equally frequent ones the first
    several = len(counts) > MOST_LABELS
    common = counts.most_common(MOST_LABELS - several)
    frequent = [label for label, pairs in common if pairs > several]
    rare = ~np.isin(labels, frequent)
    if 2 * rare.sum() > len(labels) and all(
        _number(label) < np.inf for label in {*counts} - {NONE}
    ):
        return _fifths(labels)
    slices = [(label, labels == label) for label in sorted(frequent, key=_in_order)]
    if several:
        slices.append((f"({len(counts) - len(frequent)}{OTHERS}", rare))
    return slices


def _fifths(labels: Strings) -> Slices:
    """Five intervals of about as many pairs each, then those of no number."""
    numbers = np.asarray([_number(label) for label in labels])
    none = labels == NONE
    edges = np.quantile(numbers[~none], FIFTHS, method="nearest")
    bins = _bins(numbers, np.unique(edges).tolist(), lambda edge: f"{edge:.15g}")
    slices = [(label, rows & ~none) for label, rows in bins]
    return [(label, rows) for label, rows in [*slices, (NONE, none)] if rows.any()]


def _in_order(label: str) -> tuple[float, str]:
    return _number(label), label


def _number(label: str) -> float:
    """The label as a number; infinity where it is none."""
    try:
        number = float(label)
    except ValueError:
        return np.inf
    return number if np.isfinite(number) else np.inf


def answer_tokens(scores: Scores) -> tuple[Floats, Floats]:
    """How long each answer is, in tokens after those that both sides share: float64 `[N]` twice,
    at least 1."""
    chosen = np.maximum(scores.chosen_tokens - scores.shared_tokens, 1)
    rejected = np.maximum(scores.rejected_tokens - scores.shared_tokens, 1)
    return chosen.astype(np.float64), rejected.astype(np.float64)


def length_ratio(scores: Scores) -> Floats:
    """Tokens of the chosen answer over those of the rejected one."""
    chosen, rejected = answer_tokens(scores)
    return chosen / rejected


def _whole(edge: float) -> str:
    return f"{edge:.0f}"


def _bins(values: Floats, edges: Sequence[float], shown: Callable[[float], str]) -> Slices:
    """Half-open intervals: below the first edge, from each edge to below the next, and above."""
    names = [shown(edge) for edge in edges]
    middle = [f"{low} to <{high}" for low, high in pairwise(names)]
    labels = [f"<{names[0]}", *middle, f">={names[-1]}"]
    place = np.digitize(values, edges)
    return [(label, place == i) for i, label in enumerate(labels) if (place == i).any()]
