"""Tokenizes data sets of raw preference rows; rows that cannot be used are dropped and logged."""

import logging
from collections.abc import Sequence
from operator import not_
from typing import Any, TypeVar

from datasets import Dataset, IterableDataset

from tasks.errors import DataError
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.batches.raw_pairs import MESSAGE, REASON, TERMS, RawPairs

logger = logging.getLogger(__name__)

Rows = TypeVar("Rows", Dataset, IterableDataset)


def tokenize_rows(
    dataset: Rows,
    columns: Sequence[str],
    tokenizer: Any,
    name: str,
    max_length: int | None,
    processes: int | None,
    policy: Policy,
) -> Rows:
    """The usable rows: `pair_id`, token ids, and those of `TERMS` that `columns` names.

    Raises:
        DataError: no row can be used.
        TemplateError: the rows are conversations, and the tokenizer has no chat template.
    """
    kept = [term for term in TERMS if term in columns]
    is_stream = isinstance(dataset, IterableDataset)
    raw_pairs = RawPairs(tokenizer, max_length, kept, policy, is_stream=is_stream)
    settings: dict[str, Any] = {
        "batched": True,
        "with_indices": True,
        "remove_columns": list(columns),
        "features": raw_pairs.features,
    }
    if isinstance(dataset, IterableDataset):
        mapped = dataset.map(raw_pairs, **settings).filter(not_, input_columns=REASON)
        return mapped.remove_columns([REASON, MESSAGE])
    mapped = dataset.map(
        raw_pairs.table,
        **settings,
        num_proc=processes,
        load_from_cache_file=False,  # it would survive a change to the pipeline's functions
        desc=f"Tokenizing {name}",
    )
    return _used(mapped, name).remove_columns([REASON, MESSAGE])


def _used(mapped: Dataset, name: str) -> Dataset:
    """The rows without a reason against them; the others are logged."""
    table: Any = mapped.select_columns([REASON]).with_format("arrow")[:]
    reasons = table[REASON].to_pylist()
    unused = [place for place, reason in enumerate(reasons) if reason]
    if not unused:
        return mapped
    _report(mapped, unused, name)
    return mapped.select([place for place, reason in enumerate(reasons) if not reason])


def _report(mapped: Dataset, unused: list[int], name: str) -> None:
    rows = mapped.select_columns([REASON, MESSAGE]).select(unused)
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for reason, message in zip(rows[REASON], rows[MESSAGE], strict=True):
        counts[reason] = counts.get(reason, 0) + 1
        first.setdefault(reason, message)
    listed = ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))
    text = f"{name}: {len(unused)} of {len(mapped)} rows are not used: {listed}"
    examples = "; ".join(first.values())
    if len(unused) == len(mapped):
        raise DataError(f"{text}. No row is left: {examples}")
    logger.warning("%s (%s)", text, examples)
