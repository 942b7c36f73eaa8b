"""Progress of a running training: one printed line per logged record, and the record as JSON.

logs/metrics.jsonl     one JSON object per record, with time and speed
logs/preflight.json    the preflight's `Forecast`
"""

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tasks.training.speed import Speed

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

TIMING = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
"""Endings of the names of metrics that differ between equal runs."""


def is_timing(name: str) -> bool:
    """Whether a metric depends on the clock."""
    return name.endswith(TIMING)


class ProgressCallback(TrainerCallback):
    """Writes and prints every record, on the main process; speeds are since the last record."""

    def __init__(self, trainer: "RewardTrainer", records: Path) -> None:
        self.trainer = trainer
        self.records = records
        self.speed = Speed(trainer)

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Reports the preflight's forecast, and starts the clock for speeds."""
        forecast = self.trainer.forecast
        if state.is_world_process_zero and forecast is not None:
            say(forecast.line())
            (self.records.parent / "preflight.json").write_text(json.dumps(asdict(forecast)))
        self.speed.start()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Appends the record and prints its line."""
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        record: dict[str, Any] = {"step": state.global_step, "max_steps": state.max_steps, **logs}
        record["time"] = round(time.time(), 3)
        if "learning_rate" in logs:
            record |= self.speed.of_interval()
        with self.records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        say(line(record))


def line(record: dict[str, Any]) -> str:
    """One record as text: `step 40/116  loss 0.412  accuracy 0.810  ...`."""
    parts = [f"step {record['step']}/{record['max_steps']}"]
    for name, value in record.items():
        base = name.rpartition("eval_")[2]
        label = name.replace("_", " ")
        if base in ("loss", "margin", "grad_norm"):
            parts.append(f"{label} {value:.3g}")
        elif base == "accuracy":
            parts.append(f"{label} {value:.3f}")
        elif base == "learning_rate":
            parts.append(f"{label} {value:.2e}")
        elif base in ("pairs_per_second", "tokens_per_second"):
            parts.append(f"{value:,.0f} {base.removesuffix('_per_second')}/s")
        elif base == "memory_gigabytes":
            parts.append(f"{value:.2g} GB")
    return "  ".join(parts)


def say(text: str) -> None:
    """Prints a line; nothing happens if stdout's reader is gone."""
    with suppress(BrokenPipeError):
        print(text, flush=True)
