"""The pairs that are trained on: as the tokenization stage left them, or as a script brings them.

Canonical columns: `chosen_input_ids`, `rejected_input_ids`, and where there are any `margin`,
`weight` and `pair_id`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from datasets import Dataset, IterableDataset, concatenate_datasets
from transformers import PreTrainedTokenizerBase

from tasks.errors import DataError
from tasks.training.config import RewardConfig

Rows = TypeVar("Rows", Dataset, IterableDataset)

IDS = ("chosen_input_ids", "rejected_input_ids")
COLUMNS = (*IDS, "margin", "weight", "pair_id")

OTHER_NAMES: tuple[Mapping[str, str], ...] = (
    {"chosen_ids": "chosen_input_ids", "rejected_ids": "rejected_input_ids"},
    {"input_ids_chosen": "chosen_input_ids", "input_ids_rejected": "rejected_input_ids"},
)
"""Names of the id columns in newer and in older versions of TRL."""


def open_pairs(directory: Path) -> Dataset | None:
    """All pairs of a split, memory-mapped from its Arrow shards, or None where there are none.

    Raises:
        DataError: a shard lacks a column.
    """
    shards = [Dataset.from_file(str(path)) for path in sorted(directory.glob("*.arrow"))]
    for path, shard in zip(sorted(directory.glob("*.arrow")), shards, strict=True):
        absent = [name for name in (*IDS, "pair_id") if name not in shard.column_names]
        if absent:
            raise DataError(f"{path} lacks the columns {absent}; it has {shard.column_names}")
    shards = [shard for shard in shards if len(shard)]
    return concatenate_datasets(shards) if shards else None


def prepare_dataset(
    dataset: Rows,
    args: RewardConfig,
    processing_class: PreTrainedTokenizerBase,
    name: str,
) -> Rows:
    """The rows under canonical column names, each with an id.

    Tokenized rows only, so far: rendering and tokenizing of raw rows belong here.

    Raises:
        DataError: the rows are not tokenized, or there are none.
    """
    del args, processing_class  # raw rows will need them
    columns = list(dataset.column_names or next(iter(dataset)).keys())
    for names in OTHER_NAMES:
        if set(names) <= set(columns):
            dataset = dataset.rename_columns(dict(names))
            columns = [names.get(column, column) for column in columns]
    if not set(IDS) <= set(columns):
        raise DataError(
            f"the {name} dataset has the columns {columns}; expected tokenized pairs with "
            f"{' and '.join(IDS)}: run raw rows through the templating and tokenization stages"
        )
    if "pair_id" not in columns:
        dataset = _with_row_numbers(dataset)
    if isinstance(dataset, Dataset) and len(dataset) == 0:
        raise DataError(f"the {name} dataset is empty; there is nothing to train or evaluate on")
    return dataset


def _with_row_numbers(dataset: Rows) -> Rows:
    if isinstance(dataset, Dataset):
        return dataset.add_column("pair_id", [f"row {i}" for i in range(len(dataset))])  # pyright: ignore[reportCallIssue]

    def numbered(row: dict[str, Any], index: int) -> dict[str, Any]:
        return {**row, "pair_id": f"row {index}"}

    return dataset.map(numbered, with_indices=True)
