"""Prompts held out that are nearly those trained on: how many, by the stretches that they share.

In:  the shards of pairs that are kept.
Out: a rate, for the report.

Equal prompts are of one group and so of one split; what is found here differs in a few words. A
prompt is known by some of its stretches of 64 bytes (about 13 words), those whose hash is divisible
by 8, whatever place they stand at. A held-out prompt is nearly one trained on where half of its
stretches stand in training prompts. Memory and time are bounded: of both splits, prompts spread
evenly over the shards are looked at.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

Array = npt.NDArray[Any]
STRETCH = 64
EVERY = 8
SHARED = 0.5
MOST_HELD_OUT = 2_000
MOST_TRAINED_ON = 20_000
LONGEST = 20_000
"""Bytes of a prompt that are looked at."""
_BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)


def near_duplicates(paths: Sequence[Path], train: int, held_out: int) -> dict[str, int]:
    """Held-out prompts looked at, and how many of them are nearly training prompts.

    `train` and `held_out` are how many pairs the shards hold of each.
    """
    prints = [
        found
        for text in _prompts(paths, "eval", -(-held_out // MOST_HELD_OUT))
        if len(found := stretches(text))
    ]
    if not prints:
        return {"looked_at": 0, "near_duplicates": 0}
    wanted = np.unique(np.concatenate(prints))
    seen = np.zeros(len(wanted), bool)
    for text in _prompts(paths, "train", -(-train // MOST_TRAINED_ON)):
        found = stretches(text)
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        seen[places[wanted[places] == found]] = True
    alike = sum(bool(seen[np.searchsorted(wanted, own)].mean() >= SHARED) for own in prints)
    return {"looked_at": len(prints), "near_duplicates": alike}


def stretches(text: bytes) -> Array:
    """Hashes of some of the text's stretches: the same ones wherever a stretch stands.

    The sums of byte * base^place mod 2^64, of which a difference is a stretch's own sum.
    """
    given = np.frombuffer(text[:LONGEST], np.uint8).astype(np.uint64)
    if len(given) < STRETCH:
        return np.empty(0, np.uint64)
    powers = _POWERS[: len(given)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(given * powers, dtype=np.uint64)])
    count = len(given) - STRETCH + 1
    # all brought to one exponent by the powers that are left to the end
    own = (sums[STRETCH:] - sums[:count]) * _POWERS[LONGEST - 1 - np.arange(count)]
    own = (own ^ (own >> np.uint64(31))) * _MIX
    own ^= own >> np.uint64(29)
    return np.unique(own[own % np.uint64(EVERY) == 0])


_POWERS = np.concatenate(
    [np.ones(1, np.uint64), np.cumprod(np.full(LONGEST - 1, _BASE, np.uint64), dtype=np.uint64)]
)


def _prompts(paths: Sequence[Path], split: str, every: int) -> Iterator[bytes]:
    """Every n-th prompt of a split, as its stored JSON without regard to case."""
    number, last = 0, None
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(2048, columns=["split", "prompt"]):
                for its_split, prompt in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    if its_split != split:
                        continue
                    number += 1
                    if (number - 1) % max(every, 1) == 0 and prompt and prompt != last:
                        last = prompt
                        yield prompt.lower().encode()
