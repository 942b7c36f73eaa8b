"""The data sets that RewardTrainer evaluates: every row once and in order, raw or tokenized."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from datasets import Dataset, IterableDataset
from torch.utils.data import DataLoader, SequentialSampler
from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from tasks.errors import DataError, ParamsError, meant
from tasks.training.batches.given_rows import as_dataset
from tasks.training.batches.pairs import prepare_dataset
from tasks.training.batches.vocabulary import within_vocabulary
from tasks.training.handover.hub import SharedTrainer
from tasks.training.model.adapter import base_of
from tasks.training.model.padding import embedding
from tasks.training.settings.config import RewardConfig

AnyRows = Dataset | IterableDataset | Sequence[Mapping[str, Any]]
"""A data set, or its rows themselves."""


class HeldOutTrainer(SharedTrainer):
    """Trainer whose `evaluate` and `predict` take raw or tokenized rows, and skip none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        model: Any = self.model
        self._vocabulary = embedding(base_of(model)).num_embeddings
        check_no_stream(self.eval_dataset, self.args.world_size, "eval")
        self.train_dataset: Any = within_vocabulary(self.train_dataset, self._vocabulary, "train")
        self.eval_dataset: Any = within_vocabulary(self.eval_dataset, self._vocabulary, "eval")

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """As in transformers, of all rows."""
        with self._no_row_dropped():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        """As in transformers, of all rows."""
        with self._no_row_dropped():
            return super().get_test_dataloader(test_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler:
        """Rows in order, whatever `train_sampling_strategy` says: the evaluation's table and what
        `predict` returns are in that order."""
        return SequentialSampler(eval_dataset)

    @contextmanager
    def _no_row_dropped(self) -> Generator[None, None, None]:
        """Inside, `dataloader_drop_last` is off: it is meant for training batches only."""
        drop_last, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = drop_last

    def evaluate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        eval_dataset: AnyRows | dict[str, AnyRows] | str | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """The metrics `eval_*` of rows, raw or tokenized; None: of the trainer's `eval_dataset`.

        A string names one of the data sets of a dict `eval_dataset`.

        Raises:
            ParamsError: there is no data set of that name.
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
        """Rewards `[N, 2]` (chosen, rejected) of rows, raw or tokenized.

        They are swapped where a row's `preference` is below 0.5.
        """
        rows: Any = self._ready(test_dataset, metric_key_prefix)
        return super().predict(rows, ignore_keys, metric_key_prefix)

    def _ready(self, rows: Any, name: str) -> Any:
        tokenizer: Any = self.processing_class
        check_no_stream(rows, self.args.world_size, name)
        return within_vocabulary(
            prepared(rows, self._args, tokenizer, name), self._vocabulary, name
        )

    @property
    def _args(self) -> RewardConfig:
        assert isinstance(self.args, RewardConfig)
        return self.args


def check_no_stream(rows: Any, processes: int, name: str) -> None:
    """Refuses to evaluate a stream in several processes: its length is unknown, so the duplicates
    in the last batch could not be removed.

    Raises:
        ParamsError: the rows, or one value of a dict, are an IterableDataset; `processes` > 1.
    """
    for key, part in rows.items() if isinstance(rows, dict) else [(name, rows)]:
        if processes > 1 and isinstance(part, IterableDataset):
            raise ParamsError(
                f"the {key} dataset is a stream, and the {processes} processes would score some of "
                "its rows twice; give a Dataset: load it without streaming=True, or evaluate in "
                "one process"
            )


def check_not_empty(rows: Any) -> None:
    """Refuses a stream without a usable row; accepts all other data sets.

    Raises:
        DataError: the stream is empty, or none of its rows can be used.
    """
    if isinstance(rows, IterableDataset) and next(iter(rows), None) is None:
        raise DataError(
            "a stream to be evaluated gave no pair: it holds no row, or none that can be used (the "
            "log names the first that is not, and why); look at its rows, or load it without "
            "streaming=True to have them counted by reason"
        )


def prepared(rows: Any, args: RewardConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> Any:
    """`prepare_dataset` of rows, or of each data set of a dict; None for None."""
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
    dataset: Any = as_dataset(rows, name)
    return prepare_dataset(dataset, args, tokenizer, name)
