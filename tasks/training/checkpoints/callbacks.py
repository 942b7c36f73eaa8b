"""When a running training saves and logs: on request, after an epoch rather than before its end.

All processes of a run agree before they stop, because saving is work that they do together.
"""

from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from tasks.errors import Interrupted
from tasks.training.checkpoints.stateful import ran_out_of_patience, states_of
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
        """From here on a request waits for the end of its step."""
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
        """Has the step saved if any process was asked to stop."""
        if not ends_epoch(state, control) and self._agreed():
            self._stop(control)

    def on_epoch_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """As `on_step_end`, for the last step of an epoch: what the epoch logs comes first."""
        if self._agreed():
            self._stop(control)

    def on_save(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Ends the run; the checkpoint is committed by now.

        Raises:
            Interrupted: a stop was asked for.
        """
        if self._stopping:
            reason = self.request.reason or "another process was asked to stop"
            raise Interrupted(
                f"training stopped after step {state.global_step} of {state.max_steps} ({reason}); "
                "its checkpoint is saved, and running again continues from there"
            )

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """From here on a request ends the process at once: all is in the last checkpoint."""
        self.request.saves = False

    def _stop(self, control: TrainerControl) -> None:
        """Has the state saved; `on_save` then ends the run."""
        self._stopping = True
        control.should_save = True

    def _agreed(self) -> bool:
        asked = self.request.reason is not None
        if self._group is None:
            return asked
        votes = torch.tensor([int(asked)])
        dist.all_reduce(votes, group=self._group)  # on the host: no wait for the device
        return bool(votes.item())


class SaveAfterEpoch(TrainerCallback):
    """Saves the last step of an epoch after what the epoch logs and evaluates, not before.

    A run that goes on from that checkpoint begins with the next epoch: records that the end of this
    one makes would be lost. So would those of a run that an evaluation has stopped: its last step
    is saved again.
    """

    def __init__(self) -> None:
        self._due = False
        self._saved = 0

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Puts the save off."""
        if control.should_save and ends_epoch(state, control):
            self._due, control.should_save = True, False

    def on_epoch_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Has the save done now."""
        saved = self._saved == state.global_step
        again = saved and ran_out_of_patience(states_of(state))  # as of that save
        control.should_save = control.should_save or self._due or again
        self._due = False

    def on_save(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Remembers which step was saved."""
        self._saved = state.global_step


class LogLastInterval(TrainerCallback):
    """Has the last, unfinished logging interval logged, before the last checkpoint is saved."""

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Asks for the record; Trainer makes none where the last step has been logged."""
        if control.should_training_stop and args.logging_strategy == IntervalStrategy.STEPS:
            control.should_log = True


def ends_epoch(state: TrainerState, control: TrainerControl) -> bool:
    """Whether the step that has just been taken is the last of its epoch, or of the training."""
    return control.should_training_stop or float(state.epoch or 0.0).is_integer()
