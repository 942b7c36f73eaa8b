"""Progress bars of transformers, which a command or a log has no place for."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_bars() -> Generator[None, None, None]:
    """Within, transformers shows no progress while it loads or saves a model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
