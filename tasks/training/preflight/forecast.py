"""What a run will need: time, memory and disk, foretold from one step on its longest batch.

Legend: N items of the data (a pair, or the pairs of one comparison).
"""

import shutil
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy

from tasks.errors import TrainingError
from tasks.training.batches.columns import longest_sides
from tasks.training.batches.comparisons import Comparisons
from tasks.training.checkpoints.space import standing

DISK_RESERVE = 1.2
SAMPLED_BATCHES = 200

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Forecast:
    """The needs of one run; None where nothing could be rehearsed."""

    steps: int
    seconds: float | None
    """Of all steps together, evaluations and checkpoints left out."""
    longest_tokens: int
    """Of the longest batch, padding included."""
    longest_seconds: float | None
    """Of one step on it."""
    memory_bytes: int
    """Peak on the device; of the whole process on a CPU."""
    memory_total_bytes: int
    disk_bytes: int
    """Checkpoints that stand at one time, and the model, and a fifth more."""
    disk_free_bytes: int
    halvings: int
    """How often the micro-batch had to be halved to fit."""
    keeps_activations: bool = False
    """Whether gradient checkpointing was left open, and is off since there is room."""
    preflight_seconds: float = 0.0

    def line(self) -> str:
        """The forecast for a reader."""
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
    return longest_sides(items) if isinstance(items, Dataset) and len(items) else None


def mean_batch_tokens(lengths: Lengths, size: int) -> float:
    """Tokens of a micro-batch of `size` random items with its padding, on average."""
    draw = np.random.default_rng(0)
    size = min(size, len(lengths))
    longest = [draw.choice(lengths, size).max() for _ in range(SAMPLED_BATCHES)]
    return 2 * size * float(np.mean(longest))


def disk_need(args: TrainingArguments, steps: int, checkpoint_bytes: int, model_bytes: int) -> int:
    """Bytes that checkpoints and the model take at the worst moment, and a fifth more.

    One checkpoint more than is kept: the newest is written before the oldest goes. Where steps are
    counted, the last one is saved whichever it is.
    """
    every: dict[str, float] = {
        "no": steps + 1,
        "epoch": ceil(steps / max(1, ceil(args.num_train_epochs))),
        "steps": args.save_steps if args.save_steps >= 1 else args.save_steps * steps,
    }
    strategy = SaveStrategy(args.save_strategy).value
    saves = steps / max(1.0, every.get(strategy, steps))
    saved = ceil(saves) if strategy == "steps" else int(saves)
    kept = min(saved, max(2, args.save_total_limit) + 1) if args.save_total_limit else saved
    return int(DISK_RESERVE * (kept * checkpoint_bytes + model_bytes))


def free_disk(directory: Path) -> int:
    """Bytes that this user may still write below a directory."""
    return shutil.disk_usage(standing(directory)).free


def peak_memory(device: torch.device) -> tuple[int, int]:
    """Peak and total bytes: of the device, or of this process and its machine or container."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return torch.cuda.max_memory_reserved(device), int(total)
    return _host_peak(), _host_total()


def forget_peak(device: torch.device) -> None:
    """From here on the peak of a GPU is that of what comes."""
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
