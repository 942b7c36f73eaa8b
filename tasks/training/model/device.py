"""A device that a model is to be moved to, tried before any weight is read.

Travels inside the registered model: it must not import any other part of the project.
"""

import textwrap

import torch


def check_device(device: str) -> None:
    """Refuses a device on which torch cannot compute here.

    Raises:
        ValueError: there is no such device, or no driver for it.
    """
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, ImportError) as error:
        if device.startswith("cuda") and not torch.cuda.is_available():
            reason = "but torch finds no GPU here"
        else:
            reason = f"which torch cannot use here ({textwrap.shorten(str(error), 100)})"
        raise ValueError(f"device is {device!r}, {reason}; say 'cpu'") from error
