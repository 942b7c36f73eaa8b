"""Turns off the progress bars of transformers, which do not belong in logs."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_bars() -> Generator[None, None, None]:
    """Within, transformers shows no progress bars while it loads or saves a model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
