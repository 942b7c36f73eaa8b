"""The pairs to train on: from the tokenization stage, or from a script's own rows.

Canonical columns: `chosen_input_ids`, `rejected_input_ids`, and where there are any `margin`,
`weight`, `preference`, `comparison`, `source` and `pair_id`.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from datasets import Dataset, IterableDataset, concatenate_datasets
from transformers import PreTrainedTokenizerBase

from tasks.errors import DataError
from tasks.tokenization.shards import IDS, shards_in
from tasks.training.batches.columns import longest_sides
from tasks.training.batches.origin import from_tokenization, is_from_tokenization
from tasks.training.batches.own_collator import TRL_NAMES
from tasks.training.batches.raw_pairs import READ, TERMS
from tasks.training.batches.raw_rows import tokenize_rows
from tasks.training.batches.tokenized_rows import checked_rows
from tasks.training.batches.unusable_rows import usable_rows
from tasks.training.loss.params import loss_params
from tasks.training.loss.rows import check_rows
from tasks.training.settings.config import RewardConfig

logger = logging.getLogger(__name__)

Rows = TypeVar("Rows", Dataset, IterableDataset)

ANSWERS = ("chosen", "rejected")
COLUMNS = (*IDS, *TERMS, "pair_id")

OTHER_NAMES: tuple[Mapping[str, str], ...] = (
    TRL_NAMES,
    dict(zip(("input_ids_chosen", "input_ids_rejected"), IDS, strict=True)),
)
"""Names of the id columns in newer and in older versions of TRL."""
SAMPLED_ROWS = 512
MASKS: tuple[str, ...] = ("attention_mask_chosen", "attention_mask_rejected")


def open_pairs(directory: Path) -> Dataset | None:
    """All pairs of a split, memory-mapped from its Arrow shards, or None where there are none.

    Raises:
        DataError: a shard lacks a column.
    """
    paths = shards_in(directory)
    shards = [Dataset.from_file(str(path)) for path in paths]
    for path, shard in zip(paths, shards, strict=True):
        absent = [name for name in (*IDS, "pair_id") if name not in shard.column_names]
        if absent:
            raise DataError(f"{path} lacks the columns {absent}; it has {shard.column_names}")
    shards = [shard for shard in shards if len(shard)]
    return from_tokenization(concatenate_datasets(shards)) if shards else None


def prepare_dataset(
    dataset: Rows,
    args: RewardConfig,
    processing_class: PreTrainedTokenizerBase,
    name: str,
) -> Rows:
    """Token ids under canonical column names, each row with an id; raw rows are tokenized.

    Rows with a side longer than `max_length` are left out; so are training rows with two equal
    sides. Their number is logged. Where `preference` is below 0.5 the sides are swapped, as in
    conversion.

    Raises:
        DataError: the rows are no preference pairs, none is left, or they do not suit the loss.
        ParamsError: the loss does not suit the rows.
        TemplateError: the rows are conversations, and the tokenizer has no chat template.
    """
    first = next(iter(dataset), None)
    if first is None:
        raise DataError(f"the {name} dataset is empty; there is nothing to train or evaluate on")
    declared = dataset.column_names
    dataset, columns = _under_canonical_names(dataset, list(declared or first))
    if set(IDS) <= set(columns):
        if not is_from_tokenization(dataset):
            dataset = checked_rows(dataset, name)
        dataset = _short_enough(dataset, args.max_length, name)
    elif set(ANSWERS) <= set(columns):
        # a stream that does not declare its columns may have any of these in a later row
        dataset = tokenize_rows(
            dataset,
            columns if declared else list(dict.fromkeys([*columns, *READ, *TERMS])),
            processing_class,
            name,
            args.max_length,
            args.dataset_num_proc,
            args.special_tokens_in_text,
        )
    else:
        raise DataError(
            f"the {name} dataset has the columns {columns}; expected raw pairs with "
            f"{' and '.join(ANSWERS)}, or tokenized ones with {' and '.join(IDS)}"
        )
    check_rows(dataset, loss_params(args.loss), name)
    return dataset


def _under_canonical_names(dataset: Rows, columns: list[str]) -> tuple[Rows, list[str]]:
    for names in OTHER_NAMES:
        if set(names) <= set(columns):
            twice = [name for name in names.values() if name in columns]
            if twice:  # for readers of both names; TRL reads these
                logger.warning("%s are read, %s are not", ", ".join(names), ", ".join(twice))
                dataset = dataset.remove_columns(twice)
                columns = [column for column in columns if column not in twice]
            dataset = dataset.rename_columns(dict(names))
            columns = [names.get(column, column) for column in columns]
            if set(MASKS) <= set(columns):
                dataset = dataset.map(_unpadded, remove_columns=list(MASKS))
                columns = [column for column in columns if column not in MASKS]
    return dataset, columns


def _unpadded(row: dict[str, Any]) -> dict[str, Any]:
    """The ids that the mask marks: older scripts pad rows to a fixed length beforehand."""
    return {
        ids: [i for i, marked in zip(row[ids], row[mask], strict=True) if marked]
        for ids, mask in zip(IDS, MASKS, strict=True)
    }


def _short_enough(dataset: Rows, max_length: int | None, name: str) -> Rows:
    if max_length is None:
        return dataset
    if isinstance(dataset, IterableDataset):

        def too_long(chosen: Sequence[int], rejected: Sequence[int]) -> str:
            sizes = len(chosen), len(rejected)
            found = f"too_long: found {sizes[0]} and {sizes[1]} tokens"
            expected = f"expected {max_length} at most; raise max_length"
            return f"{found}, {expected}" if max(sizes) > max_length else ""

        return usable_rows(dataset, too_long)
    longest = longest_sides(dataset)
    if len(longest) == 0 or longest.max() <= max_length:
        return dataset
    kept = np.flatnonzero(longest <= max_length)
    text = f"{name}: {len(longest) - len(kept)} of {len(longest)} rows are not used: too_long"
    if len(kept) == 0:
        raise DataError(f"{text}; raise max_length (now {max_length})")
    logger.warning("%s (max_length %d)", text, max_length)
    return dataset.select(kept)  # not `filter`: it would write a cache beside the rows' own files


def data_digest(dataset: Dataset) -> str:
    """SHA-256 over the number of rows, all lengths, and the whole of `SAMPLED_ROWS` rows.

    These rows are evenly spaced, so the time hardly depends on the size of the data.
    """
    digest = hashlib.sha256(str(len(dataset)).encode())
    digest.update(longest_sides(dataset).tobytes())
    places = np.unique(np.linspace(0, max(len(dataset) - 1, 0), SAMPLED_ROWS).astype(int))
    columns = [name for name in COLUMNS if name in dataset.column_names]
    for row in dataset.select_columns(columns).select(places) if len(dataset) else ():
        digest.update(json.dumps(row, sort_keys=True).encode())
    return digest.hexdigest()
