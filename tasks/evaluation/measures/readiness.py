"""What reinforcement learning will find in this reward: spread within a prompt, ties, selection.

RL never sees a reward alone: GRPO and RLOO compare several answers to one prompt. Where all of them
get one reward there is nothing to learn from. Legend: A answers, G groups, K answers of a group.
"""

from typing import Any

import numpy as np

from tasks.evaluation.tables.answers import Answers
from tasks.evaluation.tables.scores import Floats, Scores

BEST_OF = (1, 2, 3, 4, 8, 16, 32, 64)
BFLOAT16_BITS = 8
"""Bits of its significand, the hidden one counted."""


def readiness(scores: Scores, answers: Answers) -> dict[str, Any]:
    """`{groups: ..., bfloat16: ..., best_of_n: [...]}`.

    `groups` and `best_of_n` are of `answers`, those of the groups that have several, and None
    where there are none.
    """
    return {
        "groups": _groups(answers) if len(answers) else None,
        "bfloat16": _serving(scores),
        "best_of_n": best_of_n(answers) if len(answers) else None,
    }


def _groups(answers: Answers) -> dict[str, Any]:
    """Spread within the groups. `zero_advantage`: share of groups whose rewards are all equal, at
    float32 and once rounded to bfloat16."""
    sizes = answers.sizes
    squares = np.bincount(answers.group, answers.within(answers.reward) ** 2)
    deviation = np.sqrt(squares / sizes)
    rounded = bfloat16(answers.reward)
    overall = float(answers.reward.std())
    return {
        "groups": len(sizes),
        "answers": len(answers),
        "largest": int(sizes.max()),
        "within_std_mean": float(deviation.mean()),
        "within_std_median": float(np.median(deviation)),
        "within_std_relative": float(deviation.mean()) / overall if overall else None,
        "zero_advantage": _constant(answers, answers.reward),
        "zero_advantage_bfloat16": _constant(answers, rounded),
    }


def _constant(answers: Answers, values: Floats) -> float:
    low, high = np.full(len(answers.sizes), np.inf), np.full(len(answers.sizes), -np.inf)
    np.minimum.at(low, answers.group, values)
    np.maximum.at(high, answers.group, values)
    return float((low == high).mean())


def _serving(scores: Scores) -> dict[str, Any]:
    """Ties of the pairs when a server answers in bfloat16. `false_ties` counts pairs that only the
    rounding makes equal; `largest_step` is the grid's step at the largest reward."""
    tie = scores.margin == 0
    rounded = bfloat16(scores.chosen) == bfloat16(scores.rejected)
    largest = float(np.abs(np.concatenate([scores.chosen, scores.rejected])).max())
    exponent = np.frexp(largest)[1]
    return {
        "tie_rate": float(rounded.mean()),
        "tie_rate_float32": float(tie.mean()),
        "false_ties": int((rounded & ~tie).sum()),
        "largest_step": float(2.0 ** (exponent - BFLOAT16_BITS)) if largest else 0.0,
    }


def bfloat16(values: Floats) -> Floats:
    """The values rounded to bfloat16, to nearest and to even: the upper bits of a float32."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def best_of_n(answers: Answers) -> list[dict[str, float]]:
    """How good the answer is that the reward picks out of n: `{n, groups, model, oracle, random}`.

    Exact, not sampled (the estimator of Nakano et al. 2021, WebGPT, arXiv 2112.09332): of K
    answers, n are drawn without replacement; the i-th lowest reward is the highest drawn with
    probability C(i-1, n-1) / C(K, n). The mean `quality`, over the groups with n answers or more.
    Answers of equal reward share their quality. `oracle` picks by quality, `random` by chance.
    """
    most = int(answers.sizes.max())
    judged = _sorted_by(answers, answers.reward)
    oracle = _sorted_by(answers, answers.quality)
    found: list[dict[str, float]] = []
    for n in (n for n in BEST_OF if n <= most):
        enough = answers.sizes >= n
        means = (_expected_best(answers, q, n)[enough].mean() for q in (judged, oracle))
        model, best = (float(mean) for mean in means)
        chance = float(_expected_best(answers, judged, 1)[enough].mean())
        count = int(enough.sum())
        found.append({"n": n, "groups": count, "model": model, "oracle": best, "random": chance})
    return found


def _sorted_by(answers: Answers, by: Floats) -> Floats:
    """Quality `[A]`, ascending by `by` in every group; equal ones get their mean."""
    order = np.lexsort((by, answers.group))
    group, key, quality = answers.group[order], by[order], answers.quality[order]
    begins = np.r_[True, (group[1:] != group[:-1]) | (key[1:] != key[:-1])]
    block = np.cumsum(begins) - 1
    return (np.bincount(block, quality) / np.bincount(block))[block]


def _expected_best(answers: Answers, quality: Floats, n: int) -> Floats:
    """Expected quality of the last of n drawn, per group `[G]`; `quality [A]` as sorted above.

    The highest drawn is among the lowest i with probability C(i, n) / C(K, n), a product of n
    ratios, so no binomial overflows.
    """
    sizes = answers.sizes
    starts = np.cumsum(sizes) - sizes
    k = sizes[answers.group].astype(np.float64)
    i = np.arange(len(quality)) - starts[answers.group] + 1.0  # 1 .. K within the group
    upto, before = np.ones_like(i), np.ones_like(i)
    for j in range(n):
        left = np.maximum(k - j, 1.0)  # groups below n answers are left out by the caller
        upto *= np.maximum(i - j, 0.0) / left
        before *= np.maximum(i - 1 - j, 0.0) / left
    return np.bincount(answers.group, (upto - before) * quality).astype(np.float64)
