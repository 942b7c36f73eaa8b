"""Filters unusable rows out of a stream.

Only the first one is logged, when it comes: a stream may have no end, so no final count either.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from datasets import IterableDataset

from tasks.tokenization.shards import IDS

logger = logging.getLogger(__name__)

Ids = Sequence[int]
Reason = Callable[[Ids, Ids], str]
"""Token ids of both sides of a pair -> why it cannot be used; empty if it can."""


@dataclass
class UsableRows:
    """Filter function: True for usable pairs. Logs the first unusable one."""

    reason: Reason
    has_logged: bool = False

    def __call__(self, chosen: Ids, rejected: Ids, pair_id: str) -> bool:
        reason = self.reason(chosen, rejected)
        if reason and not self.has_logged:
            self.has_logged = True
            logger.warning("a row of the stream is not used: %s: %s", pair_id, reason)
        return not reason


def usable_rows(rows: IterableDataset, reason: Reason) -> IterableDataset:
    """The rows for which `reason` is empty."""
    return rows.filter(UsableRows(reason), input_columns=[*IDS, "pair_id"])
