"""Marks data sets that are unchanged since the tokenization stage, which need no checks.

opened = from_tokenization(rows)        is_from_tokenization(opened) is True
other = opened.select(...), .map(...)   False: the fingerprint of `datasets` is another one
"""

from datasets import Dataset, IterableDataset


def from_tokenization(rows: Dataset) -> Dataset:
    """Marks the rows, by their fingerprint in `info.description`, and returns them."""
    rows.info.description = _mark(rows)
    return rows


def is_from_tokenization(rows: Dataset | IterableDataset) -> bool:
    """Whether the rows were marked and have not changed since."""
    return isinstance(rows, Dataset) and rows.info.description == _mark(rows)


def _mark(rows: Dataset) -> str:
    return f"made by the tokenization stage, fingerprint {rows._fingerprint}"  # pyright: ignore[reportPrivateUsage]
