"""RewardTrainer: transformers' Trainer for reward models, with exact averages and safe checkpoints.

The loss is the mean over the pairs of the global batch, however they are divided among
micro-batches and processes. Metrics are sums divided once. Checkpoints are committed by a manifest.
A loss that is not finite ends the run.
"""

from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Self

import torch
from accelerate.utils import TorchDynamoPlugin
from peft import PeftConfig, PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from tasks.training.bar import show_bar
from tasks.training.batch_loss import BatchLossTrainer
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.batches.given_rows import formats_of
from tasks.training.batches.own_collator import collator_of
from tasks.training.batches.pairs import COLUMNS
from tasks.training.guard import FiniteGuard
from tasks.training.layout.choice import ExactLayout, choose_layout
from tasks.training.loss.objective import Objective
from tasks.training.loss.params import loss_params
from tasks.training.metrics.held_out import AnyRows, prepared
from tasks.training.metrics.interval import IntervalSums
from tasks.training.metrics.table import EvaluationTable
from tasks.training.metrics.user_metrics import Metrics, check_best_metric, check_metrics
from tasks.training.model.adapter import base_of
from tasks.training.model.compiling import compile_layers, uncompile_layers
from tasks.training.model.elementwise import use_usual_passes
from tasks.training.model.families import check_positions
from tasks.training.model.preparation import prepare_model
from tasks.training.model.tokenizer import prepare_tokenizer
from tasks.training.own_loss import with_weighted_mean
from tasks.training.process.sharding import reduce_in_float32, shard_on_cpu, unshard
from tasks.training.settings.config import RewardConfig
from tasks.training.settings.given_arguments import OLDER_ARGUMENTS, check_kinds, check_known
from tasks.training.settings.optimization import check_optimization


class RewardTrainer(BatchLossTrainer):
    """Trains a model to give the chosen answer of a pair the higher reward.

    A subclass may have a `compute_loss` of its own, which returns the mean over the pairs of a
    micro-batch, `input_ids` and `attention_mask` `[2B, T]`; it is logged, and evaluated, as `loss`.
    Training records have the other metrics only if it calls RewardTrainer's `compute_loss`.

    Args:
        model: a model directory or hub id, an adapter directory that names its base model, a
            sequence classification model with one label, or a PeftModel, which is trained further.
        args: None takes RewardConfig's defaults.
        data_collator: None takes DataCollatorForPreference; one of your own gets rows with
            `chosen_input_ids` and `rejected_input_ids`, whatever their columns were called, and the
            same as `chosen_ids` and `rejected_ids`, which TRL's collators read.
        train_dataset: raw rows (`chosen`, `rejected`, and where wanted `prompt`, `tools`,
            `chat_template_kwargs`, `margin`, `weight`), text or messages; or tokenized rows with
            `chosen_input_ids` and `rejected_input_ids`. Unusable rows are left out and logged.
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
        ModelError, DataError, ParamsError, TemplateError: an argument cannot be used.
    """

    def __new__(cls, *_: Any, **kwargs: Any) -> Self:
        """Checks the names of the arguments.

        Raises:
            ParamsError: there is no argument of that name; says what to write instead.
        """
        check_known(cls, kwargs, OLDER_ARGUMENTS)
        return super().__new__(cls)

    def __init__(
        self,
        model: str | Path | PreTrainedModel | PeftModel,
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
        check_kinds(
            model=(model, str, Path, PreTrainedModel, PeftModel),
            args=(args, RewardConfig, NoneType),
            processing_class=(processing_class, PreTrainedTokenizerBase, NoneType),
            peft_config=(peft_config, PeftConfig, NoneType),
        )
        model = str(model) if isinstance(model, Path) else model
        name = model if isinstance(model, str) else base_of(model).name_or_path or "model"
        args = args or RewardConfig(output_dir=f"{Path(name).name}-Reward")
        check_metrics(compute_metrics, by_batch=args.batch_eval_metrics)
        check_optimization(args, type(self), optimizers, optimizer_cls_and_kwargs)
        tokenizer, added = prepare_tokenizer(processing_class, args, name)
        trained, self.head = prepare_model(
            model, args, tokenizer, added, peft_config, quantization_config
        )
        loss = loss_params(args.loss)
        self.objective = Objective(loss, args.center_rewards_coefficient)
        self.has_own_loss = type(self).compute_loss is not RewardTrainer.compute_loss
        super().__init__(
            model=trained,  # pyright: ignore[reportArgumentType]
            args=args,
            data_collator=collator_of(data_collator, args, tokenizer, loss),
            train_dataset=prepared(train_dataset, args, tokenizer, "train"),
            eval_dataset=prepared(eval_dataset, args, tokenizer, "eval"),
            processing_class=tokenizer,
            compute_metrics=self._metrics_of_table,
            callbacks=callbacks,
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )
        check_positions(base_of(trained), self.train_dataset, "train")
        check_positions(base_of(trained), self.eval_dataset, "eval")
        if compute_metrics is None and type(self).evaluate is RewardTrainer.evaluate:
            check_best_metric(args, self.eval_dataset, own_loss=self.has_own_loss)
        self.layout = self._prepare_layers(base_of(trained))
        self.base_name, self.formats = name, formats_of(train_dataset)
        self._tag()
        self.user_metrics = compute_metrics
        self.user_preprocessing = preprocess_logits_for_metrics
        # compute_loss divides by the global batch's weight, so Trainer must not divide again
        self.model_accepts_loss_kwargs = True
        self.loss_is_scaled_for_ga = True
        self.interval = IntervalSums(self.args.device)
        self.guard = FiniteGuard(self.args.device, norm_may_overflow=self.args.fp16)
        self.job = self._default_job()
        self._table = EvaluationTable(self.objective, None)
        if self.has_own_loss:  # averaged over the pairs of the global batch
            own_loss: Any = with_weighted_mean(self)
            self.compute_loss = own_loss
        show_bar(self)

    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        """As in transformers, but accelerate compiles nothing: `compile_layers` does."""
        args = super()._build_accelerator_args(**kwargs)
        args["dynamo_plugin"] = TorchDynamoPlugin(backend="no")  # pyright: ignore[reportArgumentType]
        return args

    def create_accelerator_and_postprocess(self) -> None:
        """As in transformers, with FSDP on CPUs too, where accelerate leaves it out."""
        super().create_accelerator_and_postprocess()
        if shard_on_cpu(self.accelerator, self.args):
            self.is_fsdp_enabled = True
        reduce_in_float32(self.accelerator)

    def gather_model(self) -> None:
        """Gathers the sharded weights on the first process, for the export; training is over then.

        All processes must call this; without shards it does nothing.
        """
        if not self.sharded:
            return
        weights: Any = self.accelerator.get_state_dict(self.model_wrapped)
        if self.is_world_process_zero():
            unshard(self.accelerator.unwrap_model(self.model), weights)

    def _prepare_layers(self, model: PreTrainedModel) -> ExactLayout:
        """Prepares the layers for the device, the layout and compilation; returns the layout.

        The layout is also set in the collator; a collator of the user's own pads.
        """
        layout: ExactLayout = "padded"
        body: Any = model.base_model
        uncompile_layers(body)
        if self.args.device.type != "cpu":
            use_usual_passes(body)
        collator: Any = self.data_collator
        if isinstance(collator, DataCollatorForPreference):
            wanted: Any = self._args.layout
            layout = collator.layout = choose_layout(wanted, model, self.args)
        compile_layers(body, self.args, self.accelerator)
        return layout

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = list(COLUMNS)
