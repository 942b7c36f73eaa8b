"""Checks, before training, that the rows of a dataset hold what the loss reads.

The rows of a stream cannot be looked through; the collator checks each of them.
"""

import numpy as np
import numpy.typing as npt
from datasets import Dataset, IterableDataset

from tasks.conversion.preference.pair import TIE
from tasks.errors import DataError, ParamsError
from tasks.training.batches.columns import numbers
from tasks.training.batches.comparisons import Comparisons, comparison_ids, ranking
from tasks.training.loss.params import (
    NEED_MARGIN,
    READ_TIES,
    REFUSE_MARGIN,
    REFUSE_SOFT,
    LossParams,
    soft_labels,
)


def check_rows(rows: Dataset | IterableDataset, loss: LossParams, name: str) -> None:
    """Checks a dataset with canonical column names against the loss.

    Raises:
        ParamsError: the loss does not use the margins that the rows have, or needs whole
            comparisons, which a stream does not give.
        DataError: rows lack what the loss needs; says how many, and names the first.
    """
    kind = loss.type
    if isinstance(rows, IterableDataset):
        if loss.of_comparisons:
            raise ParamsError(
                f"loss type {kind} keeps the pairs of a comparison together, and a stream cannot "
                "be looked through for them; load the dataset whole, or use bradley_terry"
            )
        return
    margin, preference = (numbers(rows, n, np.nan, name) for n in ("margin", "preference"))
    absent, soft = np.flatnonzero(np.isnan(margin)), np.flatnonzero(preference < 1)
    if kind in READ_TIES:
        soft = soft[preference[soft] != TIE]
    having = np.flatnonzero(~np.isnan(margin))
    if kind in REFUSE_MARGIN and loss.margin == "use" and len(having):
        raise ParamsError(
            f"loss type {kind} does not use margins, but {len(having)} of {len(rows)} rows of the "
            f"{name} dataset have one (the first is {_named(rows, having)}); set margin: ignore in "
            "the loss section"
        )
    if kind in NEED_MARGIN and len(absent):
        raise DataError(
            f"loss type {kind} needs margins, but {len(absent)} of {len(rows)} rows of the "
            f"{name} dataset have none (the first is {_named(rows, absent)}); leave those rows out"
        )
    if kind in REFUSE_SOFT and len(soft):
        raise DataError(
            f"loss type {kind} cannot use {soft_labels(kind)}, but {len(soft)} of {len(rows)} rows "
            f"of the {name} dataset have such a preference (the first is {_named(rows, soft)}); "
            "use bradley_terry or davidson, or leave those rows out"
        )
    if loss.of_comparisons:
        _check_comparisons(rows, loss, name)


def _named(rows: Dataset, places: npt.NDArray[np.int64]) -> str:
    return f"pair {rows[int(places[0])].get('pair_id')}"


def _check_comparisons(rows: Dataset, loss: LossParams, name: str) -> None:
    if name == "train" and all(c is None for c in comparison_ids(rows)):
        raise DataError(
            f"loss type {loss.type} is over lists of ranked answers, but no row of the {name} "
            "dataset has a `comparison`; give the pairs of one list a common one, or use "
            "bradley_terry"
        )
    if loss.type == "plackett_luce":
        comparisons = Comparisons(rows)
        for index, group in enumerate(comparisons.groups):
            if len(group) > 1:  # one pair alone is an order, or a tie
                ranking(comparisons[index])
