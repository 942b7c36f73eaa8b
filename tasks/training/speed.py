"""The speed of a training between two records, in pairs and tokens per second, and its memory."""

import time
from typing import TYPE_CHECKING

from tasks.training.preflight.forecast import peak_memory

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer


class Speed:
    """A clock that restarts with every record; pairs and tokens are those of all processes."""

    def __init__(self, trainer: "RewardTrainer") -> None:
        self.trainer = trainer
        self.start()

    def start(self) -> None:
        """Begins an interval now."""
        interval = self.trainer.interval
        self._time = time.monotonic()
        self._pairs, self._tokens = interval.pairs_before, interval.tokens_before

    def of_interval(self) -> dict[str, float]:
        """Speeds since the last start, peak memory and the pairs of the whole run; restarts."""
        interval = self.trainer.interval
        seconds = max(time.monotonic() - self._time, 1e-9)
        peak, _ = peak_memory(self.trainer.args.device)
        figures = {
            "seconds": round(seconds, 3),
            "pairs_per_second": round((interval.pairs_before - self._pairs) / seconds, 2),
            "tokens_per_second": round((interval.tokens_before - self._tokens) / seconds, 1),
            "memory_gigabytes": round(peak / 1e9, 2),
            "pairs": interval.pairs_before,
        }
        self.start()
        return figures
