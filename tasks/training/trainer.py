"""RewardTrainer: transformers' Trainer for reward models, right where averages and kills go wrong.

The loss is the mean over the pairs of the global batch, however they are spread over micro-batches
and processes; metrics are sums divided once; checkpoints are committed by a manifest; a loss that
is not finite ends the run.

Legend: B pairs of one micro-batch.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, IterableDataset
from peft import PeftConfig, PeftModel
from torch import nn
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
)
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput

from tasks.training.adapter import base_of
from tasks.training.callbacks import LogLastInterval, SaveAfterEpoch
from tasks.training.collator import DataCollatorForPreference
from tasks.training.config import RewardConfig
from tasks.training.guard import FiniteGuard
from tasks.training.loss import pair_losses, weighted_sum
from tasks.training.metrics import IntervalSums, table_metrics
from tasks.training.model import pad_id
from tasks.training.pairs import COLUMNS, prepare_dataset
from tasks.training.preparation import prepare_model, prepare_tokenizer
from tasks.training.resumable import ResumableTrainer
from tasks.training.scoring import score

AnyRows = Dataset | IterableDataset
Metrics = Callable[..., dict[str, Any]]


class RewardTrainer(ResumableTrainer):
    """Trains a model to give the chosen answer of a pair the higher reward.

    Args:
        model: a model directory or hub id, a sequence classification model with one label, or a
            PeftModel of one, which is trained further.
        args: None takes RewardConfig's defaults.
        data_collator: None takes DataCollatorForPreference.
        train_dataset: raw rows (`chosen`, `rejected`, and where wanted `prompt`, `tools`,
            `chat_template_kwargs`, `margin`, `weight`), text or messages; or tokenized rows with
            `chosen_input_ids` and `rejected_input_ids`. What cannot be used is left out and logged.
        eval_dataset: the same, or a dict of such datasets (metrics `eval_<name>_*`).
        processing_class: the tokenizer; None loads the model's.
        compute_metrics: gets an EvalPrediction with `predictions` float32 `[N, 2]`, the rewards of
            chosen and rejected, and `label_ids` zeros `[N]`: the column of the better answer.
        callbacks, optimizers, optimizer_cls_and_kwargs: as in transformers.
        preprocess_logits_for_metrics: applied to `predictions` before `compute_metrics`.
        peft_config: adapters to put on the model.

    Raises:
        ModelError, DataError, ParamsError, TemplateError: an argument cannot be used; nothing has
            been done yet.
    """

    def __init__(
        self,
        model: str | PreTrainedModel | PeftModel,
        args: RewardConfig | None = None,
        data_collator: Callable[[list[Any]], dict[str, Any]] | None = None,
        train_dataset: AnyRows | None = None,
        eval_dataset: AnyRows | dict[str, AnyRows] | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        compute_metrics: Metrics | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        optimizer_cls_and_kwargs: tuple[type[torch.optim.Optimizer], dict[str, Any]] | None = None,
        preprocess_logits_for_metrics: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
        | None = None,
        peft_config: PeftConfig | None = None,
    ) -> None:
        name = model if isinstance(model, str) else base_of(model).name_or_path or "model"
        args = args or RewardConfig(output_dir=f"{Path(name).name}-Reward")
        tokenizer = prepare_tokenizer(processing_class, args, name)
        trained, self.head = prepare_model(model, args, tokenizer, peft_config)
        super().__init__(
            model=trained,  # pyright: ignore[reportArgumentType]
            args=args,
            data_collator=data_collator
            or DataCollatorForPreference(pad_id(tokenizer), args.pad_to_multiple_of),
            train_dataset=_prepared(train_dataset, args, tokenizer, "train"),
            eval_dataset=_prepared(eval_dataset, args, tokenizer, "eval"),
            processing_class=tokenizer,
            compute_metrics=self._metrics_of_table,
            callbacks=callbacks,
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )
        self.add_callback(SaveAfterEpoch())
        self.add_callback(LogLastInterval())
        self.user_metrics = compute_metrics
        self.user_preprocessing = preprocess_logits_for_metrics
        # The loss is divided by the global batch's weight here, and nowhere again in Trainer.
        self.model_accepts_loss_kwargs = True
        self.loss_is_scaled_for_ga = True
        self.interval = IntervalSums(self.args.device)
        self.guard = FiniteGuard(self.args.device, norm_may_overflow=self.args.fp16)
        self.job = self._default_job()
        self._table: list[tuple[np.ndarray, np.ndarray]] = []

    # ---- loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> Any:
        """This micro-batch's share of the mean loss over the global batch, a float32 scalar."""
        weight: torch.Tensor | None = inputs.get("weight")
        with self._activations():
            rewards = score(model, inputs["input_ids"], inputs["attention_mask"])  # (2B,)
        chosen, rejected = rewards.chunk(2)
        losses = pair_losses(
            chosen, rejected, inputs.get("margin"), self._args.center_rewards_coefficient
        )
        total = weighted_sum(losses, weight)
        if model.training:
            self.interval.add(rewards, total, weight, inputs["attention_mask"])
            self.guard.saw_batch(inputs.get("pair_id", []), total)
        if num_items_in_batch is None:
            loss = total / (len(chosen) if weight is None else weight.sum())
        else:  # gradients are averaged over processes: their number makes a sum of it again
            loss = total * (self.accelerator.num_processes / num_items_in_batch)
        return (loss, {"rewards": torch.stack([chosen, rejected], 1)}) if return_outputs else loss

    def _get_num_items_in_batch(
        self, batch_samples: list[dict[str, Any]], device: torch.device
    ) -> torch.Tensor | int | None:
        """The weight of all pairs of one optimizer step, over micro-batches and processes."""
        if not batch_samples:
            return None
        weight: Any = sum(
            b["weight"].sum(dtype=torch.float32) if "weight" in b else len(b["input_ids"]) // 2
            for b in batch_samples
        )
        if self.accelerator.num_processes == 1:
            return weight
        shares: Any = self.accelerator.gather(torch.as_tensor(weight, device=device).float())
        return shares.sum()

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm: Any = super()._get_grad_norm(model, grad_norm=grad_norm)
        self.guard.finish_step(self.state.global_step + 1, norm)
        return norm

    def _activations(self) -> contextlib.AbstractContextManager[Any]:
        if self._args.activation_offloading and torch.is_grad_enabled():
            pinned = self.args.device.type == "cuda"
            return torch.autograd.graph.save_on_cpu(pin_memory=pinned)
        return contextlib.nullcontext()

    # ---- metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs; a training record gets the exact metrics of its interval."""
        if "loss" in logs and "learning_rate" in logs:
            self.guard.settle()
            rest = {name: logs[name] for name in ("learning_rate", "grad_norm") if name in logs}
            logs = {**self.interval.flush(), **rest}
        super().log(logs, start_time)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,  # noqa: ARG002
        ignore_keys: list[str] | None = None,  # noqa: ARG002
    ) -> tuple[None, torch.Tensor, torch.Tensor]:
        """Rewards `[B, 2]` and, as labels, margin and weight `[B, 2]`; all float32."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            rewards = score(model, inputs["input_ids"], inputs["attention_mask"])
        table = torch.stack(rewards.chunk(2), 1)
        margin = inputs.get("margin", torch.zeros_like(table[:, 0]))
        weight = inputs.get("weight", torch.ones_like(table[:, 0]))
        return None, table, torch.stack([margin, weight], 1)

    def evaluate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        eval_dataset: AnyRows | dict[str, AnyRows] | str | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """The metrics `eval_*` of the given rows, raw or tokenized, or of the trainer's own."""
        if eval_dataset is not None and not isinstance(eval_dataset, str):
            eval_dataset = self._ready(eval_dataset, metric_key_prefix)
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)  # pyright: ignore[reportArgumentType]

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        test_dataset: AnyRows,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
    ) -> PredictionOutput:
        """Rewards `[N, 2]` (chosen, rejected) of the given rows, raw or tokenized."""
        rows: Any = self._ready(test_dataset, metric_key_prefix)
        return super().predict(rows, ignore_keys, metric_key_prefix)

    def _ready(self, rows: Any, name: str) -> Any:
        tokenizer: Any = self.processing_class
        return _prepared(rows, self._args, tokenizer, name)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in transformers; `label_ids` are zeros: the better answer stands in column 0."""
        self._table = []
        output = super().evaluation_loop(*args, **kwargs)
        return output._replace(label_ids=np.zeros(len(output.label_ids), dtype=np.int64))  # pyright: ignore[reportArgumentType]

    def _metrics_of_table(
        self, prediction: EvalPrediction, compute_result: bool = True
    ) -> dict[str, Any]:
        """Metrics of all pairs seen in this evaluation; with `batch_eval_metrics` it grows."""
        rewards, terms = _numpy(prediction.predictions), _numpy(prediction.label_ids)
        self._table.append((rewards, terms))
        found = self._user_metrics(rewards, prediction, compute_result)
        if not compute_result:
            return {}
        rewards, terms = (np.concatenate(part) for part in zip(*self._table, strict=True))
        center = self._args.center_rewards_coefficient
        exact = table_metrics(rewards, terms[:, 0], terms[:, 1], center)
        return {"num_tokens": self.interval.tokens(), **exact, **found}

    def _user_metrics(
        self, rewards: np.ndarray, prediction: EvalPrediction, compute_result: bool
    ) -> dict[str, Any]:
        if self.user_metrics is None:
            return {}
        labels = np.zeros(len(rewards), dtype=np.int64)
        if self.user_preprocessing is not None:
            rewards = _numpy(
                self.user_preprocessing(torch.from_numpy(rewards), torch.from_numpy(labels))
            )
        shown = EvalPrediction(rewards, labels, inputs=prediction.inputs, losses=prediction.losses)
        batchwise = {"compute_result": compute_result} if self.args.batch_eval_metrics else {}
        return self.user_metrics(shown, **batchwise) or {}

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = list(COLUMNS)

    @property
    def _args(self) -> RewardConfig:
        assert isinstance(self.args, RewardConfig)
        return self.args


def _prepared(rows: Any, args: RewardConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> Any:
    if rows is None:
        return None
    if isinstance(rows, dict):
        return {key: _prepared(value, args, tokenizer, key) for key, value in rows.items()}
    return prepare_dataset(rows, args, tokenizer, name)


def _numpy(values: Any) -> np.ndarray:
    return values.float().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
