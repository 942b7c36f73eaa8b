"""Prompts held out that are nearly those trained on: how many, by the stretches that they share.

In:  the shards of pairs that are kept.
Out: a rate, for the report.

Equal prompts are of one group and so of one split; what is found here differs in a few words. A
prompt is known by some of its stretches of 64 bytes (about 13 words): those that begin with a byte
divisible by 8, as a space is, whatever place they stand at. A held-out prompt is nearly one trained
on where half of its stretches stand in training prompts. Memory and time are bounded: of large data
every n-th row group is looked at, many prompts in one go.
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
_FILTER = 2**22
_IN_FILTER = np.uint64(_FILTER - 1)
"""Entries of the table that rules out most stretches before they are looked up."""


def near_duplicates(paths: Sequence[Path], train: int, held_out: int) -> dict[str, int]:
    """Held-out prompts looked at, and how many of them are nearly training prompts.

    `train` and `held_out` are how many pairs the shards hold of each.
    """
    found: list[Array] = []
    owners: list[Array] = []
    before = 0
    for texts in _prompts(paths, "eval", -(-held_out // MOST_HELD_OUT)):
        hashes, starts = _hashes(texts)
        found.append(hashes)
        ends = np.cumsum([len(text) for text in texts])
        owners.append(before + np.searchsorted(ends, starts, "right"))
        before += len(texts)
    if not before:
        return {"looked_at": 0, "near_duplicates": 0}
    wanted, places = np.unique(np.concatenate(found), return_inverse=True)
    seen = _seen(wanted, _prompts(paths, "train", -(-train // MOST_TRAINED_ON)))
    # Of every prompt each stretch once, however often it holds it.
    own = np.unique(np.concatenate(owners) * len(wanted) + places)
    prompts, each = np.divmod(own, max(1, len(wanted)))
    of_prompt = np.bincount(prompts, minlength=before)
    shared = np.bincount(prompts[seen[each]], minlength=before)
    looked_at = of_prompt > 0
    alike = shared[looked_at] >= SHARED * of_prompt[looked_at]
    return {"looked_at": int(looked_at.sum()), "near_duplicates": int(alike.sum())}


def _seen(wanted: Array, chunks: Iterator[list[bytes]]) -> Array:
    """Which of the sorted hashes are those of a stretch of these texts."""
    seen = np.zeros(len(wanted), bool)
    slots = wanted & _IN_FILTER
    _, kinds, counts = np.unique(slots, return_inverse=True, return_counts=True)
    alone = counts[kinds] == 1
    likely = np.zeros(_FILTER, bool)
    likely[slots] = True
    for texts in chunks:
        found = _hashes(texts)[0]
        found = found[likely[found & _IN_FILTER]]
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        places = places[wanted[places] == found]
        seen[places] = True
        likely[slots[places[alone[places]]]] = False  # what is known is not looked up again
    return seen


def stretches(text: bytes) -> Array:
    """Hashes of some of the text's stretches, sorted: the same ones wherever a stretch stands."""
    return np.unique(_hashes([text[:LONGEST]])[0])


def _hashes(texts: Sequence[bytes]) -> tuple[Array, Array]:
    """Hashes of stretches of all texts, and where they begin in the texts laid end to end.

    Of sums of byte * base^place mod 2^64 a difference is a stretch's own sum, which base^-place
    brings to one exponent.
    """
    given = np.frombuffer(b"".join(texts).lower(), np.uint8)
    begins = given & 7 == 0
    end = 0
    for text in texts:  # none reaches into the next text
        begins[max(end, end + len(text) - STRETCH + 1) : end + len(text)] = False
        end += len(text)
    starts = np.flatnonzero(begins)
    powers, inverses = _powers(len(given))
    sums = np.zeros(len(given) + 1, np.uint64)
    np.multiply(given, powers, out=sums[1:])
    np.cumsum(sums, out=sums)
    own = (sums[STRETCH:][starts] - sums[starts]) * inverses[starts]
    own ^= own >> np.uint64(31)
    own *= _MIX
    own ^= own >> np.uint64(29)
    return own, starts


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
    """The prompts of a split in every n-th row group, as their stored JSON without regard to ASCII
    case; in chunks. Groups that are not looked at are not read."""
    number, last = -1, b""
    texts: list[bytes] = []
    size = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                number += 1
                if number % max(every, 1):
                    continue
                for prompt in _of_split(file, group, split):
                    if not prompt or prompt == last:
                        continue
                    last = prompt
                    texts.append(prompt)
                    size += len(prompt)
                    if size >= CHUNK:
                        yield texts
                        texts, size = [], 0
    if texts:
        yield texts


def _of_split(file: pq.ParquetFile, group: int, split: str) -> list[bytes | None]:
    """The prompts of one split in a row group, from each no more than is looked at."""
    compute: Any = pc
    table: Any = file.read_row_group(group, columns=["split", "prompt"], use_threads=False)
    rows = table.filter(compute.equal(table["split"], split))
    prompts = compute.binary_slice(rows["prompt"].cast(pa.binary()), 0, LONGEST)
    return prompts.to_pylist()
