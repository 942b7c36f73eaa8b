"""Metrics as sums over pairs, divided once at the end; accuracy and margin leave out ties.

In training: `IntervalSums`, on the device, read once per logged record. In evaluation:
`table_metrics`, from the rewards of all pairs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from tasks.conversion.preference.pair import TIE

Floats = npt.NDArray[Any]

_SUMS = ("pairs", "weight", "loss", "decided", "correct", "reward", "margin", "tokens")


class IntervalSums:
    """Running sums of one logging interval, on the device, in float64 (float32 on Apple's MPS)."""

    def __init__(self, device: torch.device) -> None:
        self.dtype = torch.float32 if device.type == "mps" else torch.float64
        self.device = device
        self.tokens_before = 0
        """Tokens of all finished intervals, over all processes."""
        self.pairs_before = 0
        self._clear()

    def add(
        self,
        sides: tuple[torch.Tensor, torch.Tensor],
        loss_sum: torch.Tensor,
        batch: Mapping[str, Any],
    ) -> None:
        """Adds one micro-batch, without a copy to the host.

        `sides`: rewards of chosen and rejected, `[B]` each. `loss_sum`: weighted sum of the pairs'
        losses. Read from `batch`: `attention_mask`; `weight` and `preference` `[B]`, if present.
        """
        chosen, rejected = (side.detach() for side in sides)
        weight, preference = batch.get("weight"), batch.get("preference")
        pairs = torch.full((), len(chosen), dtype=self.dtype, device=self.device)
        decided = torch.ones_like(chosen) if preference is None else preference != TIE
        self._sums += torch.stack(
            [
                pairs,
                pairs if weight is None else weight.sum(dtype=self.dtype),
                loss_sum.detach().to(self.dtype),
                decided.sum(dtype=self.dtype),
                ((chosen > rejected) * decided).sum(dtype=self.dtype),
                torch.cat([chosen, rejected]).sum(dtype=self.dtype),
                ((chosen - rejected) * decided).sum(dtype=self.dtype),
                batch["attention_mask"].sum(dtype=self.dtype),
            ]
        )
        lowest, highest = torch.minimum(chosen, rejected).min(), torch.maximum(chosen, rejected)
        self._lowest = torch.minimum(self._lowest, lowest.to(self.dtype))
        self._highest = torch.maximum(self._highest, highest.max().to(self.dtype))

    def flush(self) -> dict[str, float | int]:
        """The metrics of the interval over all processes; clears the sums.

        Empty if no pair was added, as under an overridden `compute_loss`.
        """
        values = torch.cat([self._sums, self._lowest[None], self._highest[None]])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(values[:-2])
            dist.all_reduce(values[-2:-1], dist.ReduceOp.MIN)
            dist.all_reduce(values[-1:], dist.ReduceOp.MAX)
        *sums, lowest, highest = values.tolist()
        total = dict(zip(_SUMS, sums, strict=True))
        self._clear()
        self.tokens_before += int(total["tokens"])
        self.pairs_before += int(total["pairs"])
        pairs, decided = total["pairs"], total["decided"]
        if not pairs:
            return {}
        return {
            "num_tokens": self.tokens_before,
            "loss": total["loss"] / total["weight"],
            **_of_decided(total["correct"], total["margin"], int(decided), int(pairs)),
            "min_reward": lowest,
            "mean_reward": total["reward"] / (2 * pairs),
            "max_reward": highest,
        }

    def tokens(self) -> int:
        """Tokens so far over all processes, including the unfinished interval."""
        unfinished = self._sums[_SUMS.index("tokens")].clone()
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(unfinished)
        return self.tokens_before + int(unfinished.item())

    def state(self) -> dict[str, Any]:
        """This process's unfinished interval as JSON data, for a checkpoint; floats stay exact."""
        return {
            "sums": self._sums.tolist(),
            "lowest": self._lowest.item(),
            "highest": self._highest.item(),
            "tokens_before": self.tokens_before,
            "pairs_before": self.pairs_before,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Sets everything to what `state` returned."""
        self._sums = self._tensor(state["sums"])
        self._lowest = self._tensor(state["lowest"])
        self._highest = self._tensor(state["highest"])
        self.tokens_before = int(state["tokens_before"])
        self.pairs_before = int(state["pairs_before"])

    def _clear(self) -> None:
        self._sums = self._tensor([0.0] * len(_SUMS))
        self._lowest = self._tensor(float("inf"))
        self._highest = self._tensor(float("-inf"))

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=self.dtype, device=self.device)


def table_metrics(rewards: Floats, preference: Floats) -> dict[str, float]:
    """All metrics but the loss, from rewards `[N, 2]` (chosen, rejected) and preferences `[N]`."""
    chosen, rejected = rewards.astype(np.float64).T
    decided = preference != TIE
    correct = int(((chosen > rejected) & decided).sum())
    equal = int(((chosen == rejected) & decided).sum())
    margin = float((chosen - rejected)[decided].sum())
    return {
        **_of_decided(correct, margin, int(decided.sum()), len(chosen)),
        "min_reward": float(min(chosen.min(), rejected.min())),
        "mean_reward": float((chosen.sum() + rejected.sum()) / (2 * len(chosen))),
        "max_reward": float(max(chosen.max(), rejected.max())),
        **_of_equal(correct, equal, int(decided.sum())),
    }


def names_of(tied: npt.NDArray[np.bool_]) -> list[str]:
    """The keys that `table_metrics` has whatever the rewards of these pairs are; `tied` `[N]`."""
    decided = [] if tied.all() else ["accuracy", "margin"]
    ties = ["tied_pairs"] if tied.any() else []
    return [*decided, "min_reward", "mean_reward", "max_reward", *ties]


def _of_equal(correct: int, equal: int, decided: int) -> dict[str, float]:
    """The number of pairs with two equal rewards, and the accuracy that counts each of them as 1/2.

    In `accuracy` such a pair counts as wrong. Empty if there is none.
    """
    if not equal:
        return {}
    return {"equal_rewards": equal, "accuracy_ties_half": (correct + equal / 2) / decided}


def _of_decided(correct: float, margin: float, decided: int, pairs: int) -> dict[str, float]:
    """Accuracy and mean margin over the pairs that are no ties, and the number of ties, if any."""
    means = {"accuracy": correct / decided, "margin": margin / decided} if decided else {}
    return means | ({"tied_pairs": pairs - decided} if decided < pairs else {})
