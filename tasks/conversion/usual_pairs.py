"""The pairs of usual rows, by columns: what `identity` and `tables` make of them one by one.

In:  usual rows (`usual`), and the source, file and row of each.
Out: their pairs as a batch of the shard, and the records by which duplicates are found.

Only what has to be hashed is handled text by text, and hashed once each; what is then made of the
hashes is made of all of them at once.
"""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.conversion import tables
from tasks.conversion.identity import DIGEST_BYTES, folded_bytes
from tasks.conversion.usual import Usual

Array = npt.NDArray[Any]
_BETWEEN = b"\xff"
"""Stands in no UTF-8 text, nor does a space ever touch it."""
_HEX = 2 * DIGEST_BYTES


def usual_pairs(
    usual: Sequence[Usual], origins: pa.RecordBatch, source: int, seed: int, eval_fraction: float
) -> tuple[pa.RecordBatch, Array]:
    """Pairs (`tables.SCHEMA`) and records (`tables.KEYS`) of rows that all are of one source.

    `origins` has their source, file and row; `source` is its number.
    """
    _, prompts, chosen, rejected, texts, turns, compared, longer = zip(*usual, strict=True)
    ids = b"".join(_digests(texts))
    folded = folded_bytes(_BETWEEN.join(turns)).split(_BETWEEN)
    groups = b"".join(_digests([b"prompt\0" + text for text in folded]))
    contexts = _digests([asked + b"\0\0" for asked, _, _ in compared])
    sides = zip(contexts, compared, strict=True)
    answers = [(b"%b\0%b" % (c, a), b"%b\0%b" % (c, b)) for c, (_, a, b) in sides]
    better, worse = (_halves(_digests(side)) for side in zip(*answers, strict=True))
    held_out = _held_out(groups.hex(), seed, eval_fraction)
    count = len(usual)
    columns: dict[str, Any] = {
        "pair_id": _hex_strings(ids, count),
        "prompt": _strings(prompts),
        "chosen": _strings(chosen),
        "rejected": _strings(rejected),
        "format": pa.repeat("conversational", count),
        "weight": pa.repeat(1.0, count),
        "preference": pa.repeat(1.0, count),
        **{name: origins.column(name) for name in ("source", "file", "row")},
        "group": _hex_strings(groups, count),
        "split": pa.DictionaryArray.from_arrays(
            pa.array(held_out.astype(np.int8)), pa.array(["train", "eval"])
        ).dictionary_decode(),
    }
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in _FIELDS]
    records = np.zeros(count, tables.KEYS)
    records["high"], records["low"] = _keys(better, worse)
    records["exact"] = np.frombuffer(ids, ">u4")[::4]
    records["margin"] = tables.print_of(None, 1.0)
    records["group"] = np.frombuffer(groups, ">u8")[::2]
    records["source"] = source
    records["longer"] = np.sign(np.array(longer, np.int64))
    records["eval"] = held_out
    records["conversational"] = True
    records["better"], records["worse"] = better[:, 0], worse[:, 0]
    return pa.RecordBatch.from_arrays(arrays, schema=tables.SCHEMA), records


_FIELDS: list[Any] = list(tables.SCHEMA)


def _digests(texts: Iterable[bytes]) -> list[bytes]:
    return [blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts]


def _halves(digests: Iterable[bytes]) -> Array:
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def _keys(better: Array, worse: Array) -> tuple[Array, Array]:
    """`Identity.key` in two halves: the same either way round, but for the lowest bit."""
    one = np.uint64(1)
    later = (better[:, 0] > worse[:, 0]) | (
        (better[:, 0] == worse[:, 0]) & (better[:, 1] > worse[:, 1])
    )
    both = better ^ worse
    return both[:, 0], (both[:, 1] & ~one) | later.astype(np.uint64)


def _held_out(groups: str, seed: int, eval_fraction: float) -> Array:
    """`identity.split_of` of every group, given end to end as hex: whether it is held out."""
    given, before = groups.encode(), f"{seed}:".encode()
    drawn = [
        blake2b(before + given[i : i + _HEX], digest_size=8).digest()
        for i in range(0, len(given), _HEX)
    ]
    bound = math.ceil(eval_fraction * 2**64)  # of whole numbers, the same ones are below it
    return np.frombuffer(b"".join(drawn), ">u8") < np.uint64(bound)


def _strings(texts: Sequence[bytes]) -> Any:
    return pa.array(texts, pa.binary()).view(pa.string())


def _hex_strings(digests: bytes, count: int) -> Any:
    offsets = np.arange(0, _HEX * (count + 1), _HEX, dtype=np.int32)
    data = pa.py_buffer(digests.hex().encode())
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)
