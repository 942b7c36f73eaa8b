"""Checkpoints that count once their manifest stands, and only for the same job.

What Trainer itself does not keep (the unfinished logging interval) is kept beside its files.
"""

import contextlib
import logging
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch import nn

from tasks.artifact import Inert
from tasks.artifact.durable import write_json
from tasks.training.batches.pairs import data_digest
from tasks.training.checkpoints import checkpoint as checkpoints
from tasks.training.checkpoints import stateful
from tasks.training.checkpoints.ending import EndingTrainer
from tasks.training.checkpoints.space import checkpoint_bytes, room_for_checkpoint
from tasks.training.guard import check_weights
from tasks.training.params import OWN_FIELDS, TrainingParams

logger = logging.getLogger(__name__)


class SavingTrainer(EndingTrainer):
    """Trainer that commits its checkpoints, and deletes those that are not needed any more."""

    job: checkpoints.Job
    """What a checkpoint must belong to."""
    _told_of_two: bool = False

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Trainer's own files, then the interval's sums, then the manifest that makes it count."""
        self.guard.settle()
        if not self.sharded:
            check_weights(model, self.state.global_step)
        directory = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        if self.is_world_process_zero():
            checkpoints.withdraw(directory)
        needed = checkpoint_bytes(self.model, self.optimizer)
        stateful.states_of(self.state).update(stateful.places(self.callback_handler.callbacks))
        with room_for_checkpoint(directory, needed), self._unrotated():
            super()._save_checkpoint(model, trial)
            mine = checkpoints.interval_file(self.args.process_index)
            write_json(directory / mine, self._unfinished())
        # Trainer sets them in the process that writes; all processes look at them after an epoch
        stateful.states_of(self.state).update(stateful.export(self.callback_handler.callbacks))
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            if not self.args.save_only_model:
                required = checkpoints.required_files(self.args.world_size, sharded=self.sharded)
                with room_for_checkpoint(directory, needed):
                    checkpoints.commit(directory, self.state.global_step, self.job, required)
            self._rotate(directory)
        self.accelerator.wait_for_everyone()

    def _unfinished(self) -> dict[str, Any]:
        """What this process has begun beside the steps, as JSON data."""
        return {
            **self.interval.state(),
            "trainer": {"loss": self._tr_loss.item(), "logged": self._globalstep_last_logged},
            "epoch_ended": self._epoch_end.reached,
            "halvings": self.halvings,
            "keeps_activations": self.keeps_activations,
        }

    def _rotate(self, directory: Path) -> None:
        """Deletes what is over `save_total_limit`, but neither this checkpoint nor the best.

        Two are kept to go on from; where models alone are saved, nothing goes on from them.
        """
        limit, models = self.args.save_total_limit or 0, self.args.save_only_model
        if limit > 0:
            best = self.state.best_model_checkpoint
            protected = [directory, *([Path(best)] if best else [])]
            keep = limit if models else max(2, limit)
            if keep > limit and not self._told_of_two:
                self._told_of_two = True
                logger.warning(
                    "save_total_limit is %d; %d checkpoints are kept, so that one is whole if the "
                    "last is damaged",
                    limit,
                    keep,
                )
            checkpoints.rotate(directory.parent, keep, protected, committed=not models)

    @contextlib.contextmanager
    def _unrotated(self) -> Any:
        """Keeps Trainer from deleting checkpoints by their modification time."""
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            yield
        finally:
            self.args.save_total_limit = limit

    def _default_job(self) -> checkpoints.Job:
        decisive = [
            name
            for name, field in TrainingParams.model_fields.items()
            if Inert not in field.metadata and name not in OWN_FIELDS
        ]
        rows: Any = self.train_dataset
        return {
            "args": {name: getattr(self.args, name) for name in decisive},
            "world_size": self.args.world_size,
            "chat_template": getattr(self.processing_class, "chat_template", None),
            "train_data": data_digest(rows) if isinstance(rows, Dataset) else None,
        }

    @property
    def sharded(self) -> bool:
        """Whether each process holds a part of the model alone."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)
