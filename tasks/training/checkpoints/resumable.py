"""The run that goes on from a committed checkpoint (`saving.py`), after whatever ended the first.

A run that was interrupted and continued ends in the same weights and the same history as one that
was not: what Trainer itself does not keep (the unfinished logging interval) is kept beside it.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from datasets import IterableDataset
from torch import nn
from transformers import TrainerState
from transformers.trainer_utils import SaveStrategy, TrainOutput

from tasks.artifact.durable import read_json
from tasks.artifact.memory import large_buffers_kept
from tasks.errors import TrainingError
from tasks.training.checkpoints import checkpoint as checkpoints
from tasks.training.checkpoints import stateful
from tasks.training.checkpoints.saving import SavingTrainer
from tasks.training.checkpoints.sharing import check_shared
from tasks.training.metrics.interval import IntervalSums
from tasks.training.preflight.forecast import Forecast
from tasks.training.preflight.recomputing import keep_activations
from tasks.training.preflight.rehearsal import preflight

logger = logging.getLogger(__name__)

Wanted = str | bool | checkpoints.Checkpoint | None
"""What `resume_from_checkpoint` may be."""


class ResumableTrainer(SavingTrainer):
    """Trainer that goes on from a checkpoint of the same job."""

    _resumes_after_epoch: bool = False
    """Whether the checkpoint that is gone on from was saved once an epoch had ended."""
    _begun: dict[str, Any] | None = None
    """Trainer's own part of the unfinished interval of that checkpoint, until it is taken up; None
    where that was saved before it was kept."""
    _stopped_early: bool = False
    """Whether the run of the checkpoint that is gone on from had ended by its own decision."""
    forecast: Forecast | None = None
    """What the preflight found; None for a run that goes on from a checkpoint."""

    def train(
        self,
        resume_from_checkpoint: Wanted = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Trains; True, or "true" as a command line says it, continues from the newest valid
        checkpoint of `output_dir`. One that `newest_checkpoint` has returned is not read again.

        Raises:
            TrainingError: there is no such checkpoint, or the given one is damaged or of another
                job (the message names what differs); or the loss is not finite.
        """
        with large_buffers_kept(kept=self.args.device.type == "cpu"):
            return self._train(_said(resume_from_checkpoint), trial, ignore_keys_for_eval)

    def _train(self, wanted: Wanted, trial: Any, ignored: list[str] | None) -> TrainOutput:
        if wanted or self.args.save_strategy != SaveStrategy.NO:
            check_shared(Path(self.args.output_dir or "."), self.accelerator)
        found = self._checkpoint(wanted) if wanted else None
        self._resumes_after_epoch = self._stopped_early = False
        self._begun = None
        self.keeps_activations = False
        self.interval = IntervalSums(self.args.device)  # an earlier run may have been broken off
        self.guard.forget_batches()
        if found is None:
            return super().train(None, trial, ignored)
        process = self.args.process_index
        kept = read_json(found.path / checkpoints.interval_file(process))
        self.halvings = kept.pop("halvings")
        args: Any = self.args
        self.keeps_activations = kept.pop("keeps_activations", False) and args.decides_checkpointing
        self._resumes_after_epoch = bool(kept.pop("epoch_ended", False))
        self._begun = kept.pop("trainer", None)
        self.interval.restore(kept)
        state = TrainerState.load_from_json(str(found.path / "trainer_state.json"))
        callbacks = self.callback_handler.callbacks
        stateful.restore(callbacks, stateful.states_of(state))
        self._stopped_early = stateful.ran_out_of_patience(stateful.export(callbacks))
        ended = self._stopped_early or state.global_step >= state.max_steps
        if ended and not self.sharded:  # shards are loaded by the loop, which takes no step then
            return self._take_over(found, state)
        return super().train(str(found.path), trial, ignored)

    def _init_training_state(self, *given: Any, **named: Any) -> tuple[int, int]:
        """As in transformers; of a stream, whose epochs have no known length, the state says where
        it was: the epochs before, and the batches of this one. Of a run that stopped early no epoch
        is left."""
        epochs, batches = super()._init_training_state(*given, **named)
        if self._stopped_early:
            return sys.maxsize, 0
        rows: Any = self.train_dataset
        if not isinstance(rows, IterableDataset) or self.args.ignore_data_skip:
            return epochs, batches
        epochs = int(self.state.epoch or 0)
        if self._resumes_after_epoch:
            return epochs + 1, 0
        steps = self.args.max_steps * self.args.gradient_accumulation_steps
        return epochs, round(((self.state.epoch or 0) - epochs) * steps)

    def _run_epoch(self, *given: Any, **named: Any) -> None:
        """As in transformers; the first epoch of a run that goes on begins within its interval."""
        if self._begun is not None:
            loss, self._globalstep_last_logged = self._begun["loss"], self._begun["logged"]
            self._tr_loss += loss
            self._total_loss_scalar -= loss  # of the steps that this call takes
            self._begun = None
        super()._run_epoch(*given, **named)

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> tuple[nn.Module, Any]:
        """As in transformers; a run that begins rehearses its longest batch first."""
        prepared = super()._prepare_for_training(  # pyright: ignore[reportPrivateUsage]
            max_steps, train_dataloader, resume_from_checkpoint
        )
        trainer: Any = self
        if resume_from_checkpoint is not None and self.keeps_activations:
            keep_activations(trainer)
        if resume_from_checkpoint is None and trainer.args.preflight:
            self.forecast = found = preflight(trainer, prepared[0], prepared[1], max_steps)
            logger.info("%s", found.line())
        return prepared

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: list[str] | None, skip_scheduler: bool = False
    ) -> dict[str, float]:
        """As in transformers; a run that goes on has its evaluation on start in its history."""
        on_start = skip_scheduler  # Trainer asks for it there alone
        if on_start and any(_is_evaluation_on_start(r) for r in self.state.log_history):
            return {}
        return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    def newest_checkpoint(self) -> checkpoints.Checkpoint | None:
        """The newest valid checkpoint of `output_dir`."""
        directory = Path(self.args.output_dir or ".")
        return self._by_first_process(lambda: checkpoints.newest_valid(directory, self.job))

    def _checkpoint(self, wanted: Wanted) -> checkpoints.Checkpoint:
        if isinstance(wanted, checkpoints.Checkpoint):
            return wanted
        if wanted is True:
            newest = self.newest_checkpoint()
            if newest is None:
                raise TrainingError(f"{self.args.output_dir} holds no valid checkpoint to resume")
            return newest
        path = Path(str(wanted))
        known = [c for c in checkpoints.checkpoints(path.parent) if c.path == path]
        absent = None if known else "there is no such checkpoint"
        fault = absent or self._by_first_process(lambda: checkpoints.problem(known[0], self.job))
        if fault:
            raise TrainingError(f"cannot resume from {path}: {fault}")
        return known[0]

    def _by_first_process(self, look: Callable[[], Any]) -> Any:
        """What `look` returns in the first process, in every process: large files are read once."""
        found = [look() if self.is_world_process_zero() else None]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(found)
        return found[0]

    def _take_over(self, found: checkpoints.Checkpoint, state: TrainerState) -> TrainOutput:
        """The finished run of a checkpoint: its weights and its history, without another step."""
        self._load_from_checkpoint(str(found.path))
        self.state = state
        if self.args.load_best_model_at_end and state.best_model_checkpoint is not None:
            name = Path(state.best_model_checkpoint).name
            state.best_model_checkpoint = str(found.path.parent / name)  # it may have been moved
            self._load_best_model()
        return TrainOutput(state.global_step, float("nan"), {})


def _said(wanted: Wanted) -> Wanted:
    """What was asked for, be it in the words of a command line."""
    word = wanted.lower() if isinstance(wanted, str) else ""
    return word == "true" if word in ("true", "false") else wanted


def _is_evaluation_on_start(record: dict[str, Any]) -> bool:
    return record["step"] == 0 and any(name.startswith("eval_") for name in record)
