"""RewardTrainer's `compute_loss`: a micro-batch's share of the loss, and what is logged of it.

Legend: B pairs of one micro-batch, S distinct sequences.
"""

import contextlib
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from tasks.training.global_batches import GlobalBatchTrainer
from tasks.training.layout.loader import FILLER
from tasks.training.loss.objective import sides, weight_of
from tasks.training.scoring import batch_rewards


class BatchLossTrainer(GlobalBatchTrainer):
    """Trainer whose loss is the weighted mean over all pairs of a global batch."""

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> Any:
        """This micro-batch's share of the global batch's mean loss, a float32 scalar.

        In evaluation, and if called by a subclass's own `compute_loss` (which own_loss.py weights),
        the mean over this micro-batch.
        """
        with self._activations():
            rewards = batch_rewards(model, inputs)  # (2B,) or (S,)
        if FILLER in inputs:  # has no pairs, but the other processes wait for its backward pass
            return rewards.sum() * 0
        total = self.objective.total(rewards, inputs)
        chosen, rejected = sides(rewards, inputs)  # (B,) each
        if model.training:
            self.interval.add((chosen, rejected), total, inputs)
            if not self.has_own_loss:
                self.guard.saw_batch(inputs.get("pair_id", []), total)
        if num_items_in_batch is None or self.has_own_loss:
            loss = total / weight_of(inputs)
        else:  # gradients are averaged over processes; their number makes the average a sum
            loss = total * (self.accelerator.num_processes / num_items_in_batch)
        return (loss, {"rewards": torch.stack([chosen, rejected], 1)}) if return_outputs else loss

    def _prepare_input(self, data: Any) -> Any:
        """As in transformers, but floats (margins, weights) keep their dtype under DeepSpeed."""
        if isinstance(data, torch.Tensor):
            return data.to(self.args.device)
        return super()._prepare_input(data)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm: Any = super()._get_grad_norm(model, grad_norm=grad_norm)
        if isinstance(norm, DTensor):  # under FSDP2 the norms of the shards, not yet combined
            norm = norm.full_tensor()
        self.guard.finish_step(self.state.global_step + 1, norm)
        return norm

    def _activations(self) -> contextlib.AbstractContextManager[Any]:
        if self._args.activation_offloading and torch.is_grad_enabled():
            pinned = self.args.device.type == "cuda"
            return torch.autograd.graph.save_on_cpu(pin_memory=pinned)
        return contextlib.nullcontext()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As in transformers; in training records, metrics and loss are exact for the interval."""
        if "loss" in logs and "learning_rate" in logs:
            self.guard.settle()
            own = ("loss",) if self.has_own_loss else ()
            kept = {n: logs[n] for n in (*own, "learning_rate", "grad_norm") if n in logs}
            logs = {**self.interval.flush(), **kept}
        super().log(logs, start_time)
