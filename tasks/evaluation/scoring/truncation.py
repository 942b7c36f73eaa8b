"""The model's own reward of answers cut short: does it read past the opening?

Each side keeps what both share (the prompt), the first tokens of its own, and the closing tokens
that every sequence of its source ends in (the template's end, or EOS), where the reward is read.
If so little suffices for the same verdicts, the rest of an answer is not judged. Costs one more
pass over sequences that are at most as long; answers that are short already are not scored again.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.evaluation.scoring.score import RewardScorer
from tasks.evaluation.scoring.windows import read_windows
from tasks.evaluation.tables.scores import SIDES, TokenIds, sequences

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
    n, shared = len(pairs), pairs["shared_prefix_length"].to_pylist()
    ends = [closing[source] for source in pairs["source"].to_pylist()]
    whole = [ids for side in SIDES for ids in sequences(pairs[f"{side}_input_ids"])]  # 2N
    short = [cut(i, s, first, end) for i, s, end in zip(whole, 2 * shared, 2 * ends, strict=True)]
    rewards = np.concatenate([scored[f"reward_{side}"].to_numpy() for side in SIDES])
    places = [place for place, ids in enumerate(short) if ids is not whole[place]]
    if places:
        rewards[places] = scorer.rewards([short[place] for place in places])
    return pa.table(
        {
            "pair_id": pairs["pair_id"],
            "source": pairs["source"],
            "first_tokens": pa.repeat(first, n),
            "reward_chosen": rewards[:n],
            "reward_rejected": rewards[n:],
        }
    ).cast(SCHEMA)
