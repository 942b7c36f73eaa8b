"""The model's own reward of answers cut short: does it read past the opening?

Each side keeps what both share (the prompt), the first tokens of its own, and the closing tokens
that every sequence of its source ends in (the template's end, or EOS), where the reward is read.
If so little suffices for the same verdicts, the rest of an answer is not judged. Costs one more
pass over sequences that are at most as long; answers that are short already are not scored again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.evaluation.scoring.score import RewardScorer
from tasks.evaluation.scoring.windows import read_windows
from tasks.evaluation.tables.table import TokenIds, sequences

SIDES = ("chosen", "rejected")
MOST_CLOSING = 8
"""Longest closing looked for: answers that all end in the same words must not count as one."""

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("first_tokens", pa.int32()),
        ("reward_chosen", pa.float32()),
        ("reward_rejected", pa.float32()),
    ]
)


def closing_tokens(files: Sequence[Path]) -> dict[str, TokenIds]:
    """Per source, the last token ids that all its sequences have in common, at most 8."""
    common: dict[str, TokenIds] = {}
    for window in read_windows(files):
        sources = window["source"].to_pylist()
        for side in SIDES:
            for source, ids in zip(sources, sequences(window[f"{side}_input_ids"]), strict=True):
                known = common.get(source)
                common[source] = _common_end(ids if known is None else known, ids)
    return common


def _common_end(first: TokenIds, second: TokenIds) -> TokenIds:
    most = min(len(first), len(second), MOST_CLOSING)
    if most == 0:
        return first[:0].copy()
    differing = np.flatnonzero(first[-most:][::-1] != second[-most:][::-1])
    same = int(differing[0]) if len(differing) else most
    return first[len(first) - same :].copy()


def cut(ids: TokenIds, shared: int, first: int, closing: TokenIds) -> TokenIds:
    """`ids [T]` with at most `first` tokens between the `shared` ones and the closing."""
    end = len(ids) - len(closing)
    return ids if end - shared <= first else np.concatenate([ids[: shared + first], closing])


def truncated_window(
    scorer: RewardScorer,
    pairs: pa.Table,
    scored: pa.Table,
    first: int,
    closing: dict[str, TokenIds],
) -> pa.Table:
    """The rewards of one window's cut pairs; `scored` is the window's score table, whose rewards
    stand where nothing was cut."""
    sources, shared = pairs["source"].to_pylist(), pairs["shared_prefix_length"].to_pylist()
    columns = {name: pairs[name] for name in ("pair_id", "source")}
    whole = [sequences(pairs[f"{side}_input_ids"]) for side in SIDES]
    short = [
        [cut(i, s, first, closing[n]) for i, s, n in _zip(ids, shared, sources)] for ids in whole
    ]
    rewards = [scored[f"reward_{side}"].to_numpy().copy() for side in SIDES]
    places = [
        (s, row) for s in (0, 1) for row, ids in enumerate(short[s]) if ids is not whole[s][row]
    ]
    found = scorer.rewards([short[s][row] for s, row in places]) if places else []
    for (side, row), reward in zip(places, found, strict=True):
        rewards[side][row] = reward
    return pa.table(
        columns
        | {"first_tokens": pa.repeat(first, len(pairs))}
        | {f"reward_{side}": values for side, values in zip(SIDES, rewards, strict=True)}
    ).cast(SCHEMA)


def _zip(
    ids: list[TokenIds], shared: list[int], sources: list[str]
) -> Iterable[tuple[TokenIds, int, str]]:
    return zip(ids, shared, sources, strict=True)
