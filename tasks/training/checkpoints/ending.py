"""The order of what follows a step and an epoch: log, evaluate, log, save, so that nothing is lost.

An evaluation may end the training (`EarlyStoppingCallback`), or find the best model so far, which
`save_strategy="best"` saves. So what is logged last, and whether to save, is decided after it.
"""

from typing import Any

from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from tasks.training.checkpoints.callbacks import EpochEnd, ends_epoch
from tasks.training.preflight.out_of_memory import MemoryAdaptiveTrainer


class EndingTrainer(MemoryAdaptiveTrainer):
    """Trainer that saves last, and of an epoch's last step once the epoch has ended."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._epoch_end = EpochEnd()
        self.add_callback(self._epoch_end)

    def _maybe_log_save_evaluate(self, *given: Any, **named: Any) -> None:
        """As in transformers, in two parts: what is logged and evaluated, then what follows of it.

        Where the training ends here, the steps since the last record are logged: before the
        evaluation, or behind the one that ends it.
        """
        end, control = self._epoch_end, self.control
        self._put_off_save(also=False)
        self._log_if_last()
        super()._maybe_log_save_evaluate(*given, **named)
        if not end.reached and ends_epoch(self.state, control):
            return
        self._log_if_last()
        control.should_save, end.save_due = end.save_due, False
        super()._maybe_log_save_evaluate(*given, **named)

    def _log_if_last(self) -> None:
        """Has the steps since the last record logged where the training ends with this epoch; no
        record is made where there are none."""
        by_steps = self.args.logging_strategy == IntervalStrategy.STEPS
        if self._epoch_end.reached and self.control.should_training_stop and by_steps:
            self.control.should_log = True

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """As in transformers; here that a model is the best is no reason yet to save it."""
        best = super()._determine_best_metric(metrics, trial)
        self._put_off_save(also=best and self.args.save_strategy == SaveStrategy.BEST)
        return False

    def _put_off_save(self, *, also: bool) -> None:
        """Notes that a save is due: one that is asked for, or `also` this one."""
        asked, self.control.should_save = self.control.should_save, False
        self._epoch_end.save_due = self._epoch_end.save_due or asked or also
