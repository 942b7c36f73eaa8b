"""Metrics of a training reach MLflow while it trains, and training never waits for MLflow.

In: records as training writes them. Out: points of its run, each once. A thread of its own imports
MLflow, opens the run and logs; records wait for it in a queue. What MLflow refuses is tried again
with the next record.
"""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from tasks.ingestion.redaction import redacted
from tasks.registration.params import RegistrationParams
from tasks.registration.tracking import Points, client_for, log_records, logged_points, run_for

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 120.0
"""How long the end of a training waits for records that MLflow has not taken."""

Record = Mapping[str, Any]


class MetricsSink:
    """Takes the records of a training as they come: `sink(record)`. The run is opened at the first.

    Raises nothing: a failure is one warning, and registration logs what is missing in the end.
    """

    def __init__(self, params: RegistrationParams, root: Path, training_key: str) -> None:
        self.params, self.root, self.training_key = params, root, training_key
        self.run_id: str | None = None
        self._client: MlflowClient | None = None
        """None until the run is open, and after a failure."""
        self._known: Points = set()
        self._monitor: Any = None
        self._unlogged: list[Record] = []
        self._failing = False
        self._abandoned = False
        self._waiting: SimpleQueue[Record | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, record: Record) -> None:
        """Has one record's numbers logged at its `global_step` (or `step`); returns at once."""
        if self._abandoned:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._log, name="MLflow metrics", daemon=True)
            self._thread.start()
        self._waiting.put(dict(record))

    def flush(self) -> None:
        """Returns when all records so far are logged, or MLflow has failed once more."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._waiting.put(None)
        thread.join(FLUSH_SECONDS)
        if thread.is_alive():
            self._abandoned = True
            self._warn(TimeoutError(f"no answer within {FLUSH_SECONDS:.0f} s"))

    def close(self, status: str = "FAILED") -> None:
        """Says how training ended; registration takes the run of a finished one up again."""
        self.flush()
        if self._client is None or self.run_id is None or self._abandoned:
            return
        try:
            self._client.set_terminated(self.run_id, status)
        except Exception as error:
            self._warn(error)

    def _log(self) -> None:
        """What the thread does until it is flushed: logs the records that wait."""
        ended = False
        while not ended:
            taken = self._take()
            ended = None in taken
            self._unlogged += [record for record in taken if record is not None]
            if not self._abandoned:
                self._try_to_log()
        self._stop_monitor()

    def _take(self) -> list[Record | None]:
        """All records that wait, at least one; None stands for a flush."""
        taken = [self._waiting.get()]
        try:
            while True:
                taken.append(self._waiting.get_nowait())
        except Empty:
            return taken

    def _try_to_log(self) -> None:
        try:
            client, run_id = self._open()
            log_records(client, run_id, self._unlogged, self._known)
        except Exception as error:  # MLflow, its database and its server fail in many ways
            self._client = None  # which points it has taken is asked anew
            self._warn(error)
            return
        self._unlogged.clear()
        if self._failing:
            self._failing = False
            logger.info("training metrics reach MLflow again, those of the meantime included")

    def _open(self) -> tuple["MlflowClient", str]:
        if self._client is None or self.run_id is None:
            client = client_for(self.params, self.root)
            self.run_id = run_for(client, self.params, self.root, self.training_key)
            self._known = logged_points(client, self.run_id)
            self._client = client
        if self.params.system_metrics and self._monitor is None:
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            monitor: Any = SystemMetricsMonitor(self.run_id, resume_logging=True)
            monitor.start()
            self._monitor = monitor
        return self._client, self.run_id

    def _stop_monitor(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is None:
            return
        try:
            monitor.finish()
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if self._failing:
            return
        self._failing = True
        logger.warning(
            "training metrics do not reach MLflow (%s: %s); training goes on. They are sent again "
            "with the next ones, and registration logs from the artifact what is missing",
            type(error).__name__,
            redacted(str(error)),
        )
