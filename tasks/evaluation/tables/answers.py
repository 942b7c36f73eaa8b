"""The distinct answers behind the pairs, side by side per prompt.

Of K ranked answers come up to K (K - 1) / 2 pairs; here each answer stands once, with its reward,
its length, and how often it was preferred. Legend: A answers, G groups.
"""

from dataclasses import dataclass

import numpy as np

from tasks.evaluation.tables.scores import Counts, Floats, Scores


@dataclass(frozen=True)
class Answers:
    """One entry per distinct answer (`[A]` each), ordered by group."""

    group: Counts
    """Numbers from 0, ascending."""
    reward: Floats
    tokens: Floats
    """Of prompt and answer."""
    quality: Floats
    """Mean preference for it over the pairs that it stands in: 1 always preferred, 0 never."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def sizes(self) -> Counts:
        """Answers per group, `[G]`."""
        return np.bincount(self.group)

    def within(self, values: Floats) -> Floats:
        """`values [A]` less the mean of their group."""
        sizes = self.sizes
        return values - (np.bincount(self.group, values) / sizes)[self.group]

    def several(self) -> "Answers":
        """The groups of at least two answers, numbered anew."""
        rows = self.sizes[self.group] > 1
        group = np.unique(self.group[rows], return_inverse=True)[1]
        return Answers(group, self.reward[rows], self.tokens[rows], self.quality[rows])


def answers_of(scores: Scores) -> Answers:
    """Every answer of every group once.

    Sides with the same token ids in one group are one answer; where two passes of the model gave
    it rewards that differ in the last bit, the first in the order of `scores` counts.
    """
    group = np.unique(scores.group, return_inverse=True)[1]
    group = np.concatenate([group, group])
    names = np.concatenate([scores.chosen_id, scores.rejected_id])
    identity = np.unique(names, return_inverse=True)[1]
    key = group * (identity.max() + 1) + identity
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    wins = np.concatenate([scores.preference, 1 - scores.preference])
    tokens = np.concatenate([scores.chosen_tokens, scores.rejected_tokens]).astype(np.float64)
    return Answers(
        group=group[first],
        reward=np.concatenate([scores.chosen, scores.rejected])[first],
        tokens=tokens[first],
        quality=np.bincount(member, wins) / np.bincount(member),
    )


def partial_correlation(answers: Answers) -> float | None:
    """Pearson's correlation of reward and length within the groups: of both, the group's mean is
    taken off first (the fixed-effects or within estimator; Wooldridge 2010, section 10.5). Equals
    the partial correlation given an indicator for every prompt. None where either is constant."""
    reward, tokens = answers.within(answers.reward), answers.within(answers.tokens)
    scale = float(np.sqrt((reward**2).sum() * (tokens**2).sum()))
    return float((reward * tokens).sum()) / scale if scale else None


def intraclass_correlation(answers: Answers) -> float | None:
    """The share of the reward's variance that the prompt alone explains: ICC(1) of Shrout & Fleiss
    (1979), from the mean squares between and within groups, with k0 of Donner (1986) for groups of
    unequal size.

    (MSB - MSW) / (MSB + (k0 - 1) MSW), k0 = (A - sum n_g^2 / A) / (G - 1). Unlike the bare ratio of
    sums of squares (1/2 by chance alone for groups of two), it is 0 where prompts say nothing. It
    falls below, down to -1 / (k0 - 1), where answers to one prompt lie further apart than answers
    to any: as chosen and rejected ones should. None with fewer than two groups of several answers,
    or where all rewards are equal.
    """
    sizes = answers.sizes.astype(np.float64)
    total, groups = len(answers), len(sizes)
    if groups < 2 or total <= groups:
        return None
    within = float((answers.within(answers.reward) ** 2).sum())
    whole = float(((answers.reward - answers.reward.mean()) ** 2).sum())
    between_square = (whole - within) / (groups - 1)
    within_square = within / (total - groups)
    k0 = (total - float((sizes**2).sum()) / total) / (groups - 1)
    scale = between_square + (k0 - 1) * within_square
    return (between_square - within_square) / scale if scale else None
