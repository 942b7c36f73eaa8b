"""The frozen pairs: the held-out pairs of a run that the champion was not trained on either.

A run holds pairs out by a hash of their prompt, so two runs with one seed hold out the same prompts
however their data grew. With another seed, or other rules, the champion may have been trained on
what this run holds out; those prompts are left out of the comparison. Which prompts a version was
trained on stands in its run (`registration/lineage.py`).
"""

from dataclasses import dataclass

import numpy as np

from tasks.evaluation.tables.scores import Mask, Scores


@dataclass(frozen=True)
class Frozen:
    """Which of a run's held-out pairs take part in a comparison: `rows [N]`, and in words."""

    rows: Mask
    note: str


def frozen_pairs(scores: Scores, groups: dict[str, str], trained_on: set[str] | None) -> Frozen:
    """The pairs whose prompt is not among the champion's training prompts.

    `groups`: the prompt of each pair by its id; `trained_on` is None where nobody knows.
    """
    n = len(scores)
    if trained_on is None:
        # Leaked pairs flatter the champion, so the alias moves less readily, never more.
        unknown = " (which prompts the champion was trained on is not known)"
        note = f"{n} held-out pairs{_undecided(scores)}{unknown}"
        return Frozen(np.ones(n, np.bool_), note)
    seen = [groups[pair_id] in trained_on for pair_id in scores.pair_id.tolist()]
    rows = ~np.asarray(seen, np.bool_)
    left_out = n - int(rows.sum())
    which = f", {left_out} left out that the champion was trained on" if left_out else ""
    return Frozen(rows, f"{n - left_out} frozen pairs{_undecided(scores.take(rows))}{which}")


def _undecided(scores: Scores) -> str:
    """How many of the pairs tell nothing about accuracy and loss; empty where none."""
    ties = int(np.count_nonzero(~scores.decided))
    return f", {ties} of them without a better side" if ties else ""
