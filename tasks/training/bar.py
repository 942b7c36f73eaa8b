"""The progress bar of a training at a terminal, two lines that stay in place.

     34%|████      | 40/116 [00:12<00:24, 123 pairs/s, 4.57k tokens/s]
    loss 0.412  accuracy 0.810  margin 1.23  1.2 GB  320 pairs  12.3k tokens

If standard error is not a terminal, every record is printed as one line instead.
"""

import sys
from numbers import Real
from typing import TYPE_CHECKING, Any

from tqdm import tqdm
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import has_length
from transformers.training_args import TrainingArguments

from tasks.training.speed import Speed

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

STEPS = "{percentage:3.0f}%|{bar:12}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
BATCHES = "{desc} {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"


def show_bar(trainer: "RewardTrainer") -> None:
    """Replaces transformers' own bar, if the trainer has one."""
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(BarCallback(trainer))


class BarCallback(TrainerCallback):
    """Draws the bar on the main process, with the figures of the newest record."""

    def __init__(self, trainer: "RewardTrainer") -> None:
        self.trainer = trainer
        self.speed = Speed(trainer)
        self._steps: Any = None
        self._figures: Any = None
        self._evaluation: Any = None

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Draws the bar; a resumed run begins where it was stopped."""
        self.speed.start()
        if state.is_world_process_zero and _is_terminal():
            self._steps = _line(STEPS, state.max_steps, initial=state.global_step)
            self._figures = _line("{desc}", None, position=1)

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Advances the bar."""
        if self._steps is not None:
            self._steps.update(state.global_step - self._steps.n)

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Shows the figures of a record: training's in the bar, an evaluation's above it."""
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        trains = "learning_rate" in logs
        if not trains:
            self._close("_evaluation")
        record = {**logs, **self.speed.of_interval()} if trains else logs
        if self._steps is None:
            shown = "  ".join(filter(None, (figures(record), speeds(record))))
            print(f"step {state.global_step}/{state.max_steps}  {shown}", flush=True)
        elif trains:
            self._steps.set_postfix_str(speeds(record))
            self._figures.set_description_str(figures(record))
        else:
            self._steps.write(f"step {state.global_step}  {figures(record)}", file=sys.stderr)

    def on_prediction_step(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        eval_dataloader: Any = None,
        **_: Any,
    ) -> None:
        """Counts the batches of an evaluation on a line of its own."""
        if not state.is_world_process_zero or not _is_terminal():
            return
        if self._evaluation is None:
            batches = len(eval_dataloader) if has_length(eval_dataloader) else None
            position = 0 if self._steps is None else 2
            self._evaluation = _line(
                BATCHES, batches, position=position, desc="evaluating", leave=False
            )
        self._evaluation.update()

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        """Removes the line of an evaluation or a prediction."""
        self._close("_evaluation")

    on_predict = on_evaluate

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Closes both lines, which stay on the terminal."""
        self._close("_steps")
        self._close("_figures")

    def _close(self, name: str) -> None:
        line: Any = getattr(self, name)
        if line is not None:
            line.close()
            setattr(self, name, None)


def speeds(record: dict[str, Any]) -> str:
    """`123 pairs/s, 4.57k tokens/s`; empty where none are counted: of an evaluation, or under a
    `compute_loss` of one's own."""
    if "num_tokens" not in record:
        return ""
    pairs, tokens = record["pairs_per_second"], record["tokens_per_second"]
    return f"{short(pairs)} pairs/s, {short(tokens)} tokens/s"


def figures(record: dict[str, Any]) -> str:
    """`loss 0.412  accuracy 0.810  margin 1.23  1.2 GB  320 pairs  12.3k tokens`.

    A user's metric that is no number is left out.
    """
    parts: list[str] = []
    for name, value in record.items():
        base = name.rpartition("_")[2] if isinstance(value, Real) else ""
        if base in ("loss", "margin"):
            parts.append(f"{name.replace('_', ' ')} {value:.3g}")
        elif base == "accuracy":
            parts.append(f"{name.replace('_', ' ')} {value:.3f}")
    if "memory_gigabytes" in record:
        parts.append(f"{record['memory_gigabytes']:.2g} GB")
    if "num_tokens" in record:
        parts.append(f"{short(record['pairs'])} pairs")
        parts.append(f"{short(record['num_tokens'])} tokens")
    return "  ".join(parts)


def short(number: float) -> str:
    """`999`, `12.3k`, `4.57M`: three digits."""
    return f"{number:.0f}" if number < 1000 else str(tqdm.format_sizeof(number))


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _line(bar_format: str, total: int | None, **options: Any) -> Any:
    settings: dict[str, Any] = {"position": 0, "leave": True, "dynamic_ncols": True, **options}
    return tqdm(bar_format=bar_format, total=total, **settings)
