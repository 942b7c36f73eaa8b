"""Trainer callbacks: one that stops a training on request, one that knows where an epoch ends.

All processes of a run agree before they stop, because they save a checkpoint together.
"""

from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tasks.errors import Interrupted
from tasks.training.checkpoints.stopping import StopRequest


class StopCallback(TrainerCallback):
    """Saves and raises `Interrupted` at the end of the step in which a stop was asked for."""

    def __init__(self, request: StopRequest) -> None:
        self.request = request
        self._stopping = False
        self._group: Any = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """From here on a request takes effect at the end of the current step."""
        self.request.saves = True
        if args.world_size > 1:
            self._group = dist.new_group(backend="gloo")

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Requests a checkpoint if any process was asked to stop."""
        if not ends_epoch(state, control) and self._agreed():
            self._stop(control)

    def on_epoch_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """As `on_step_end`, for an epoch's last step, which is saved after the epoch's logging."""
        if self._agreed():
            self._stop(control)

    def on_save(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Ends the run, now that the checkpoint is committed.

        Raises:
            Interrupted: a stop was asked for.
        """
        if self._stopping:
            reason = self.request.reason or "another process was asked to stop"
            raise Interrupted(
                f"training stopped after step {state.global_step} of {state.max_steps} ({reason}); "
                "its checkpoint is saved, and running again continues from there"
            )

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """From here on a request ends the process at once, since the last checkpoint has it all."""
        self.request.saves = False

    def _stop(self, control: TrainerControl) -> None:
        """Requests a checkpoint, after which `on_save` ends the run."""
        self._stopping = True
        control.should_save = True

    def _agreed(self) -> bool:
        asked = self.request.reason is not None
        if self._group is None:
            return asked
        votes = torch.tensor([int(asked)])
        dist.all_reduce(votes, group=self._group)  # on the host: no wait for the device
        return bool(votes.item())


class EpochEnd(TrainerCallback):
    """Knows whether all steps of an epoch are done, and whether a save was postponed until then.

    A run that goes on from the checkpoint of an epoch's last step begins with the next epoch, so
    that step is saved after what the end of the epoch logs and evaluates (`ending.py`).
    """

    def __init__(self) -> None:
        self.reached = False
        self.save_due = False

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Forgets a save that an earlier run of the same trainer postponed."""
        self.reached = self.save_due = False

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Notes that the epoch is not over."""
        self.reached = False

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Notes that the epoch is over."""
        self.reached = True


def ends_epoch(state: TrainerState, control: TrainerControl) -> bool:
    """Whether the step just done is the last of its epoch, or of the training."""
    return control.should_training_stop or float(state.epoch or 0.0).is_integer()
