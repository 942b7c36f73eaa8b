"""What RewardTrainer makes of rows that are evaluated: rewards, and exact metrics from all of them.

Legend: B pairs of a batch, N pairs of an evaluation.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset, IterableDataset
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler
from transformers import EvalPrediction, PreTrainedTokenizerBase
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput, has_length

from tasks.artifact.memory import large_buffers_kept
from tasks.errors import DataError, ParamsError, meant
from tasks.training.batches.given_ids import within
from tasks.training.batches.given_rows import as_dataset
from tasks.training.batches.pairs import prepare_dataset
from tasks.training.config import RewardConfig
from tasks.training.handover.hub import SharedTrainer
from tasks.training.loss.objective import Objective
from tasks.training.model.adapter import base_of
from tasks.training.model.padding import embedding
from tasks.training.optimization import check_warm_up
from tasks.training.samples import print_samples, samples
from tasks.training.scoring import batch_rewards
from tasks.training.table import EvaluationTable, labels, pair_shares
from tasks.training.user_metrics import Metrics, call_metrics

AnyRows = Dataset | IterableDataset | Sequence[Mapping[str, Any]]
"""A data set, or its rows themselves."""


class EvaluatingTrainer(SharedTrainer):
    """Trainer whose metrics come from the table of all pairs, not from means of batches."""

    objective: Objective
    user_metrics: Metrics | None
    user_preprocessing: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None
    _table: EvaluationTable
    has_own_loss: bool = False
    """Whether the class has a `compute_loss` that is not RewardTrainer's."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        model: Any = self.model
        self._vocabulary = embedding(base_of(model)).num_embeddings
        check_no_stream(self.eval_dataset, self.args.world_size, "eval")
        self.train_dataset: Any = within(self.train_dataset, self._vocabulary, "train")
        self.eval_dataset: Any = within(self.eval_dataset, self._vocabulary, "eval")

    def set_initial_training_values(self, args: Any, dataloader: Any) -> Any:
        """As in transformers.

        Raises:
            ParamsError: `dataloader_drop_last` leaves no batch of an epoch; or as `check_warm_up`.
        """
        if args.dataloader_drop_last and _is_empty(dataloader):
            kind = "comparisons" if self.objective.params.of_comparisons else "pairs"
            raise ParamsError(
                f"the train dataset has {self.num_examples(dataloader)} {kind}, but a batch takes "
                f"{args.train_batch_size * args.world_size} ({args.train_batch_size} in each of "
                f"{args.world_size} processes), and dataloader_drop_last leaves out a smaller one; "
                "leave dataloader_drop_last out, or lower per_device_train_batch_size"
            )
        found = super().set_initial_training_values(args, dataloader)
        if self.lr_scheduler is None:
            check_warm_up(args, steps=found[-1])
        return found

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """As in transformers, of all rows."""
        with self._no_row_dropped():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        """As in transformers, of all rows."""
        with self._no_row_dropped():
            return super().get_test_dataloader(test_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler:
        """Rows in their order, whatever `train_sampling_strategy` says: that of the table, and of
        what `predict` returns."""
        return SequentialSampler(eval_dataset)

    @contextmanager
    def _no_row_dropped(self) -> Generator[None, None, None]:
        """Inside, `dataloader_drop_last` is off: it is of batches that are trained on alone."""
        given, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = given

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,  # noqa: ARG002
        ignore_keys: list[str] | None = None,  # noqa: ARG002
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """Rewards `[B, 2]` and, as labels, `table.TERMS` `[B, 3]`; all float32.

        Before them the mean of a loss of a script's own, else None: the table's is exact.
        """
        inputs = self._prepare_inputs(inputs)
        own: torch.Tensor | None = None
        with torch.no_grad():
            rewards = batch_rewards(model, inputs)
            if self.has_own_loss:
                with self.compute_loss_context_manager():
                    mean: Any = self.compute_loss(model, dict(inputs))
                own = mean.detach()
        table = torch.stack(rewards.chunk(2), 1)
        ones = torch.ones_like(table[:, 0])
        margin, weight = inputs.get("margin", 0 * ones), inputs.get("weight", ones)
        preference = inputs.get("preference", ones)
        return own, table, torch.stack([margin, weight, preference], 1)

    def evaluate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        eval_dataset: AnyRows | dict[str, AnyRows] | str | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """The metrics `eval_*` of the given rows, raw or tokenized, or of the trainer's own.

        A name is one of a dict of data sets that the trainer was given.

        Raises:
            ParamsError: the trainer has no data set of that name.
        """
        named = self.eval_dataset if isinstance(self.eval_dataset, dict) else {}
        if isinstance(eval_dataset, str) and eval_dataset not in named:
            raise ParamsError(
                f"evaluate got {eval_dataset!r}; expected rows, or a name of eval_dataset, whose "
                f"names are {sorted(named)}{meant(eval_dataset, named)}"
            )
        if eval_dataset is not None and not isinstance(eval_dataset, str):
            eval_dataset = self._ready(eval_dataset, metric_key_prefix)
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)  # pyright: ignore[reportArgumentType]

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        test_dataset: AnyRows,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
    ) -> PredictionOutput:
        """Rewards `[N, 2]` (chosen, rejected) of the given rows, raw or tokenized.

        The sides of a row are swapped where its `preference` is below 0.5.
        """
        rows: Any = self._ready(test_dataset, metric_key_prefix)
        return super().predict(rows, ignore_keys, metric_key_prefix)

    def visualize_samples(self, num_print_samples: int = 4) -> None:
        """Prints texts and rewards of the first pairs that are evaluated; -1 prints all."""
        found = samples(self, self.eval_dataset, num_print_samples)
        if self.is_world_process_zero():
            print_samples(found)

    def _ready(self, rows: Any, name: str) -> Any:
        tokenizer: Any = self.processing_class
        check_no_stream(rows, self.args.world_size, name)
        return within(prepared(rows, self._args, tokenizer, name), self._vocabulary, name)

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in transformers; `label_ids` are those that `compute_metrics` gets."""
        self._table = EvaluationTable(self.objective, dataloader.dataset)
        with large_buffers_kept(kept=self.args.device.type == "cpu"):
            output = super().evaluation_loop(dataloader, *args, **kwargs)
        if output.label_ids is None:  # `batch_eval_metrics`: every batch has had its own
            return output
        better = _like(output.label_ids, [labels(terms) for terms in _parts(output.label_ids)])
        return output._replace(label_ids=better)

    def _metrics_of_table(
        self, prediction: EvalPrediction, compute_result: bool = True
    ) -> dict[str, Any]:
        """Metrics of all pairs seen in this evaluation; with `batch_eval_metrics` it grows."""
        rewards = np.concatenate(_parts(prediction.predictions))
        terms = np.concatenate(_parts(prediction.label_ids))
        self._table.add(rewards, terms)
        losses: Any = prediction.losses
        if losses is None and "loss" in self.args.include_for_metrics:
            losses, _ = pair_shares(self.objective, rewards, terms, None)
        found = self._user_metrics(prediction, losses, compute_result)
        if not compute_result:
            return {}
        metrics = self._table.metrics()
        if self.has_own_loss:
            metrics = {k: v for k, v in metrics.items() if not k.endswith("loss")}
        return {"num_tokens": self.interval.tokens(), **metrics, **found}

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
        given = prediction.predictions
        predictions, label_ids = _like(given, rewards), _like(given, better)
        shown = EvalPrediction(predictions, label_ids, inputs=prediction.inputs, losses=losses)
        by_batch = self.args.batch_eval_metrics
        return call_metrics(
            self.user_metrics, shown, by_batch=by_batch, compute_result=compute_result
        )

    @property
    def _args(self) -> RewardConfig:
        assert isinstance(self.args, RewardConfig)
        return self.args


def check_no_stream(rows: Any, processes: int, name: str) -> None:
    """Refuses to share out a stream to be evaluated: nobody knows which rows fill its last batch.

    Raises:
        ParamsError: the rows, or some of a dict of them, are one, and there are several processes.
    """
    for key, part in rows.items() if isinstance(rows, dict) else [(name, rows)]:
        if processes > 1 and isinstance(part, IterableDataset):
            raise ParamsError(
                f"the {key} dataset is a stream, and the {processes} processes would score some of "
                "its rows twice; give a Dataset: load it without streaming=True, or evaluate in "
                "one process"
            )


def prepared(rows: Any, args: RewardConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> Any:
    """`prepare_dataset` of rows, of a dict of them, or of nothing."""
    if rows is None:
        return None
    if isinstance(rows, dict):
        parts: dict[str, Any] = rows  # pyright: ignore[reportUnknownVariableType]
        if name == "train":
            raise DataError(
                f"train_dataset is a dict of the data sets {sorted(parts)}; training takes one: "
                "give it one of them, or all with datasets.concatenate_datasets"
            )
        return {key: prepared(value, args, tokenizer, key) for key, value in parts.items()}
    given: Any = as_dataset(rows, name)
    return prepare_dataset(given, args, tokenizer, name)


def _parts(values: Any) -> list[np.ndarray]:
    """The array of all pairs; of each batch, where `eval_do_concat_batches` is off."""
    return [_numpy(part) for part in values] if isinstance(values, list) else [_numpy(values)]  # pyright: ignore[reportUnknownVariableType]


def _like(given: Any, parts: list[Any]) -> Any:
    """The parts as a list where they were given as one, else the only one."""
    return parts if isinstance(given, list) else parts[0]


def _numpy(values: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_numpy(value) for value in values)  # pyright: ignore[reportUnknownVariableType]
    return values.float().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _is_empty(dataloader: Any) -> bool:
    return has_length(dataloader) and len(dataloader) == 0
