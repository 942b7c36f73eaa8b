"""A model loaded whole, whatever engine the process trains with.

Once a trainer has told transformers of DeepSpeed's stage 3, `from_pretrained` deals every new
model out to all processes, together: one that loads a model alone waits for ever, and all others
get a model without its weights, for an engine to gather. A reward model to be checked, or to score
another model's training, is wanted as it is saved.

Travels inside the registered model: it may import only modules that travel with it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from transformers.integrations import deepspeed


@contextmanager
def loaded_whole() -> Generator[None, None, None]:
    """While it lasts, transformers knows of no engine that deals models out."""
    told: Any = deepspeed._hf_deepspeed_config_weak_ref  # pyright: ignore[reportPrivateUsage]
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        engine = told and told()
        if engine is not None:
            deepspeed.set_hf_deepspeed_config(engine)
