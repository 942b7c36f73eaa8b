"""The loss of pairs: Bradley-Terry, with margin, weights and a pull of the rewards towards zero.

Legend: B pairs. Everything is float32 (or wider), whatever the model computes in.
"""

import torch
import torch.nn.functional as F


def bradley_terry(
    chosen: torch.Tensor, rejected: torch.Tensor, margin: torch.Tensor | None = None
) -> torch.Tensor:
    """-log sigmoid(chosen - rejected - margin), one value per pair, `[B]`.

    The negative log-likelihood of the preferences under Bradley & Terry (1952), where the
    probability that one answer is preferred is the sigmoid of the difference of rewards; the margin
    is that of Llama 2 (Touvron et al. 2023, arXiv 2307.09288, equation 2).
    """
    difference = chosen.float() - rejected.float()
    if margin is not None:
        difference = difference - margin.float()
    return -F.logsigmoid(difference)


def centering(chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
    """(chosen + rejected)^2, one value per pair, `[B]` (arXiv 2312.09244, equation 2)."""
    return (chosen.float() + rejected.float()).square()


def pair_losses(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    margin: torch.Tensor | None = None,
    center_rewards_coefficient: float | None = None,
) -> torch.Tensor:
    """What every pair adds to the loss before weighting, `[B]`."""
    losses = bradley_terry(chosen, rejected, margin)
    if center_rewards_coefficient:
        losses = losses + center_rewards_coefficient * centering(chosen, rejected)
    return losses


def weighted_sum(losses: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """The sum of weight x loss, a scalar; a pair of weight 2 counts as if it stood there twice.

    Divided once by the weight of the whole global batch, it gives the same mean however the pairs
    are spread over micro-batches and processes.
    """
    return losses.sum() if weight is None else (losses * weight.float()).sum()
