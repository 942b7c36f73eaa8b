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
from torch.utils.data import DataLoader
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
from tasks.training.comparisons import Comparisons
from tasks.training.config import RewardConfig
from tasks.training.families import check_positions
from tasks.training.guard import FiniteGuard
from tasks.training.hub import SharedTrainer
from tasks.training.loss_params import loss_params
from tasks.training.metrics import IntervalSums
from tasks.training.model import pad_id
from tasks.training.objective import Objective, sides
from tasks.training.pairs import COLUMNS, prepare_dataset
from tasks.training.preparation import prepare_model, prepare_tokenizer
from tasks.training.samples import print_samples, samples
from tasks.training.scoring import score
from tasks.training.table import EvaluationTable, labels

AnyRows = Dataset | IterableDataset
Metrics = Callable[..., dict[str, Any]]


class RewardTrainer(SharedTrainer):
    """Trains a model to give the chosen answer of a pair the higher reward.

    Args:
        model: a model directory or hub id, an adapter directory that names its base model, a
            sequence classification model with one label, or a PeftModel, which is trained further.
        args: None takes RewardConfig's defaults.
        data_collator: None takes DataCollatorForPreference.
        train_dataset: raw rows (`chosen`, `rejected`, and where wanted `prompt`, `tools`,
            `chat_template_kwargs`, `margin`, `weight`), text or messages; or tokenized rows with
            `chosen_input_ids` and `rejected_input_ids`. What cannot be used is left out and logged.
        eval_dataset: the same, or a dict of such datasets (metrics `eval_<name>_*`).
        processing_class: the tokenizer; None loads the model's.
        compute_metrics: gets an EvalPrediction with `predictions` float32 `[N, 2]`, the rewards of
            chosen and rejected, and `label_ids` int64 `[N]`: the column of the better answer, which
            is 0, or -100 for a tie.
        callbacks, optimizers, optimizer_cls_and_kwargs: as in transformers.
        preprocess_logits_for_metrics: applied to `predictions` before `compute_metrics`.
        peft_config: adapters to put on the model.
        quantization_config: as in `from_pretrained`, for a model that is given as a path.

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
        quantization_config: Any = None,
    ) -> None:
        name = model if isinstance(model, str) else base_of(model).name_or_path or "model"
        args = args or RewardConfig(output_dir=f"{Path(name).name}-Reward")
        tokenizer = prepare_tokenizer(processing_class, args, name)
        trained, self.head = prepare_model(model, args, tokenizer, peft_config, quantization_config)
        loss = loss_params(args.loss)
        self.objective = Objective(loss, args.center_rewards_coefficient)
        super().__init__(
            model=trained,  # pyright: ignore[reportArgumentType]
            args=args,
            data_collator=data_collator
            or DataCollatorForPreference(pad_id(tokenizer), args.pad_to_multiple_of, loss=loss),
            train_dataset=_prepared(train_dataset, args, tokenizer, "train"),
            eval_dataset=_prepared(eval_dataset, args, tokenizer, "eval"),
            processing_class=tokenizer,
            compute_metrics=self._metrics_of_table,
            callbacks=callbacks,
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )
        check_positions(base_of(trained), self.train_dataset, "train")
        check_positions(base_of(trained), self.eval_dataset, "eval")
        self.base_name = name
        self._tag()
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
        self._table = EvaluationTable(self.objective, None)

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
            rewards = score(model, inputs["input_ids"], inputs["attention_mask"])  # (2B,) or (S,)
        total = self.objective.total(rewards, inputs)
        chosen, rejected = sides(rewards, inputs)  # (B,) each
        if model.training:
            self.interval.add((chosen, rejected), total, inputs)
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

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches of pairs; under a loss of comparisons, batches of whole comparisons."""
        pairs: Any = self.train_dataset
        if self.objective.params.of_comparisons:
            self.train_dataset = Comparisons(pairs)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = pairs

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
        """Rewards `[B, 2]` and, as labels, `table.TERMS` `[B, 3]`; all float32."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            rewards = score(model, inputs["input_ids"], inputs["attention_mask"])
        table = torch.stack(rewards.chunk(2), 1)
        ones = torch.ones_like(table[:, 0])
        margin, weight = inputs.get("margin", 0 * ones), inputs.get("weight", ones)
        preference = inputs.get("preference", ones)
        return None, table, torch.stack([margin, weight, preference], 1)

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

    def visualize_samples(self, num_print_samples: int = 4) -> None:
        """Prints texts and rewards of the first pairs that are evaluated; -1 prints all."""
        found = samples(self, self.eval_dataset, num_print_samples)
        if self.is_world_process_zero():
            print_samples(found)

    def _ready(self, rows: Any, name: str) -> Any:
        tokenizer: Any = self.processing_class
        return _prepared(rows, self._args, tokenizer, name)

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in transformers; `label_ids` are those that `compute_metrics` gets."""
        self._table = EvaluationTable(self.objective, dataloader.dataset)
        output = super().evaluation_loop(dataloader, *args, **kwargs)
        return output._replace(label_ids=labels(_numpy(output.label_ids)))  # pyright: ignore[reportArgumentType]

    def _metrics_of_table(
        self, prediction: EvalPrediction, compute_result: bool = True
    ) -> dict[str, Any]:
        """Metrics of all pairs seen in this evaluation; with `batch_eval_metrics` it grows."""
        rewards, terms = _numpy(prediction.predictions), _numpy(prediction.label_ids)
        self._table.add(rewards, terms)
        found = self._user_metrics(rewards, labels(terms), prediction, compute_result)
        if not compute_result:
            return {}
        return {"num_tokens": self.interval.tokens(), **self._table.metrics(), **found}

    def _user_metrics(
        self,
        rewards: np.ndarray,
        better: np.ndarray,
        prediction: EvalPrediction,
        compute_result: bool,
    ) -> dict[str, Any]:
        if self.user_metrics is None:
            return {}
        if self.user_preprocessing is not None:
            rewards = _numpy(
                self.user_preprocessing(torch.from_numpy(rewards), torch.from_numpy(better))
            )
        shown = EvalPrediction(rewards, better, inputs=prediction.inputs, losses=prediction.losses)
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
