"""The scale of a model's rewards on held-out pairs: `normalization.json` beside the weights.

    {"mean": 0.31, "std": 1.42, "minimum": -4.0, "maximum": 5.1, "count": 402, "split": "eval"}

A raw reward has no zero and no unit of its own: RL may want it with mean 0 and deviation 1, or may
want to know that an answer got more than any held-out answer ever did (a sign of reward hacking).
Travels inside the registered model: it must not import any other part of the project.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

FILE = "normalization.json"


@dataclass(frozen=True)
class RewardScale:
    """How the rewards of held-out answers are distributed."""

    mean: float
    std: float
    minimum: float
    maximum: float
    count: int
    split: str = "eval"

    def normalized(self, rewards: np.ndarray) -> np.ndarray:
        """float32 `[N]`: mean 0 and standard deviation 1 over the held-out answers."""
        return ((rewards - self.mean) / self.std).astype(np.float32)

    def outside(self, rewards: np.ndarray) -> np.ndarray:
        """float32 `[N]`: standard deviations beyond the held-out rewards' range, 0 within it.

        It says that the model was never checked on a reward so far out. It is no probability of an
        error, which one model cannot tell.
        """
        beyond = np.maximum(self.minimum - rewards, rewards - self.maximum)
        return (np.maximum(beyond, 0.0) / self.std).astype(np.float32)


def fit(rewards: np.ndarray | Sequence[float]) -> RewardScale:
    """The scale of these rewards (chosen and rejected answers alike).

    Raises:
        ValueError: fewer than two different rewards.
    """
    values = np.asarray(rewards, dtype=np.float64)
    if values.size == 0 or not float(np.ptp(values)) > 0:
        raise ValueError(f"{values.size} rewards without any spread have no scale; expected more")
    return RewardScale(
        mean=float(values.mean()),
        std=float(values.std()),
        minimum=float(values.min()),
        maximum=float(values.max()),
        count=int(values.size),
    )


def write(scale: RewardScale, directory: Path) -> None:
    """Puts the scale beside the weights."""
    text = json.dumps(asdict(scale), indent=2, sort_keys=True) + "\n"
    (directory / FILE).write_text(text, "utf-8")


def read(directory: Path) -> RewardScale | None:
    """The scale that the directory brings; None where it brings none.

    Raises:
        ValueError: the file does not hold what it should.
    """
    path = directory / FILE
    if not path.is_file():
        return None
    try:
        scale = RewardScale(**json.loads(path.read_bytes()))
        if not scale.std > 0:
            raise ValueError(f"std is {scale.std!r}, expected a positive number")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no scale of rewards: {error}") from error
    return scale
