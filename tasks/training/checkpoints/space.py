"""Turns errors of a full or failing disk during a save into one that says where, and how much.

safetensors and torch raise errors of their own there, without a path or a number of bytes.
"""

import errno
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tasks.errors import TrainingError
from tasks.training.checkpoints.checkpoint import checkpoints, is_committed

NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
SIGNS = (
    *(f"(os error {number})" for number in NUMBERS),
    "PytorchStreamWriter failed",
    "inline_container",
)
"""How a file that could not be finished shows in the errors of safetensors and of torch."""


@contextmanager
def explained_full_disk(
    what: str, directory: Path, needed: int, advice: str
) -> Generator[None, None, None]:
    """Around writing `what`, about `needed` bytes, below `directory`.

    Raises:
        TrainingError: there was no room; says where, how much is needed and free, and what to do.
    """
    try:
        yield
    except Exception as error:
        if not is_full_disk(error):
            raise
        free = shutil.disk_usage(standing(directory)).free
        raise TrainingError(
            f"{what} could not be written to {directory}: it needs about {_megabytes(needed)}, and "
            f"{_megabytes(free)} are free ({reason(error)}); {advice}"
        ) from error


@contextmanager
def room_for_checkpoint(directory: Path, needed: int) -> Generator[None, None, None]:
    """As `explained_full_disk`; what was written of the checkpoint gives its room back."""
    whole = [
        c.step for c in checkpoints(directory.parent) if is_committed(c) and c.path != directory
    ]
    stands = (
        f"checkpoint-{max(whole)} stands, and running again continues from it"
        if whole
        else "no checkpoint stands before it"
    )
    advice = f"{stands}. Make room, or give the run a larger disk"
    try:
        with explained_full_disk(directory.name, directory.parent, needed, advice):
            yield
    except TrainingError as error:
        if is_full_disk(error):
            shutil.rmtree(directory, ignore_errors=True)
        raise


def is_full_disk(error: BaseException) -> bool:
    """Whether an error, or one that it came of, says that a file could not be finished."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in NUMBERS:
            return True
        if any(sign in str(seen) for sign in SIGNS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def reason(error: BaseException) -> str:
    """The system's own words for what stopped the writing, where the error has them."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return text if len(text) <= 120 else text[:119] + "…"


def checkpoint_bytes(model: Any, optimizer: Any) -> int:
    """Bytes of a checkpoint's two large files: the weights that are saved, and their optimizer's.

    Of a model with adapters those alone are saved.
    """
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    saved = trained if hasattr(model, "peft_config") else parameters
    inner = getattr(optimizer, "optimizer", optimizer)
    states: Any = inner.state.values() if inner is not None else ()
    kept = [v for state in states for v in state.values() if isinstance(v, torch.Tensor)]
    return sum(tensor.nbytes for tensor in (*saved, *kept))


def standing(directory: Path) -> Path:
    """The directory, or the nearest one above it that exists."""
    return next((p for p in (directory, *directory.parents) if p.exists()), Path("/"))


def _megabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"
