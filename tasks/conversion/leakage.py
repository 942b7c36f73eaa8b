"""Prompts held out that are nearly those trained on: how many, by the stretches that they share.

In:  the shards of pairs that are kept.
Out: a rate, for the report.

Equal prompts are of one group and so of one split; what is found here differs in a few words. A
prompt is known by some of its stretches of 64 bytes (about 13 words): those that begin with a byte
divisible by 8, as a space is, whatever place they stand at. A held-out prompt is nearly one trained
on where half of its stretches stand in training prompts. Memory and time are bounded: of both
splits, prompts spread evenly over the shards are looked at, many in one go.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Array = npt.NDArray[Any]
STRETCH = 64
SHARED = 0.5
MOST_HELD_OUT = 2_000
MOST_TRAINED_ON = 20_000
LONGEST = 20_000
"""Bytes of a prompt that are looked at."""
CHUNK = 2**17
"""Bytes of prompts that are hashed in one go, at least: what fits a processor's cache."""
_BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_FILTER = 2**20
"""Entries of the table that rules out most stretches before they are looked up."""


def near_duplicates(paths: Sequence[Path], train: int, held_out: int) -> dict[str, int]:
    """Held-out prompts looked at, and how many of them are nearly training prompts.

    `train` and `held_out` are how many pairs the shards hold of each.
    """
    prints: list[Array] = []
    for texts in _prompts(paths, "eval", -(-held_out // MOST_HELD_OUT)):
        found, owners = _stretches(texts)
        prints += [each for i in range(len(texts)) if len(each := np.unique(found[owners == i]))]
    if not prints:
        return {"looked_at": 0, "near_duplicates": 0}
    wanted = np.unique(np.concatenate(prints))
    likely = np.zeros(_FILTER, bool)
    likely[wanted % np.uint64(_FILTER)] = True
    seen = np.zeros(len(wanted), bool)
    for texts in _prompts(paths, "train", -(-train // MOST_TRAINED_ON)):
        found, _ = _stretches(texts)
        found = found[likely[found % np.uint64(_FILTER)]]
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        seen[places[wanted[places] == found]] = True
    alike = sum(bool(seen[np.searchsorted(wanted, own)].mean() >= SHARED) for own in prints)
    return {"looked_at": len(prints), "near_duplicates": alike}


def stretches(text: bytes) -> Array:
    """Hashes of some of the text's stretches, sorted: the same ones wherever a stretch stands."""
    return np.unique(_stretches([text[:LONGEST]])[0])


def _stretches(texts: Sequence[bytes]) -> tuple[Array, Array]:
    """The same of many texts, and the place of the text that each is of.

    Of sums of byte * base^place mod 2^64 a difference is a stretch's own sum, which base^-place
    brings to one exponent.
    """
    sizes = np.array([len(text) for text in texts], np.int64)
    given = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum(sizes)
    starts = np.flatnonzero(given & 7 == 0)
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    starts, owners = (
        each[starts <= np.repeat(ends - STRETCH, counts)]
        for each in (starts, np.repeat(np.arange(len(texts)), counts))
    )
    powers, inverses = _powers(len(given))
    sums = np.zeros(len(given) + 1, np.uint64)
    np.cumsum(given * powers, out=sums[1:])
    own = (sums[starts + STRETCH] - sums[starts]) * inverses[starts]
    own = (own ^ (own >> np.uint64(31))) * _MIX
    own ^= own >> np.uint64(29)
    return own, owners


def _powers(count: int) -> tuple[Array, Array]:
    """base^place and base^-place, from place 0."""
    size = CHUNK + LONGEST
    if not _known:
        for base in (_BASE, pow(_BASE, -1, 2**64)):
            steps = np.full(size, base, np.uint64)
            steps[0] = 1
            _known.append(np.cumprod(steps, dtype=np.uint64))
    return _known[0][:count], _known[1][:count]


_known: list[Array] = []


def _prompts(paths: Sequence[Path], split: str, every: int) -> Iterator[list[bytes]]:
    """Every n-th prompt of a split, as its stored JSON without regard to ASCII case; in chunks."""
    before, last = 0, None
    texts: list[bytes] = []
    size = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(2048, columns=["split", "prompt"], use_threads=False):
                prompts = _of_split(batch, split)
                start = -before % max(every, 1)
                before += len(prompts)
                for prompt in prompts[start :: max(every, 1)].to_pylist():
                    if not prompt or prompt == last:
                        continue
                    last = prompt
                    texts.append(prompt[:LONGEST].lower())
                    size += len(texts[-1])
                    if size >= CHUNK:
                        yield texts
                        texts, size = [], 0
    if texts:
        yield texts


def _of_split(batch: pa.RecordBatch, split: str) -> Any:
    """The prompts of one split, as bytes."""
    compute: Any = pc
    mask = compute.equal(batch.column("split"), split)
    return batch.column("prompt").filter(mask).cast(pa.binary())
