"""Whether the processes of a run see one directory: those of several machines may not.

Every process writes its own part of a checkpoint, and the first one commits them all.
"""

import uuid
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from tasks.errors import TrainingError


def check_shared(directory: Path, accelerator: Accelerator) -> None:
    """Returns if what the first process writes to the directory is there for all of them.

    Raises:
        TrainingError: it is not; says so in every process.
    """
    if accelerator.num_processes == 1:
        return
    name = [uuid.uuid4().hex]
    broadcast_object_list(name)
    mark = directory / f".seen-by-all-{name[0]}"
    if accelerator.is_main_process:
        directory.mkdir(parents=True, exist_ok=True)
        mark.touch()
    accelerator.wait_for_everyone()
    sees = torch.tensor([int(mark.exists())], device=accelerator.device)
    seeing: torch.Tensor = accelerator.reduce(sees, "sum")  # pyright: ignore[reportAssignmentType]
    if accelerator.is_main_process:
        mark.unlink()
    if seeing.item() < accelerator.num_processes:
        raise TrainingError(
            f"output_dir {directory} is not one directory for all {accelerator.num_processes} "
            f"processes: {seeing.item()} of them see what the first one writes there, and each "
            "writes its part of a checkpoint; give a directory that all machines share, or set "
            "save_strategy to 'no'"
        )
