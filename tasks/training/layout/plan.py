"""One micro-batch as one flat row of tokens: every prompt once, every answer once, no padding.

A group is the answers to one prompt: a pair, or the K answers of a comparison. Its tokens are

    tokens      p p p p a a a b b c c c      p: prompt, a b c: the rest of each answer
    positions   0 1 2 3 4 5 6 4 5 4 5 6      every answer continues where the prompt ends
    blocks      [0          ] [ 1 ] [ 2]     block 0 sees itself, others the prompt and themselves

and the groups of a micro-batch follow one another. The prompt is the longest run of ids that all
answers of the group begin with. It is found by comparing ids, as a tokenizer may merge across the
boundary in the text. Every answer keeps at least one token after it, at which its reward is read.
Without sharing, every sequence is a group of its own.

Legend: T tokens of the micro-batch, S sequences, A distinct answers, N blocks.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Block:
    """Consecutive rows: `own` tokens, which also see the first `prompt` tokens of block `home`.

    The first block of a group holds the prompt itself and the first answer; its `prompt` is 0.
    """

    own: int
    prompt: int
    home: int


@dataclass(frozen=True)
class FlatPlan:
    """The flat row, and where each sequence is in it."""

    input_ids: npt.NDArray[np.int64]
    """[T]"""
    position_ids: npt.NDArray[np.int64]
    """[T]"""
    blocks: tuple[Block, ...]
    """N blocks, in the order of the row; their `own` tokens sum to T."""
    last: npt.NDArray[np.int64]
    """[A], the row of every distinct answer's last token, ascending."""
    answer: npt.NDArray[np.int64]
    """[S], index in `last` of every sequence."""
    groups: tuple[Hashable, ...]
    """[S], the group of every sequence, as given to `flat_plan`."""


def flat_plan(sequences: Sequence[Ids], groups: Sequence[Hashable]) -> FlatPlan:
    """The plan of S non-empty sequences; those with equal `groups` share a prompt.

    Equal sequences of a group are in the row once.
    """
    members: dict[Hashable, dict[bytes, int]] = {}
    place = [
        members.setdefault(group, {}).setdefault(sequence_key(ids), len(members[group]))
        for ids, group in zip(sequences, groups, strict=True)
    ]
    first = dict(zip(members, np.cumsum([0, *map(len, members.values())]), strict=False))
    pieces: list[npt.NDArray[np.int64]] = []
    positions: list[npt.NDArray[np.int64]] = []
    blocks: list[Block] = []
    for keys in members.values():
        answers = [np.frombuffer(key, dtype=np.int64) for key in keys]
        prompt, home = shared_prefix(answers), len(blocks)
        for index, ids in enumerate(answers):
            start = prompt if index else 0
            pieces.append(ids[start:])
            positions.append(np.arange(start, len(ids), dtype=np.int64))
            blocks.append(Block(len(ids) - start, start, home))
    return FlatPlan(
        np.concatenate(pieces),
        np.concatenate(positions),
        tuple(blocks),
        np.cumsum([block.own for block in blocks], dtype=np.int64) - 1,
        np.asarray([first[g] + at for g, at in zip(groups, place, strict=True)], dtype=np.int64),
        tuple(groups),
    )


def shared_prefix(sequences: Sequence[Ids]) -> int:
    """How many tokens all sequences begin with; less than the shortest one has."""
    if len(sequences) == 1:
        return 0
    limit = min(map(len, sequences)) - 1
    head = sequences[0][:limit]
    for other in sequences[1:]:
        differs = np.flatnonzero(head != other[: len(head)])
        if len(differs):
            head = head[: differs[0]]
    return len(head)


def sequence_key(ids: Sequence[int] | Ids) -> bytes:
    """The ids' bytes as int64: equal for equal ids only."""
    return np.asarray(ids, dtype=np.int64).tobytes()


def key_rows(plan: FlatPlan) -> Iterator[npt.NDArray[np.int64]]:
    """For each block the rows that its queries may see: those of its prompt, then its own."""
    starts = np.cumsum([0, *(block.own for block in plan.blocks)])
    for index, block in enumerate(plan.blocks):
        home = starts[block.home]
        own = np.arange(starts[index], starts[index] + block.own, dtype=np.int64)
        yield np.concatenate([np.arange(home, home + block.prompt, dtype=np.int64), own])


def uses(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each row occurs among `keys`, which have every row at least once.

    First its first and (if any row has one) second place, int64 `[1 or 2, rows]`, -1 for none.
    Then row and place of every further use, int64 `[2, R]`: of prompts with three answers or more.
    """
    counts = np.bincount(keys)
    order = np.argsort(keys, kind="stable")
    turn = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    further = turn > 1
    first = np.full((min(int(counts.max()), 2), len(counts)), -1, dtype=np.int64)
    first[turn[~further], keys[order[~further]]] = order[~further]
    return first, np.stack([keys[order[further]], order[further]])
