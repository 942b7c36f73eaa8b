"""What RewardTrainer computes of a micro-batch: its share of the loss, and its pairs' figures.

Legend: B pairs of one micro-batch.
"""

import contextlib
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from tasks.training.dealt import DealtTrainer
from tasks.training.layout.loader import FILLER
from tasks.training.loss.objective import sides, weight_of
from tasks.training.scoring import batch_rewards


class ComputingTrainer(DealtTrainer):
    """Trainer whose loss is the weighted mean over the pairs of a global batch."""

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> Any:
        """This micro-batch's share of the mean loss over the global batch, a float32 scalar.

        To a subclass that has its own, which is shared out once it is whole (own_loss.py), and in
        evaluation: the mean over this micro-batch.
        """
        with self._activations():
            rewards = batch_rewards(model, inputs)  # (2B,) or (S,)
        if FILLER in inputs:  # nothing is left to compute, but the other processes wait for it
            return rewards.sum() * 0
        total = self.objective.total(rewards, inputs)
        chosen, rejected = sides(rewards, inputs)  # (B,) each
        if model.training:
            self.interval.add((chosen, rejected), total, inputs)
            if not self.has_own_loss:
                self.guard.saw_batch(inputs.get("pair_id", []), total)
        if num_items_in_batch is None or self.has_own_loss:
            loss = total / weight_of(inputs)
        else:  # gradients are averaged over processes: their number makes a sum of it again
            loss = total * (self.accelerator.num_processes / num_items_in_batch)
        return (loss, {"rewards": torch.stack([chosen, rejected], 1)}) if return_outputs else loss

    def _prepare_input(self, data: Any) -> Any:
        """As in transformers, but DeepSpeed's engine rounds no number of a pair."""
        if isinstance(data, torch.Tensor):
            return data.to(self.args.device)
        return super()._prepare_input(data)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm: Any = super()._get_grad_norm(model, grad_norm=grad_norm)
        if isinstance(norm, DTensor):  # of shards: their norms are not yet one
            norm = norm.full_tensor()
        self.guard.finish_step(self.state.global_step + 1, norm)
        return norm

    def _activations(self) -> contextlib.AbstractContextManager[Any]:
        if self._args.activation_offloading and torch.is_grad_enabled():
            pinned = self.args.device.type == "cuda"
            return torch.autograd.graph.save_on_cpu(pin_memory=pinned)
        return contextlib.nullcontext()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs; a training record gets the exact metrics of its interval."""
        if "loss" in logs and "learning_rate" in logs:
            self.guard.settle()
            kept = ("loss",) if self.has_own_loss else ()
            rest = {n: logs[n] for n in (*kept, "learning_rate", "grad_norm") if n in logs}
            logs = {**self.interval.flush(), **rest}
        super().log(logs, start_time)
