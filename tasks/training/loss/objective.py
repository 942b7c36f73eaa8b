"""What a run minimises: the loss that its params name, of a micro-batch or of a table of rewards.

Every loss is a sum over the pairs (or comparisons) of a batch, to be divided once by the weight of
the global batch. Under a loss of comparisons, the weight of each pair is divided by the number of
pairs of its comparison, so that a comparison counts once, however many pairs it has.

Legend: B pairs, C comparisons, K answers of the longest comparison, S sequences of a batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tasks.training.loss.losses import (
    bradley_terry,
    centering,
    davidson,
    focal,
    plackett_luce,
    regression,
    scaled_bradley_terry,
    weighted_sum,
)
from tasks.training.loss.params import LossParams

DEFAULT_NU, DEFAULT_GAMMA = 1.0, 2.0


@dataclass(frozen=True)
class Objective:
    """The loss of one run."""

    params: LossParams
    center_rewards_coefficient: float | None = None

    def pair_losses(
        self,
        chosen: torch.Tensor,
        rejected: torch.Tensor,
        margin: torch.Tensor | None = None,
        preference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of every pair, `[B]`, without weight and centering."""
        p = self.params
        if p.margin == "ignore":
            margin = None
        if p.type == "davidson":
            return davidson(chosen, rejected, preference, p.nu or DEFAULT_NU)
        if p.type == "focal":
            gamma = DEFAULT_GAMMA if p.gamma is None else p.gamma
            return focal(chosen, rejected, margin, gamma)
        if p.type in ("regression", "scaled_bradley_terry"):
            assert margin is not None, "the collator refuses pairs without a margin"
            if p.type == "regression":
                return regression(chosen, rejected, margin)
            return scaled_bradley_terry(chosen, rejected, margin, preference, p.label_smoothing)
        return bradley_terry(chosen, rejected, margin, preference, p.label_smoothing)

    def total(self, rewards: torch.Tensor, batch: Mapping[str, Any]) -> torch.Tensor:
        """The sum of weighted losses of a batch whose sequences have `rewards` `[S]`, a scalar.

        Read from `batch`: `margin`, `preference`, `weight` `[B]`, if present; for Plackett-Luce
        `ranking` and `ranking_level` `[C, K]` and `ranking_weight` `[C]`; and as `sides`.
        """
        chosen, rejected = sides(rewards, batch)
        weight = batch.get("weight")
        if self.params.type == "plackett_luce":
            losses = plackett_luce(rewards, batch["ranking"], batch["ranking_level"])
            total = weighted_sum(losses, batch["ranking_weight"])
        else:
            losses = self.pair_losses(
                chosen, rejected, batch.get("margin"), batch.get("preference")
            )
            total = weighted_sum(losses, weight)
        if self.center_rewards_coefficient:
            pull = weighted_sum(centering(chosen, rejected), weight)
            total = total + self.center_rewards_coefficient * pull
        return total


def sides(rewards: torch.Tensor, batch: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards of the chosen and the rejected side of every pair, `[B]` each.

    They are those at `chosen_row` and `rejected_row`, or of the two halves of the sequences.
    """
    if "chosen_row" in batch:
        return rewards[batch["chosen_row"]], rewards[batch["rejected_row"]]
    chosen, rejected = rewards.chunk(2)
    return chosen, rejected


def weight_of(batch: Mapping[str, Any]) -> torch.Tensor | int:
    """The sum of the pairs' weights, each 1 if the batch has none."""
    if "weight" in batch:
        return batch["weight"].sum(dtype=torch.float32)
    return len(batch["input_ids"]) // 2
