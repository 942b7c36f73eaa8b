"""Scores sequences with a downloaded version as somebody does who has nothing of this project.

Run as a file in a process of its own with a bare environment. In: a directory with `asked.json`
(the version's directory, device), `ids.npy` (int32, all sequences in a row), `lengths.npy`, and
`batches.npy` (sequences per forward pass). Out: `rewards.npy` (float32, in that order) and
`told.json`. The version's own loader is used, which replays the score contract first.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = ("tasks", "flows")


def main(directory: Path) -> None:
    """Reads what is asked in `directory`, and answers there."""
    modules: dict[str, Any] = sys.modules  # type: ignore[assignment]
    modules |= dict.fromkeys(PROJECT)  # importing them fails from here on
    asked = json.loads((directory / "asked.json").read_bytes())
    version = Path(asked["version"])
    loaders = sorted(version.glob("code/reward_inference_*.py"))
    if len(loaders) != 1:
        raise ValueError(
            f"{version} has {len(loaders)} modules code/reward_inference_*, expected 1"
        )
    sys.path.insert(0, str(loaders[0].parent))
    model = import_module(loaders[0].stem).load_reward_model(version, asked["device"])
    lengths = np.load(directory / "lengths.npy")
    ids = np.load(directory / "ids.npy", mmap_mode="r")
    ends = np.cumsum(lengths)
    sequences = [
        ids[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)
    ]
    rewards = np.empty(len(sequences), np.float32)
    start = 0
    for size in np.load(directory / "batches.npy").tolist():
        rewards[start : start + size] = model.rewards_of_ids(sequences[start : start + size])
        start += size
    np.save(directory / "rewards.npy", rewards)
    (directory / "told.json").write_text(json.dumps({"golden": model.golden}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
