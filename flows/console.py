"""What the commands share: options, logging, and how errors are reported."""

import logging
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated

import typer

from tasks.errors import EXIT_INTERRUPTED, Interrupted, ParamsError, PipelineError, shown

EXIT_FAILED = 1
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@contextmanager
def errors_in_one_sentence() -> Generator[None, None, None]:
    """Our own errors are printed without traceback and set the exit code; others keep theirs.

    SIGTERM and Ctrl-C interrupt: the training child saves its state before this ends.
    """
    heard = [n for n in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    except (Interrupted, _Stopped) as error:
        print(f"interrupted: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from error
    except PipelineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_logging() -> None:
    """Logs to stderr, from the level in REWARD_PIPELINE_LOG on."""
    level = os.environ.get("REWARD_PIPELINE_LOG", "").strip().upper() or "INFO"
    if level not in LEVELS:
        print(
            f"ParamsError: REWARD_PIPELINE_LOG is {shown(level)}; expected one of "
            f"{', '.join(LEVELS)}",
            file=sys.stderr,
        )
        sys.exit(EXIT_FAILED)
    logging.basicConfig(stream=sys.stderr, level="WARNING", format="%(message)s")
    for name in ("tasks", "flows"):
        logging.getLogger(name).setLevel(level)


def usable_root(root: Path) -> Path:
    """The root, made absolute: a directory, or a place where one can be made.

    Raises:
        ParamsError: it is neither, or this user may not read what is there.
    """
    if scheme := re.match(r"([a-z][a-z0-9+]+):/+", str(root)):  # a path leaves one slash of two
        from tasks.ingestion.redaction import redacted

        url = redacted(f"{scheme[1]}://{str(root)[scheme.end() :]}")
        raise ParamsError(f"root {url} is a URL; give a directory of this machine")
    try:
        root = root.resolve()
        places = (root / "data", root, *root.parents)
        nearest = next(place for place in places if place.exists())
        if not nearest.is_dir():
            raise ParamsError(f"root {root}: {nearest} is no directory; give one as --root")
        if not root.exists():
            with TemporaryDirectory(dir=nearest):
                pass  # it can be written to
    except ParamsError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL character
        cause = getattr(error, "strerror", None) or error
        raise ParamsError(
            f"root {root} is no directory, and none can be made there ({cause}); give another as "
            "--root"
        ) from error
    _check_open(root)
    return root


def _check_open(root: Path) -> None:
    """Refuses a store on a disk that is not mounted, or that this user may not read: it would look
    empty."""
    for place in (root / "data", root / "mlruns"):
        if place.is_symlink() and not place.exists():
            raise ParamsError(
                f"root {root}: {place} is a link to {place.readlink()}, where nothing is; mount "
                "its disk, or make a directory there, or give another as --root"
            )
        if place.exists() and not os.access(place, os.R_OK | os.X_OK, effective_ids=True):
            raise ParamsError(
                f"root {root}: user id {os.geteuid()} may not read {place}; have its owner open "
                "it (users of one store share a group, with umask 002), or give another as --root"
            )


def _usable_root(root: Path) -> Path:
    with errors_in_one_sentence():
        return usable_root(root)


class _Stopped(KeyboardInterrupt):
    """Raised wherever the program is: no library's `except Exception` takes it for a failure."""


def _interrupt(signal_number: int, _frame: FrameType | None) -> None:
    raise _Stopped(
        f"stopped by {signal.Signals(signal_number).name}; run the same command again to continue"
    )


Root = Annotated[
    Path,
    typer.Option(
        envvar="REWARD_PIPELINE_ROOT",
        help="Directory that holds data/ and mlruns/.",
        callback=_usable_root,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
