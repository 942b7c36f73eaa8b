"""MLflow without its warnings about its own use of its libraries."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quietly() -> Generator[None, None, None]:
    """Within, no library warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
