"""The bias panel: what the reward follows besides the better answer, with null models beside it.

A data set may itself prefer longer or better formatted answers, so each leaning of the model stands
beside the data's own. Every share counts ties as 1/2. Legend: N pairs, A answers, G groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks.evaluation.measures.intervals import Resampling, halved, share
from tasks.evaluation.measures.null_models import NullModel, described, differences
from tasks.evaluation.measures.slices import answer_tokens
from tasks.evaluation.tables.answers import Answers, intraclass_correlation, partial_correlation
from tasks.evaluation.tables.scores import Counts, Floats, Scores
from tasks.evaluation.tables.texts import Texts

MATCHED = 1.1
"""Answers whose lengths differ by no more than this factor count as equally long."""
NO_ORDER = "no pair says which answer stood first in its row"
NO_TEXTS = "which answer stood first is not known: the pairs of conversion are not at hand"


@dataclass(frozen=True)
class Judges:
    """Other judgements of the same pairs, aligned with `Scores`; what is empty is left out."""

    first_tokens: int | None = None
    """How many tokens of each answer `first_margin` was computed from."""
    first_margin: Floats | None = None
    null_models: Mapping[str, NullModel] = field(default_factory=dict[str, NullModel])

    def take(self, rows: Counts) -> "Judges":
        """These rows."""
        margin = None if self.first_margin is None else self.first_margin[rows]
        return Judges(self.first_tokens, margin, self.null_models)


def bias_panel(
    scores: Scores, answers: Answers, texts: Texts | None, judges: Judges, how: Resampling
) -> dict[str, Any]:
    """`{null_models, leanings, length, prompt}`; pairs without a right side are left out, but for
    `prompt` and the partial correlation, which are of `answers`: those of the groups that have
    several. Without texts, only what tokens tell."""
    explained = intraclass_correlation(answers)
    rows = np.flatnonzero(scores.decided)
    decided, judges = scores.take(rows), judges.take(rows)
    seen = texts.take(rows) if texts else None
    return {
        "null_models": _null_models(decided, seen, judges, how),
        "leanings": _leanings(decided, seen, how),
        "length": {
            **_matched(decided, how),
            "partial_correlation": partial_correlation(answers),
        },
        "prompt": {
            "groups": len(answers.sizes),
            "share_of_variance": None if explained is None else max(0.0, explained),
            "intraclass_correlation": explained,
        },
    }


def _null_models(
    scores: Scores, texts: Texts | None, judges: Judges, how: Resampling
) -> dict[str, Any]:
    """`{name: {decides, accuracy, accuracy_interval, ...}}` of the model and of each null model.
    `decides` is the share of pairs where it sees any difference; the others count as 1/2."""
    chosen, rejected = answer_tokens(scores)
    margins = {"model": scores.margin, "longer_tokens": chosen - rejected}
    margins["shorter_tokens"] = -margins["longer_tokens"]
    notes: dict[str, dict[str, Any]] = {}
    if texts:
        found = differences(texts)
        margins |= {"longer_characters": found["characters"]}
        margins |= {f"more_{name}": found[name] for name in ("lists", "headers", "bold", "code")}
        for name, model in judges.null_models.items():
            margins[name] = np.round(model.margin(texts), 12)  # no tie is broken by rounding
            notes[name] = described(model)
        if "position" in notes and not texts.first.any():
            notes["position"] |= {"note": NO_ORDER}
    if judges.first_margin is not None:
        margins["first_tokens"] = judges.first_margin
        same = np.sign(judges.first_margin) == np.sign(scores.margin)
        notes["first_tokens"] = {
            "tokens": judges.first_tokens,
            **share("same", same, scores, how),
        }
    found = {
        name: {
            "decides": float((margin != 0).mean()),
            **share("accuracy", halved(margin), scores, how),
            **notes.get(name, {}),
        }
        for name, margin in margins.items()
    }
    unknown = {"decides": None, "accuracy": None, "accuracy_interval": None, "note": NO_TEXTS}
    return found if texts else found | {"position": unknown}


def _leanings(scores: Scores, texts: Texts | None, how: Resampling) -> dict[str, Any]:
    """Per feature, over the pairs whose sides differ in it: `pairs`, and how often the side that
    has more of it is the chosen one (`data`) and the one that the model prefers (`model`)."""
    chosen, rejected = answer_tokens(scores)
    found = {"tokens": chosen - rejected} | (differences(texts) if texts else {})
    leanings: dict[str, Any] = {}
    for name, difference in found.items():
        rows = difference != 0
        some = scores.take(rows)
        more = np.sign(difference[rows])
        leanings[name] = {
            "pairs": len(some),
            **share("data", more > 0, some, how),
            **share("model", halved(more * some.margin), some, how),
        }
    return leanings


def _matched(scores: Scores, how: Resampling) -> dict[str, Any]:
    """Accuracy where length cannot help, where it helps (the chosen answer is longer), and where
    it misleads. `balanced` is the mean of the last two: what accuracy were without a length bias
    of the data."""
    chosen, rejected = answer_tokens(scores)
    ratio = chosen / rejected
    matched = (ratio <= MATCHED) & (ratio >= 1 / MATCHED)
    parts = {
        "matched": matched,
        "chosen_longer": chosen > rejected,
        "chosen_shorter": chosen < rejected,
    }
    found: dict[str, Any] = {}
    for name, rows in parts.items():
        some = scores.take(rows)
        found[name] = {
            "pairs": len(some),
            **share("accuracy", halved(some.margin), some, how),
        }
    both = [found[name]["accuracy"] for name in ("chosen_longer", "chosen_shorter")]
    return found | {"balanced_accuracy": None if None in both else sum(both) / 2}
