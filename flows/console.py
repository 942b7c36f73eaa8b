"""What the commands share: where they look, how they speak, and how they fail."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tasks.errors import EXIT_INTERRUPTED, Interrupted, PipelineError

EXIT_FAILED = 1

Root = Annotated[
    Path, typer.Option(envvar="REWARD_PIPELINE_ROOT", help="Directory of data/ and mlruns/.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]


@contextmanager
def told_in_one_sentence() -> Generator[None, None, None]:
    """Errors raised on purpose end in their sentence and an exit code; others keep the traceback.

    SIGTERM counts as an interruption: the training child saves its state before this ends.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except Interrupted as error:
        print(f"interrupted: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from error
    except PipelineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED) from error


def _interrupt(signal_number: int, _frame: FrameType | None) -> None:
    raise Interrupted(
        f"stopped by {signal.Signals(signal_number).name}; run the same command again to continue"
    )
