"""Tokenizes data sets of raw preference rows; rows that cannot be used are dropped and logged."""

import logging
from collections.abc import Sequence
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
    policy: Policy = "quarantine",
) -> Rows:
    """The rows that can be used, with their token ids, `TERMS` and `pair_id`.

    Raises:
        DataError: no row can be used; says why.
        TemplateError: the rows are conversations, and the tokenizer has no chat template.
    """
    kept = [column for column in (*TERMS, "pair_id") if column in columns]
    streams = isinstance(dataset, IterableDataset)
    work = RawPairs(tokenizer, max_length, kept, policy, as_it_comes=streams)
    settings: dict[str, Any] = {
        "batched": True,
        "with_indices": True,
        "remove_columns": list(columns),
        "features": work.features,
    }
    if isinstance(dataset, IterableDataset):
        mapped = dataset.map(work, **settings).filter(_is_used, input_columns=REASON)
        return mapped.remove_columns([REASON, MESSAGE])
    # the cache of `datasets` knows nothing of a change to these functions
    mapped = dataset.map(
        work.table,
        **settings,
        num_proc=processes,
        load_from_cache_file=False,
        desc=f"Tokenizing {name}",
    )
    reasons: Any = mapped.select_columns([REASON]).with_format("arrow")[:]
    unused = [place for place, reason in enumerate(reasons[REASON].to_pylist()) if reason]
    if unused:
        _report(mapped, unused, name)
        used = set(range(len(mapped))).difference(unused)
        mapped = mapped.select(sorted(used))
    return mapped.remove_columns([REASON, MESSAGE])


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


def _is_used(reason: str) -> bool:
    return not reason
