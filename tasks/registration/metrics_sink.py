"""Metrics of a training reach MLflow while it trains, and training never waits for MLflow.

In: records as training writes them. Out: points of its run, each once. A thread of its own imports
MLflow, opens the run and logs; records wait for it in a queue.
"""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

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

    Fails silently but for one warning: registration logs what is missing.
    """

    def __init__(self, params: RegistrationParams, root: Path, training_key: str) -> None:
        self.params, self.root, self.training_key = params, root, training_key
        self.run_id: str | None = None
        self._client: MlflowClient | None = None
        self._known: Points = set()
        self._monitor: Any = None
        self._broken = False
        self._waiting: SimpleQueue[Record | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, record: Record) -> None:
        """Has one record's numbers logged at its `global_step` (or `step`); returns at once."""
        if self._broken:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._log, name="MLflow metrics", daemon=True)
            self._thread.start()
        self._waiting.put(dict(record))

    def flush(self) -> None:
        """Returns when all records so far are logged, or MLflow has failed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._waiting.put(None)
        thread.join(FLUSH_SECONDS)
        if thread.is_alive():
            self._give_up(TimeoutError(f"no answer within {FLUSH_SECONDS:.0f} s"))

    def close(self, status: str = "FAILED") -> None:
        """Says how training ended; registration takes the run of a finished one up again."""
        self.flush()
        if self._client is None or self.run_id is None or self._broken:
            return
        try:
            self._client.set_terminated(self.run_id, status)
        except Exception as error:
            self._give_up(error)

    def _log(self) -> None:
        """What the thread does: opens the run, then logs record after record."""
        try:
            client, run_id = self._open()
            while (record := self._waiting.get()) is not None and not self._broken:
                log_records(client, run_id, [record], self._known)
        except Exception as error:  # MLflow, its database and its server fail in many ways
            self._give_up(error)
        finally:
            self._stop_monitor()

    def _open(self) -> tuple["MlflowClient", str]:
        if self._client is None or self.run_id is None:
            client = client_for(self.params, self.root)
            self.run_id = run_for(client, self.params, self.root, self.training_key)
            self._known = logged_points(client, self.run_id)
            self._client = client
        if self.params.system_metrics:
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
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._broken:
            return
        self._broken = True
        logger.warning(
            "training metrics do not reach MLflow (%s: %s); training goes on, and registration "
            "logs them from the artifact",
            type(error).__name__,
            error,
        )
