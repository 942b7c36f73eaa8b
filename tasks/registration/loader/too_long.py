"""Rows of more tokens than the model reads: refused, or scored without their start.

Travels inside the registered model: it may import only modules that travel with it.
"""

import logging
from typing import Any, Literal

import numpy as np

from tasks.templating.tokenizer.own_tokens import end_of
from tasks.training.model.positions import check_lengths, longest_row, positions, why_no_more

logger = logging.getLogger(__name__)

TooLong = Literal["error", "cut_start"]
"""What is done with such a row: `error`, or only its end is scored and a warning counts it."""


def fitting(
    ids: list[list[int]], config: Any, too_long: TooLong, tokenizer: Any
) -> list[list[int]]:
    """The rows, none longer than the model of this `config` reads.

    Raises:
        ValueError: one is, and is not to be cut.
    """
    if too_long == "error":
        check_lengths(ids, positions(config), why_no_more(config))
        return ids
    most = longest_row(config)
    longer = [n for n, row in enumerate(ids) if most is not None and len(row) > most]
    if most is None or not longer:
        return ids
    message = "%d of %d rows have more than %d tokens, and are scored without their start: first %d"
    logger.warning(message, len(longer), len(ids), most, longer[0])
    ends = {n: end_of(np.asarray(ids[n]), most, tokenizer).tolist() for n in longer}
    return [ends.get(n, row) for n, row in enumerate(ids)]
