"""Intervals that hold 95 %: for shares and means, of independent pairs and of pairs in groups.

Pairs of one prompt stand and fall together, so they count for less than as many pairs of different
prompts. Where every group is a single pair: Wilson (1927) for shares, normal for means. Else the
cluster bootstrap (Davison & Hinkley 1997, section 3.8): whole groups are drawn with replacement.
Of thousands of groups, that is what the normal interval of a ratio of sums gives (Cochran 1977,
section 6.3) at a thousandth of the cost, so it stands in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from tasks.evaluation.tables.scores import Counts, Floats, Mask, Scores

Z = 1.959963984540054
"""Quantile 0.975 of the standard normal distribution."""
LEVELS = (0.025, 0.975)
BOOTSTRAP_GROUPS = 2000
"""With more groups than this, the bootstrap gives way to the normal interval, or draws `lots`."""
DRAWS_AT_ONCE = 4_000_000
"""Counts held in memory at a time while groups are drawn: 32 MB."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Resampling:
    """How often groups are drawn, and from which seed."""

    resamples: int = 1000
    seed: int = 0


def wilson_interval(hits: float, n: float) -> Interval:
    """The 95 % score interval of a share; never outside [0, 1], sound near 0 and 1."""
    p, z2 = hits / n, Z * Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == n else centre + half)


def mean_interval(values: Floats) -> Interval | None:
    """The 95 % normal interval of a mean (sample deviation, n - 1); None for a single value."""
    n = len(values)
    if n < 2:
        return None
    mean = float(values.sum() / n)
    half = Z * float(values.std(ddof=1)) / sqrt(n)
    return mean - half, mean + half


def intervals_of(
    shares: Mapping[str, Floats], means: Mapping[str, Floats], group: Counts, how: Resampling
) -> dict[str, Interval | None]:
    """The interval of the mean of each array of per-pair values `[N]`; those of `shares` lie in
    0 to 1. One group alone tells nothing: (0, 1), or None for a mean.

    A share that is the same in every pair has no spread to draw from: Wilson's interval for as
    many pairs as there are groups stands in.
    """
    n = len(group)
    names, member = np.unique(group, return_inverse=True)
    if len(names) == n:
        found: dict[str, Interval | None] = {
            name: wilson_interval(float(values.sum()), n) for name, values in shares.items()
        }
        return found | {name: mean_interval(values) for name, values in means.items()}
    if len(names) == 1:
        return dict.fromkeys(shares, (0.0, 1.0)) | dict.fromkeys(means)
    columns = {**shares, **means}
    if len(names) > BOOTSTRAP_GROUPS:
        found = {name: ratio_interval(values, member) for name, values in means.items()}
        for name, values in shares.items():
            low, high = ratio_interval(values, member)
            found[name] = (max(0.0, low), min(1.0, high))
    else:
        every = np.stack(list(columns.values()), axis=1)
        low, high = np.quantile(cluster_bootstrap(every, member, how), LEVELS, axis=0)
        found = {name: (float(low[i]), float(high[i])) for i, name in enumerate(columns)}
    for name, values in shares.items():
        if values.min() == values.max():
            found[name] = wilson_interval(float(values[0]) * len(names), len(names))
    return found


def lots(member: Counts, how: Resampling) -> Counts:
    """The numbers of the pairs' groups `[N]`; of more than 2000 groups, those of as many random
    lots of them, to be drawn in their place: lots spread as their groups do (Wolter 2007,
    chapter 2), and are drawn at a fraction of the cost."""
    groups = int(member.max()) + 1
    if groups <= BOOTSTRAP_GROUPS:
        return member
    return (np.random.default_rng(how.seed).permutation(groups) % BOOTSTRAP_GROUPS)[member]


def cluster_bootstrap(values: Floats, member: Counts, how: Resampling) -> Floats:
    """Means `[R, C]` of per-pair `values [N, C]` in R draws of whole groups, of which `member [N]`
    numbers each pair's. A draw's mean is its sum over its number of pairs."""
    size = np.bincount(member).astype(np.float64)  # (G,)
    sums = np.stack([np.bincount(member, column) for column in values.T], axis=1)  # (G, C)
    groups, random = len(size), np.random.default_rng(how.seed)
    at_once = max(1, DRAWS_AT_ONCE // groups)
    parts: list[Floats] = []
    for start in range(0, how.resamples, at_once):
        draws = min(at_once, how.resamples - start)
        times = random.multinomial(groups, np.full(groups, 1 / groups), draws).astype(np.float64)
        # No BLAS: its sums may depend on the number of threads.
        parts.append(
            np.einsum("rg,gc->rc", times, sums) / np.einsum("rg,g->r", times, size)[:, None]
        )
    return np.concatenate(parts)


def ratio_interval(values: Floats, member: Counts) -> Interval:
    """The 95 % normal interval of the mean of `values [N]` in groups: its variance is that of the
    groups' sums less the mean times their sizes, G / (G - 1) times, over N squared."""
    size, n = np.bincount(member), len(values)
    mean = float(values.sum() / n)
    residual = np.bincount(member, values) - mean * size
    variance = float((residual**2).sum()) * len(size) / (len(size) - 1) / n**2
    return mean - Z * sqrt(variance), mean + Z * sqrt(variance)


def share(name: str, hits: Mask | Floats, scores: Scores, how: Resampling) -> dict[str, object]:
    """`{name: share, name_interval: interval}` of the pairs' hits `[N]`; None for no pair."""
    if not len(hits):
        return {name: None, f"{name}_interval": None}
    values = hits.astype(np.float64)
    interval = intervals_of({name: values}, {}, scores.group, how)[name]
    return {name: float(values.sum() / len(values)), f"{name}_interval": interval}


def halved(difference: Floats | Counts) -> Floats:
    """1 where positive, 1/2 where zero, 0 where negative."""
    return (np.sign(difference) + 1.0) / 2
