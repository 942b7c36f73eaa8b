"""transformers while a trainer has told it of DeepSpeed's stage 3, without DeepSpeed."""

from contextlib import contextmanager

from transformers.integrations import deepspeed


class Stage3:
    """What a trainer tells of, as far as loading asks."""

    def __init__(self):
        self.config = {"zero_optimization": {"stage": 3}}

    def is_zero3(self):
        return True


@contextmanager
def models_dealt_out():
    """Whatever `from_pretrained` loads now, it deals out: here it fails, for want of DeepSpeed."""
    told = Stage3()
    deepspeed.set_hf_deepspeed_config(told)
    try:
        yield
        assert deepspeed.is_deepspeed_zero3_enabled()  # loading has left it as it was told
        assert deepspeed.deepspeed_config() is told.config
    finally:
        deepspeed.unset_hf_deepspeed_config()
