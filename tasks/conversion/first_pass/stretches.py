"""Fingerprints of prompts, by which near duplicates are found (`leakage`): hashes of stretches.

In:  prompts in the form that groups are made of: lower case, runs of whitespace as one space.
Out: 32-bit hashes of some stretches of 64 bytes (about 13 words), and how many each prompt has.

    user · how much alcohol can i drink per day? · assistant · alcohol is a depressant, so it ...
               └──────────── 64 bytes ────────────┘
                          └──────────── 64 bytes ────────────┘

The eight bytes at a place decide whether a stretch begins there (content-defined sampling), so
prompts that share a passage share its stretches, wherever it stands. The longer a prompt, the
smaller the share of places that is taken: every prompt has about twenty stretches. A training
prompt has twice as many as a held-out one, so that all stretches of a held-out prompt are found in
training prompts of up to twice its length.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STRETCH = 64
LONGEST = 8192
"""Bytes of a prompt that are looked at."""
_LENGTHS = np.array([128, 256, 512, 1024, 2048])
_TAKEN = np.array([64, 32, 16, 8, 4, 2], np.uint8)
"""How many of 256 places are taken in a training prompt, for each of these lengths and beyond."""
_LOCAL = (np.uint8(0x4D), np.uint8(0xB5), np.uint8(0x65))
_MIX = np.uint64(0xD6E8FEB86659FD93)
_FACTORS = np.array(
    [(0x9E3779B97F4A7C15 * (2 * i + 1) ^ (i << 40)) % 2**64 | 1 for i in range(STRETCH // 8)],
    np.uint64,
)


def stretches(whole: bytes, starts: Array, ends: Array, held_out: Array) -> tuple[Array, Array]:
    """Hashes of stretches (`[h]` uint32) of the prompts at `whole[start:end]`, prompt by prompt,
    and how many each has; `held_out` says which of them are."""
    octets = np.frombuffer(whole, np.uint8)
    if len(octets) < STRETCH or not len(starts):
        return np.zeros(0, np.uint32), np.zeros(len(starts), np.int64)
    limit = _TAKEN[np.searchsorted(_LENGTHS, ends - starts)] >> held_out
    last = np.maximum(starts, np.minimum(ends, starts + LONGEST) - STRETCH + 1)
    # What lies between prompts, of which nothing is taken, and the places of a prompt: by turns.
    cuts = np.stack([starts, last], 1).ravel()
    limits = np.stack([np.zeros_like(limit), limit], 1).ravel()
    chance = _chances(octets)
    bounds = np.repeat(limits, np.diff(cuts, prepend=0))[: len(chance)]
    places = np.flatnonzero(chance[: len(bounds)] < bounds)
    counts = np.diff(np.searchsorted(places, cuts).reshape(-1, 2)).ravel()
    return _hashes(octets, places), counts


def _chances(octets: Array) -> Array:
    """A number from 0 to 255 for every place, hashed from the eight bytes there."""
    hashed = octets
    for step, factor in zip((1, 2, 4), _LOCAL, strict=True):
        hashed = hashed[:-step] * factor + hashed[step:]
    return hashed


def _hashes(octets: Array, places: Array) -> Array:
    """Hashes of the stretches that begin at these places."""
    every = np.ndarray((len(octets) - STRETCH + 1,), f"V{STRETCH}", octets, strides=(1,))
    words = every[places].view("<u8").reshape(-1, STRETCH // 8)
    words = words ^ words >> np.uint64(32)
    sums = words @ _FACTORS
    sums ^= sums >> np.uint64(29)
    sums *= _MIX
    return (sums >> np.uint64(32)).astype(np.uint32)


def stretches_of(prompts: Sequence[bytes], held_out: Array) -> tuple[Array, Array]:
    """`stretches` for a list of prompts; an empty prompt has none."""
    sizes = np.array([len(prompt) for prompt in prompts], np.int64)
    ends = np.cumsum(sizes)
    return stretches(b"".join(prompts), ends - sizes, ends, held_out)


def in_order(hashes: Array, counts: Array, order: Array) -> Array:
    """The hashes rearranged as the prompts are by `order`."""
    sizes = counts.astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    moved = sizes[order]
    shift = starts[order] - (np.cumsum(moved) - moved)
    return hashes[np.repeat(shift, moved) + np.arange(len(hashes))]


def without_repeats(hashes: Array, records: Array) -> tuple[Array, Array]:
    """The hashes and records without the hashes of a prompt whose predecessor is of its group."""
    counts = records["stretches"]
    new = np.ones(len(records), bool)
    np.not_equal(records["group"][1:], records["group"][:-1], out=new[1:])
    if new.all():
        return hashes, records
    kept = hashes[np.repeat(new, counts)]
    records = records.copy()
    records["stretches"][~new] = 0
    return kept, records
