"""Time, memory and disk that a run will need, estimated from one step on its longest batch.

Legend: N items of the data (a pair, or the pairs of one comparison).
"""

import shutil
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from transformers import TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from tasks.errors import TrainingError
from tasks.training.batches.columns import longest_sides
from tasks.training.batches.comparisons import Comparisons
from tasks.training.checkpoints.space import standing

DISK_RESERVE = 1.2
SAMPLED_BATCHES = 200
"""Random batches from which the mean size of a padded one is estimated."""

Lengths = npt.NDArray[np.int64]
"""Tokens of each item, `[N]`."""


@dataclass(frozen=True)
class Forecast:
    """What one run needs. `None`: unknown, since no step could be rehearsed."""

    steps: int
    seconds: float | None
    """Time of all steps, without evaluations and checkpoints."""
    longest_tokens: int
    """Tokens of the longest micro-batch, with padding."""
    longest_seconds: float | None
    """Time of one step on it."""
    memory_bytes: int
    """Peak memory of the device; on a CPU of the process."""
    memory_total_bytes: int
    disk_bytes: int
    """Most that checkpoints and the model take at one time, and a fifth more."""
    disk_free_bytes: int
    halvings: int
    """How often the micro-batch had to be halved to fit."""
    keeps_activations: bool = False
    """Whether gradient checkpointing was not set by the user, and is off because there is room."""
    preflight_seconds: float = 0.0

    def line(self) -> str:
        """The forecast as one line of text."""
        parts = [f"preflight took {self.preflight_seconds:.1f} s"]
        if self.longest_seconds is not None:
            parts.append(
                f"longest micro-batch {self.longest_tokens:,} tokens in "
                f"{self.longest_seconds:.2g} s"
            )
        if self.seconds is not None:
            parts.append(f"about {_duration(self.seconds)} for {self.steps:,} steps")
        parts.append(
            f"peak memory {_gigabytes(self.memory_bytes)} of {_gigabytes(self.memory_total_bytes)}"
        )
        parts.append(f"disk {_gigabytes(self.disk_bytes)} of {_gigabytes(self.disk_free_bytes)}")
        if self.keeps_activations:
            parts.append("activations are kept, not computed twice")
        if self.halvings:
            parts.append(f"micro-batch halved {self.halvings} times to fit the memory")
        return "; ".join(parts)

    def check_disk(self, directory: Path) -> None:
        """Refuses a run whose checkpoints would not fit.

        Raises:
            TrainingError: less disk is free than will be needed.
        """
        if self.disk_bytes > self.disk_free_bytes:
            raise TrainingError(
                f"checkpoints and model need {_gigabytes(self.disk_bytes)} below {directory}, but "
                f"{_gigabytes(self.disk_free_bytes)} are free; make room, lower save_total_limit, "
                "or set save_strategy to 'no'"
            )


def item_lengths(items: Any) -> Lengths | None:
    """Tokens of the longer side of every item, int64 `[N]`; None for a stream."""
    if isinstance(items, Comparisons):
        sides = longest_sides(items.pairs)
        return np.array([sides[group].sum() for group in items.groups], dtype=np.int64)
    return longest_sides(items) if isinstance(items, Dataset) else None


def mean_share(lengths: Lengths, size: int, items: int, *, padded: bool) -> float:
    """What a mean micro-batch of `size` random items costs, as a share of that of the `items`
    longest; a `padded` one costs as if all of its items were as long as its longest."""
    size = min(size, len(lengths))
    if not padded:
        return float(size * lengths.mean() / np.sort(lengths)[-items:].sum())
    draw = np.random.default_rng(0)
    longest = [draw.choice(lengths, size).max() for _ in range(SAMPLED_BATCHES)]
    return float(size * np.mean(longest) / (items * lengths.max()))


def disk_need(
    args: TrainingArguments, state: TrainerState, checkpoint_bytes: int, model_bytes: int
) -> int:
    """Most bytes that checkpoints and the model take at one time, and a fifth more.

    One checkpoint more than `save_total_limit`: the newest is written before the oldest is deleted.
    `save_strategy="steps"` also saves after the very last step, and "best" at most after each
    evaluation. `state`: of the run as it begins; the epochs of a stream are not known.
    """
    when, every = SaveStrategy(args.save_strategy).value, state.save_steps
    if when == "best":
        when, every = IntervalStrategy(args.eval_strategy).value, state.eval_steps
    epochs = state.num_train_epochs if state.num_train_epochs < sys.maxsize else 1
    after_steps = ceil(state.max_steps / every) if every > 0 else 1  # 0: after the last alone
    saved = {"no": 0, "epoch": epochs, "steps": after_steps}[when]
    limit = args.save_total_limit or 0
    least = limit if args.save_only_model else max(2, limit)  # as `_rotate` keeps them
    kept = min(saved, least + 1) if limit else saved
    return int(DISK_RESERVE * (kept * checkpoint_bytes + model_bytes))


def free_disk(directory: Path) -> int:
    """Free bytes of the file system that the directory is, or will be, on."""
    return shutil.disk_usage(standing(directory)).free


def peak_memory(device: torch.device) -> tuple[int, int]:
    """Peak and total bytes: of the GPU; on a CPU of this process, and of machine or container."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return torch.cuda.max_memory_reserved(device), int(total)
    return _host_peak(), _host_total()


def forget_peak(device: torch.device) -> None:
    """Resets a GPU's peak memory counter; a CPU process has none to reset."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _host_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _host_total() -> int:
    sizes: list[int] = []
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(place)
        if path.is_file() and path.read_text().strip().isdigit():
            sizes.append(int(path.read_text()))
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            sizes.append(int(line.split()[1]) * 1024)
    return min(sizes, default=0)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
