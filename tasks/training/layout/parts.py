"""Blocks (plan.py) in chunks of queries, each with the keys up to its own last one.

torch's kernel for CPUs computes up to 512 keys for every query, also those that it then masks: half
of a causal square for nothing. In chunks it is less:

    keys        p p p p b b b b b b
    chunk 0     s s s s s s .               s: computed and seen
    chunk 1     s s s s s s s s .           .: computed and masked
    chunk 2     s s s s s s s s s .

Where only the pooled rows are asked for, a block's one chunk is its last row.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tasks.training.layout.plan import Block

CHUNK = 192
"""Queries of the smallest chunk of a block that has several: of fewer the kernel computes 32 at
once, of these 64, which on an Intel processor is half as fast again."""


class Rows(NamedTuple):
    """Neighbours in the flat row."""

    first: int
    size: int


class Chunk(NamedTuple):
    """Queries that are computed at once."""

    queries: Rows
    seen: int
    """Keys of the part that they are computed with, from its first on."""


class Part(NamedTuple):
    """A block's queries and keys."""

    keys: tuple[Rows, ...]
    """The prompt's, if it lies in another block, and the block's own."""
    chunks: tuple[Chunk, ...]
    """In the order of the row; the last one sees all keys."""


def parts_of(blocks: Sequence[Block], *, pooled: bool) -> list[Part]:
    """One part for each block, in their order; `pooled`: only the last row of each is a query."""
    starts = [0, *accumulate(block.own for block in blocks)]
    parts: list[Part] = []
    for block, start in zip(blocks, starts, strict=False):
        keys = [Rows(starts[block.home], block.prompt)] if block.prompt else []
        count = max(1, block.own // CHUNK)
        cuts = [block.own * index // count for index in range(count + 1)]
        if pooled:
            cuts = [block.own - 1, block.own]
        chunks = (
            Chunk(Rows(start + begin, end - begin), block.prompt + end)
            for begin, end in pairwise(cuts)
        )
        parts.append(Part((*keys, Rows(start, block.own)), tuple(chunks)))
    return parts
