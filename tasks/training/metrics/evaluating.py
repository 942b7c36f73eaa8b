"""RewardTrainer's evaluation loop: the rewards of every pair, and exact metrics over all of them.

Legend: B pairs of a batch, N pairs of an evaluation.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import EvalPrediction
from transformers.trainer_utils import EvalLoopOutput

from tasks.artifact.memory import large_buffers_kept
from tasks.errors import ParamsError
from tasks.training.batches.pieces import split
from tasks.training.loss.objective import Objective
from tasks.training.metrics.held_out import HeldOutTrainer, check_not_empty
from tasks.training.metrics.samples import print_samples, samples
from tasks.training.metrics.table import TERMS, EvaluationTable, labels, losses_and_weights
from tasks.training.metrics.user_metrics import Metrics, call_metrics
from tasks.training.scoring import batch_rewards

UNEVEN = (
    "some of its rows fill up the last evaluation batch, and compute_loss may not count them: "
    "evaluate in one process, or a multiple of per_device_eval_batch_size x processes"
)


class EvaluatingTrainer(HeldOutTrainer):
    """Trainer whose evaluation metrics are computed over all pairs, not averaged over batches."""

    objective: Objective
    user_metrics: Metrics | None
    user_preprocessing: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None
    _table: EvaluationTable
    has_own_loss: bool
    """Whether a subclass overrides RewardTrainer's `compute_loss`."""

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,  # noqa: ARG002
        ignore_keys: list[str] | None = None,  # noqa: ARG002
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """Loss, rewards `[B, 2]` and `TERMS` `[B, 3]` of a batch, all float32.

        The loss is that of an overridden `compute_loss`, else None: the table has the exact one.
        """
        inputs = self._prepare_inputs(inputs)
        loss: torch.Tensor | None = None
        with torch.no_grad():
            rewards = batch_rewards(model, inputs)
            if self.has_own_loss:
                with self.compute_loss_context_manager():
                    mean: Any = self.compute_loss(model, self._own_rows(inputs))
                loss = mean.detach()
        table = torch.stack(rewards.chunk(2), 1)
        ones = torch.ones_like(table[:, 0])
        margin, weight = inputs.get("margin", 0 * ones), inputs.get("weight", ones)
        preference = inputs.get("preference", ones)
        return loss, table, torch.stack([margin, weight, preference], 1)

    def _own_rows(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch without the duplicates that accelerate adds to the last one, so that every
        process has as many rows: transformers counts a batch's mean loss once per real row.
        """
        state, pairs = self.accelerator.gradient_state, len(batch["input_ids"]) // 2
        left = state.remainder - self.args.process_index * pairs if state.end_of_dataloader else 0
        return split(batch, left, UNEVEN)[0] if 0 < left < pairs else dict(batch)

    def visualize_samples(self, num_print_samples: int = 4) -> None:
        """Prints texts and rewards of the first pairs of `eval_dataset`; -1 prints all."""
        pairs = samples(self, self.eval_dataset, num_print_samples)
        if self.is_world_process_zero():
            print_samples(pairs)

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in transformers; the output's `label_ids` are int64 `[N]`, from `table.labels`.

        Raises:
            DataError: a stream has no usable row.
        """
        self._table = EvaluationTable(self.objective, dataloader.dataset)
        try:
            with large_buffers_kept(kept=self.args.device.type == "cpu"):
                output = super().evaluation_loop(dataloader, *args, **kwargs)
        except ValueError:
            check_not_empty(dataloader.dataset)  # only now, as it reads the stream's beginning
            raise
        if output.label_ids is None:  # under `batch_eval_metrics`
            return output
        better = _like(output.label_ids, [labels(terms) for terms in _parts(output.label_ids)])
        return output._replace(label_ids=better)

    def _metrics_of_table(
        self, prediction: EvalPrediction, compute_result: bool = True
    ) -> dict[str, Any]:
        """The `compute_metrics` that transformers calls: adds the pairs to this evaluation's table,
        and returns the metrics of the table; empty if `compute_result` is False.
        """
        rewards = np.concatenate(_parts(prediction.predictions))
        terms = np.concatenate(_parts(prediction.label_ids))
        self._check_shapes(rewards, terms)
        self._table.add(rewards, terms)
        losses: Any = prediction.losses
        if losses is None and "loss" in self.args.include_for_metrics:
            losses, _ = losses_and_weights(self.objective, rewards, terms, None)
        user_metrics = self._user_metrics(prediction, losses, compute_result)
        if not compute_result:
            return {}
        metrics = self._table.metrics()
        if self.has_own_loss:
            metrics = {k: v for k, v in metrics.items() if not k.endswith("loss")}
        return {"num_tokens": self.interval.tokens(), **metrics, **user_metrics}

    def _check_shapes(self, rewards: np.ndarray, terms: np.ndarray) -> None:
        """Checks what an overridden `prediction_step` returned.

        Raises:
            ParamsError: rewards are not `[N, 2]`, or labels not `[N, 3]`.
        """
        expected = (len(rewards), 2), (len(rewards), len(TERMS))
        if (rewards.shape, terms.shape) != expected:
            raise ParamsError(
                f"prediction_step of {type(self).__name__} returns predictions and labels of the "
                f"shapes {rewards.shape} and {terms.shape}; expected {expected[0]}, the rewards of "
                f"chosen and rejected, and {expected[1]}, their {', '.join(TERMS)}: call "
                "RewardTrainer's, and hand on what it returns"
            )

    def _user_metrics(
        self, prediction: EvalPrediction, losses: Any, compute_result: bool
    ) -> Mapping[str, Any]:
        if self.user_metrics is None:
            return {}
        rewards: list[Any] = _parts(prediction.predictions)
        better = [labels(terms) for terms in _parts(prediction.label_ids)]
        if self.user_preprocessing is not None:
            rewards = [
                _numpy(self.user_preprocessing(torch.from_numpy(part), torch.from_numpy(label)))
                for part, label in zip(rewards, better, strict=True)
            ]
        predictions, label_ids = (_like(prediction.predictions, x) for x in (rewards, better))
        return call_metrics(
            self.user_metrics,
            EvalPrediction(predictions, label_ids, inputs=prediction.inputs, losses=losses),
            by_batch=self.args.batch_eval_metrics,
            compute_result=compute_result,
        )


def _parts(values: Any) -> list[np.ndarray]:
    """One array of all pairs, or one per batch if `eval_do_concat_batches` is off."""
    return [_numpy(part) for part in values] if isinstance(values, list) else [_numpy(values)]  # pyright: ignore[reportUnknownVariableType]


def _like(values: Any, parts: list[Any]) -> Any:
    """The parts as a list if `values` is one, else the single part."""
    return parts if isinstance(values, list) else parts[0]


def _numpy(values: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_numpy(value) for value in values)  # pyright: ignore[reportUnknownVariableType]
    return values.float().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
