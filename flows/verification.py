"""What `verify-model` is asked for, looked at before the model is loaded."""

from pathlib import Path

from tasks.errors import ModelError


def check_asked(directory: Path, device: str) -> None:
    """Refuses what cannot be verified; what is wrong with the contract is the replay's to tell.

    Raises:
        ModelError: there is no such directory or device.
    """
    from tasks.training.model.device import check_device

    if not directory.is_dir():
        found = "is no directory" if directory.exists() else "does not exist"
        raise ModelError(f"{directory} {found}; expected the directory of a reward model")
    try:
        check_device(device)
    except ValueError as error:
        raise ModelError(str(error)) from error
