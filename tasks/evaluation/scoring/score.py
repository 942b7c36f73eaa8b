"""Rewards of every pair of a split: float32, in the split's order, in bounded memory.

In: `<split>/*.arrow` of tokenization and a reward model directory. Out: score tables, see
`tables/scores.py`. Within a window of pairs (`windows.py`) sequences that begin alike lie in one
flat row, without padding and with what they share computed once, where that is exact for the model;
else they are sorted by length and padded to the longest of their batch. The rewards go back to
their places: a reward depends on its own tokens, not on its neighbours.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifact.memory import large_buffers_kept
from tasks.errors import ModelError
from tasks.evaluation.scoring.windows import read_windows
from tasks.evaluation.tables.scores import Rewards, TokenIds, score_table, sequences
from tasks.model.bars import without_bars
from tasks.training.layout.grouping import shared_groups
from tasks.training.layout.plan import flat_plan
from tasks.training.layout.rectangle import rectangle

MOST_TOKENS = 16_384
"""Tokens in one forward pass, unless a single sequence has more: what bounds memory where texts are
long, as `batch_size` does where they are short."""


class RewardScorer:
    """A reward model in float32 on one device, ready to score token ids; threads may share it.

    Raises:
        ModelError: the directory does not hold a reward model.
    """

    def __init__(
        self, model_directory: Path, *, batch_size: int = 16, device: str | None = None
    ) -> None:
        import torch

        from tasks.training import load_reward_model
        from tasks.training.layout.support import make_flat

        self.model_directory = model_directory
        self.batch_size = batch_size
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        with without_bars():
            loaded = load_reward_model(model_directory, dtype=torch.float32, need_head=True)
        self.model: Any = loaded.model
        self.model.to(self.device).eval()
        self.pad_id = int(self.model.config.pad_token_id or 0)
        self.flat = make_flat(self.model) is None
        self.scoring = Lock()
        """One call at a time: a flat pass switches the model's attention over and back."""

    @property
    def most_tokens(self) -> int | None:
        """Tokens of the longest sequence that can be scored, as far as the config tells."""
        from tasks.training.model.positions import longest_row

        return longest_row(self.model.config)

    def rewards(self, sequences: Sequence[TokenIds | Sequence[int]]) -> Rewards:
        """float32 `[N]`: the reward of each sequence of token ids, in the order given."""
        import torch

        # Equal ids get one forward pass: in two rows of a batch they may differ in the last bit,
        # and a pair of equal sides would be no tie.
        places: dict[bytes, int] = {}
        rows = (np.asarray(ids, np.int32).tobytes() for ids in sequences)
        place = [places.setdefault(ids, len(places)) for ids in rows]
        distinct = [np.frombuffer(ids, dtype=np.int32) for ids in places]
        rewards = np.empty(len(distinct), dtype=np.float32)
        kept = large_buffers_kept(kept=self.device == "cpu")
        with self.scoring, torch.inference_mode(), _exact_float32(self.device), kept:
            for batch in self._batches(distinct):
                rewards[batch] = self._batch([distinct[i] for i in batch])
        return rewards[place]

    def _batches(self, sequences: list[TokenIds]) -> Iterator[list[int]]:
        """Places of what is scored together; the longest first: what does not fit fails at once.

        In a flat row sequences of one prompt stay together; a padded batch holds equal lengths.
        """
        if not self.flat:
            yield from longest_first(sequences, self.batch_size)
            return
        groups: dict[int, list[int]] = {}
        for place, group in enumerate(shared_groups(sequences)):
            groups.setdefault(group, []).append(place)
        pieces = [
            [members[i] for i in part]
            for members in groups.values()
            for part in longest_first([sequences[i] for i in members], self.batch_size)
        ]
        batch: list[int] = []
        tokens = 0
        for piece in sorted(pieces, key=lambda p: -max(len(sequences[i]) for i in p)):
            more = sum(len(sequences[i]) for i in piece)
            if batch and (len(batch) + len(piece) > self.batch_size or tokens + more > MOST_TOKENS):
                yield batch
                batch, tokens = [], 0
            batch, tokens = batch + piece, tokens + more
        if batch:
            yield batch

    def _batch(self, sequences: list[TokenIds]) -> Rewards:
        import torch

        from tasks.training import score
        from tasks.training.scoring import score_flat

        if self.flat:
            plan = flat_plan(sequences, shared_groups(sequences))
            return score_flat(self.model, plan).float().cpu().numpy()
        tensors = (
            torch.from_numpy(array).to(self.device) for array in rectangle(sequences, self.pad_id)
        )  # (B, T) each
        return score(self.model, *tensors).float().cpu().numpy()


def longest_first(sequences: Sequence[TokenIds], batch_size: int) -> Iterator[list[int]]:
    """Places of what is padded to one length: at most `batch_size` sequences, and `MOST_TOKENS`."""
    order = sorted(range(len(sequences)), key=lambda i: (-len(sequences[i]), i))
    while order:
        fits = max(1, MOST_TOKENS // max(1, len(sequences[order[0]])))
        size = min(batch_size, fits)
        yield order[:size]
        del order[:size]


def _exact_float32(device: str) -> Any:
    """Keeps float32 matrix products off tensor cores' TF32, whose rewards would sit on a grid."""
    import torch

    if not device.startswith("cuda"):
        return nullcontext()
    torch.set_float32_matmul_precision("highest")
    return torch.autocast("cuda", enabled=False)


def score_window(scorer: RewardScorer, pairs: pa.Table, split: str) -> pa.Table:
    """The score table of one window.

    Raises:
        ModelError: a side is longer than the model's positions, or its reward no finite number.
    """
    n = len(pairs)
    both = [*sequences(pairs["chosen_input_ids"]), *sequences(pairs["rejected_input_ids"])]
    _check_lengths(scorer, both, pairs["pair_id"].to_pylist())
    rewards = scorer.rewards(both)
    check_finite(rewards, pairs["pair_id"].to_pylist(), scorer.model_directory)
    return score_table(pairs, split, rewards[:n], rewards[n:])


def _check_lengths(
    scorer: RewardScorer, sides: Sequence[TokenIds], pair_ids: Sequence[str]
) -> None:
    from tasks.training.model.positions import positions, why_no_more

    config = scorer.model.config
    limit = positions(config)
    long = [i for i, ids in enumerate(sides) if limit is not None and len(ids) > limit]
    if long:
        raise ModelError(
            f"the {_side(long[0], pair_ids)} has {len(sides[long[0]])} tokens, but the model of "
            f"{scorer.model_directory} takes {limit}: {why_no_more(config)} ({len(long)} such "
            f"sides); set tokenization.max_length to {limit} at most"
        )


def _side(place: int, pair_ids: Sequence[str]) -> str:
    """Which side stands at a place of `[2N]`, chosen sides first."""
    side, row = divmod(place, len(pair_ids))
    return f"{('chosen', 'rejected')[side]} side of pair {pair_ids[row]}"


def check_finite(rewards: Rewards, pair_ids: Sequence[str], model_directory: Path) -> None:
    """Refuses rewards `[2N]`, chosen sides first, that are no finite numbers.

    Raises:
        ModelError: names the first of them.
    """
    broken = np.flatnonzero(~np.isfinite(rewards))
    if len(broken):
        raise ModelError(
            f"{model_directory}: the reward of the {_side(int(broken[0]), pair_ids)} is "
            f"{rewards[broken[0]]}, expected a finite number "
            f"({len(broken)} such rewards); the training diverged: lower training.learning_rate"
        )


def score_pairs(scorer: RewardScorer, files: Sequence[Path], split: str = "eval") -> pa.Table:
    """The score table of all pairs in `files`."""
    windows = (score_window(scorer, window, split) for window in read_windows(files))
    return pa.concat_tables(windows)
