"""A model loaded whole, whatever engine the process trains with.

After a trainer has set up DeepSpeed's ZeRO stage 3, `from_pretrained` partitions every new model
over all processes. A process that loads a model alone would wait for the others forever, and the
others would get a model without its weights, which an engine has to gather. A reward model that is
checked, or that scores rows of another model's training, is needed as it is saved.

Travels inside the registered model: it may import only modules that travel with it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from transformers.integrations import deepspeed


@contextmanager
def loaded_whole() -> Generator[None, None, None]:
    """Inside, transformers partitions no model."""
    reference: Any = deepspeed._hf_deepspeed_config_weak_ref  # pyright: ignore[reportPrivateUsage]
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        engine = reference and reference()
        if engine is not None:
            deepspeed.set_hf_deepspeed_config(engine)
