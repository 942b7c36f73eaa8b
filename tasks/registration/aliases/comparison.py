"""Whether a new version beats the champion on the frozen pairs, and is worse on no source.

Accuracy decides, then loss. Per source, a one-sided paired test asks whether the new model's
accuracy is below the champion's by more than the allowed drop, beyond chance:

    McNemar   exact, where no drop is allowed and every prompt has one pair: of the pairs on which
              the two disagree, as many or more lost by fair coin tosses (McNemar 1947)
    bootstrap else: whole prompts are drawn, and the drop is beyond chance if the share of draws
              with an allowed drop is below the significance. Of few prompts all draws are alike,
              so p is no less than the chance that all prompts that differ fall one way

The significance is divided by the number of sources (Bonferroni), so that a gate over ten sources
does not fail twice as often as one over five.
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from tasks.evaluation.measures.intervals import Resampling, cluster_bootstrap, lots
from tasks.evaluation.measures.metrics import metrics_of
from tasks.evaluation.tables.scores import Floats, Scores
from tasks.registration.aliases.gate import Bound
from tasks.registration.params import GateParams
from tasks.registration.registry import CHALLENGER

ROUNDING = 1e-9
EXACT_PAIRS = 2000
"""With more disagreeing pairs than this, the coin tosses are counted by their normal limit."""
DRAWS = Resampling(resamples=10_000, seed=0)


@dataclass(frozen=True)
class Comparison:
    """How a model stands beside the champion."""

    beats: bool
    sentence: str
    bounds: tuple[Bound, ...] = ()


def compare(
    scores: Scores, champion_scores: Scores, champion: str, min_improvement: float, gate: GateParams
) -> Comparison:
    """The model that gave `scores` beside the champion; both score the same pairs, in one order."""
    beats, sentence = beaten(scores, champion_scores, champion, min_improvement)
    return Comparison(beats, sentence, source_bounds(scores, champion_scores, champion, gate))


def beaten(
    scores: Scores, champion_scores: Scores, champion: str, min_improvement: float
) -> tuple[bool, str]:
    """Whether the model beats the champion, and the figures that decided it."""
    new, old = metrics_of(scores), metrics_of(champion_scores)
    figures = f"accuracy {new['accuracy']:.4f} against {old['accuracy']:.4f}"
    more = new["correct"] - old["correct"]
    if more / new["pairs"] > min_improvement + ROUNDING:
        return True, f"beats version {champion}: {figures}"
    if more == 0 and min_improvement == 0:
        losses = f"{figures}, loss {new['loss']:.5f} against {old['loss']:.5f}"
        if new["loss"] < old["loss"]:
            return True, f"beats version {champion}: {losses}"
        return False, f"does not beat version {champion}: {losses}"
    needed = f", by more than {min_improvement} needed" if min_improvement else ""
    return False, f"does not beat version {champion}: {figures}{needed}"


def source_bounds(
    scores: Scores, champion_scores: Scores, champion: str, gate: GateParams
) -> tuple[Bound, ...]:
    """One bound per source with a decided pair: the drop against the champion, and its test."""
    allowed = gate.max_source_drop
    if allowed is None:
        return ()
    keep = scores.decided
    scores, champion_scores = scores.take(keep), champion_scores.take(keep)
    sources = sorted(set(scores.source.tolist()))
    level = gate.significance / max(1, len(sources))
    found: list[Bound] = []
    for source in sources:
        new, old = scores.of_source(source), champion_scores.of_source(source)
        lost = (old.margin > 0).astype(np.float64) - (new.margin > 0)
        p, test = p_value(lost, new, allowed)
        drop = float(lost.mean())
        note = f"{len(new)} pairs against version {champion}, {test} p {p:.3g} at level {level:.3g}"
        larger, within_chance = drop > allowed + ROUNDING, p >= level
        if larger:
            note += ", within chance" if within_chance else ", beyond chance"
        holds = not larger or within_chance
        name = f"max_source_drop.{source}"
        found.append(Bound(name, drop, "<=", allowed, holds, CHALLENGER, note))
    return tuple(found)


def p_value(lost: Floats, scores: Scores, allowed: float) -> tuple[float, str]:
    """How likely so large a mean of `lost [N]` is where the true drop is the allowed one, and the
    test's name. `lost`: 1 where only the champion is right, -1 where only the model is, else 0."""
    alone = len(set(scores.group.tolist())) == len(scores)
    if not allowed and alone:
        return mcnemar(int((lost > 0).sum()), int((lost < 0).sum())), "McNemar"
    member = np.unique(scores.group, return_inverse=True)[1].astype(np.int64)
    draws = cluster_bootstrap(lost[:, None], lots(member, DRAWS), DRAWS)[:, 0]
    drawn = float((1 + (draws <= allowed + ROUNDING).sum()) / (1 + len(draws)))
    differing = np.count_nonzero(np.bincount(member, lost))
    # A prompt that differs is one toss, lost by (1 + allowed) / 2 where the drop is as allowed.
    return max(drawn, ((1 + allowed) / 2) ** differing), "bootstrap"


def mcnemar(worse: int, better: int) -> float:
    """P(at least `worse` of `worse + better` fair tosses): 1 where the two never disagree."""
    n = worse + better
    if n > EXACT_PAIRS:
        from math import erfc, sqrt

        return 0.5 * erfc((worse - 0.5 - n / 2) / sqrt(n / 2))
    return sum(comb(n, k) for k in range(worse, n + 1)) / 2**n
