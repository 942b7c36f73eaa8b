"""Whether rows are just as the tokenization stage left them: then nothing of them is checked anew.

opened = from_tokenization(rows)  ->  is_from_tokenization(opened), but not of what is made of
it: `opened.select(...)`, `opened.map(...)` and so on have other fingerprints
"""

from datasets import Dataset, IterableDataset


def from_tokenization(rows: Dataset) -> Dataset:
    """The rows, known to `is_from_tokenization` from here on."""
    rows.info.description = _mark(rows)
    return rows


def is_from_tokenization(rows: Dataset | IterableDataset) -> bool:
    """Whether the rows are as the tokenization stage left them."""
    return isinstance(rows, Dataset) and rows.info.description == _mark(rows)


def _mark(rows: Dataset) -> str:
    return f"made by the tokenization stage, fingerprint {rows._fingerprint}"  # pyright: ignore[reportPrivateUsage]
