"""Cuts the queries of each block (plan.py) into chunks, each computed with the keys up to its last.

torch's attention kernel for CPUs computes up to 512 keys for every query, including those that it
then masks, so half of a causal square is computed for nothing. In chunks it is less:

    keys        p p p p b b b b b b
    chunk 0     s s s s s s .               s: computed and seen
    chunk 1     s s s s s s s s .           .: computed and masked
    chunk 2     s s s s s s s s s .

Where only the pooled rows are needed, a block has a single chunk: its last row.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tasks.training.layout.plan import Block

CHUNK = 192
"""Minimum queries of a chunk, if a block has several chunks. Below it the kernel computes 32
queries at a time instead of 64, which on an Intel processor is a third slower."""


class Rows(NamedTuple):
    """Consecutive rows of the flat row: the first, and how many."""

    first: int
    size: int


class Chunk(NamedTuple):
    """Queries that are computed in one call of the kernel."""

    queries: Rows
    seen: int
    """How many of the part's keys, from its first on, they are computed with."""


class Part(NamedTuple):
    """The keys of one block, and its queries in chunks."""

    keys: tuple[Rows, ...]
    """Those of the prompt, if it lies in another block, then the block's own."""
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
