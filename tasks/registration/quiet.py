"""MLflow without telemetry, output, warnings about its own libraries, or minutes of retries."""

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quietly() -> Generator[None, None, None]:
    """Within, no library warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def prepare_environment() -> None:
    """Sets the environment variables that MLflow reads; must be called before it is imported.

    No telemetry, no pickles, nothing on stdout (scripts read it); and a server that is down costs
    seconds, not the minutes of MLflow's own retries, unless the user sets them.
    """
    os.environ |= {
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
