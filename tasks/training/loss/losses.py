"""Losses of pairs and of ranked answers: one small pure function each, with its source.

Legend: B pairs, C comparisons, K answers of the longest comparison, S sequences. All compute in
float32, or in float64 for float64 rewards. `preference` is the probability that `chosen` is the
better answer: 1 a hard label, 0.5 a tie; None: all are 1.
"""

import math

import torch
import torch.nn.functional as F

Values = torch.Tensor


def bradley_terry(
    chosen: Values,
    rejected: Values,
    margin: Values | None = None,
    preference: Values | None = None,
    label_smoothing: float = 0.0,
) -> Values:
    """-q log sigmoid(x) - (1 - q) log sigmoid(-x) with x = chosen - rejected - margin, `[B]`.

    The cross-entropy of the probability of Bradley & Terry (1952), sigmoid of the difference of
    rewards, against the target q. With q = 1 it is their negative log-likelihood, and the margin is
    that of Llama 2 (Touvron et al. 2023, arXiv 2307.09288, equation 2). A tie has q = 0.5. Label
    smoothing e turns p into q = p (1 - e) + (1 - p) e: the conservative loss of Mitchell (2023, "A
    note on DPO with noisy preferences", equation 3). The best difference is margin + logit(q).
    """
    difference = _difference(chosen, rejected, margin)
    target = torch.ones_like(difference) if preference is None else preference.to(difference)
    target = target * (1 - 2 * label_smoothing) + label_smoothing
    return -target * F.logsigmoid(difference) - (1 - target) * F.logsigmoid(-difference)


def scaled_bradley_terry(
    chosen: Values,
    rejected: Values,
    margin: Values,
    preference: Values | None = None,
    label_smoothing: float = 0.0,
) -> Values:
    """margin times the Bradley-Terry loss, `[B]`: a pair of margin 3 has three times the gradient.

    Scaled BT of HelpSteer2-Preference (Wang et al. 2024, arXiv 2410.01257, section 3.2), which is
    `scaled_bt` in NeMo-Aligner. The mean is over pairs: it is not divided by the margins.
    """
    plain = bradley_terry(chosen, rejected, None, preference, label_smoothing)
    return margin.to(plain) * plain


def davidson(chosen: Values, rejected: Values, preference: Values | None, nu: float) -> Values:
    """-log of the probability of a win, or of a tie where `preference` is 0.5, `[B]`.

    Davidson (1970, "On extending the Bradley-Terry model to accommodate ties", equation 2.5), with
    strengths exp(reward): P(win) / P(tie) = exp(d / 2) / nu, with d the difference of rewards. A
    preference p between 0.5 and 1 is a mixture with that expected score: a win of weight 2p - 1 and
    a tie of weight 2 - 2p.
    """
    half = _difference(chosen, rejected, None) / 2
    log_nu = torch.log(torch.full_like(half, nu))
    log_all = torch.logsumexp(torch.stack([half, -half, log_nu]), 0)  # (B,)
    win = log_all - half
    if preference is None:
        return win
    ties = 2 - 2 * preference.to(half)
    return (1 - ties) * win + ties * (log_all - log_nu)


def focal(chosen: Values, rejected: Values, margin: Values | None, gamma: float) -> Values:
    """-(1 - 2 max(0, P - 1/2))^gamma log P with P = sigmoid(chosen - rejected - margin), `[B]`.

    The focal ranking loss of InternLM2 (Cai et al. 2024, arXiv 2403.17297, section 4.2.1): a pair
    with P below 1/2 counts in full, and the surer the model is of a right one, the less it counts.
    """
    difference = _difference(chosen, rejected, margin)
    # the bracket is min(1, 2 sigmoid(-x)); its logarithm stays finite where P rounds to 1
    log_wrong = (F.logsigmoid(-difference) + math.log(2)).clamp(max=0)
    return -torch.exp(gamma * log_wrong) * F.logsigmoid(difference)


def regression(chosen: Values, rejected: Values, margin: Values) -> Values:
    """(chosen - rejected - margin)^2, `[B]`: the target of the difference of rewards is the margin.

    Margin-MSE (Hofstaetter et al. 2020, arXiv 2010.02666, equation 2). The margin is the difference
    of two scores. It leaves a constant open, which centering fixes.
    """
    return _difference(chosen, rejected, margin).square()


def plackett_luce(rewards: Values, ranking: Values, level: Values | None = None) -> Values:
    """-log of the probability of the ranking, `[C]`: the best is drawn first, then the next, ...

    `rewards` `[S]`; `ranking` int64 `[C, K]`: indices of `rewards`, best first, -1 after the last.
    Plackett (1975) and Luce (1959), as a loss in ListMLE (Xia et al. 2008, equation 11): the sum
    over k of logsumexp(r_k, ..., r_K) - r_k. With two answers it is the loss of Bradley and Terry.

    `level` int64 `[C, K]`: the column of the first answer that answer k is tied with, k itself if
    there is none. Every tied answer is drawn from its whole level and all after it, the sum over k
    of logsumexp(r_level(k), ..., r_K) - r_k: Breslow's approximation for ties (1974, "Covariance
    analysis of censored survival data", Biometrics 30) in the partial likelihood that Plackett-Luce
    is for strengths exp(reward). The gradient on two tied answers is twice that of Bradley and
    Terry with a `preference` of 0.5.
    """
    rewards = _wide(rewards)
    absent = ranking < 0
    lowest = torch.finfo(rewards.dtype).min / 4  # finite: an infinity has no gradient
    ordered = rewards[ranking.clamp(min=0)].masked_fill(absent, lowest)  # (C, K)
    log_total = torch.logcumsumexp(ordered.flip(-1), -1).flip(-1)  # (C, K): of k and all after it
    if level is not None:
        log_total = log_total.gather(-1, level.clamp(min=0))
    return (log_total - ordered).masked_fill(absent, 0.0).sum(-1)


def centering(chosen: Values, rejected: Values) -> Values:
    """(chosen + rejected)^2, one value per pair, `[B]` (arXiv 2312.09244, equation 2)."""
    return (_wide(chosen) + _wide(rejected)).square()


def weighted_sum(losses: Values, weight: Values | None) -> Values:
    """The sum of weight x loss, a scalar: a pair of weight 2 counts as two.

    Divided once by the weight of the global batch, it gives the same mean however the pairs are
    divided among micro-batches and processes.
    """
    return losses.sum() if weight is None else (losses * weight.to(losses)).sum()


def _difference(chosen: Values, rejected: Values, margin: Values | None) -> Values:
    difference = _wide(chosen) - _wide(rejected)
    return difference if margin is None else difference - margin.to(difference)


def _wide(values: Values) -> Values:
    return values if values.dtype == torch.float64 else values.float()
