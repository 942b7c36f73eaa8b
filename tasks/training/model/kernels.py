"""Fused kernels of the package liger-kernel: whether a run can have them, and which of them.

transformers applies them to the model that it trains. Two of them belong to language models alone:
a fused cross entropy would put a language model's forward in place of a reward model's, and is
always switched off here. The others (norms, rotations, gated layers) are what they replace.
"""

import logging
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tasks.errors import ParamsError

logger = logging.getLogger(__name__)

OF_LANGUAGE_MODELS = ("fused_linear_cross_entropy", "cross_entropy")


def liger_settings(settings: Mapping[str, Any] | None, *, on_gpu: bool) -> dict[str, Any]:
    """The `liger_kernel_config` of a reward model.

    Raises:
        ParamsError: the package is absent, no GPU is used, or a kernel is asked for that would
            make the model a language model again.
    """
    if find_spec("liger_kernel") is None:
        raise ParamsError(
            "use_liger_kernel needs the package liger-kernel, which is not installed; install it "
            "(pip install liger-kernel) or leave use_liger_kernel out"
        )
    if not on_gpu:
        raise ParamsError(
            "use_liger_kernel needs a GPU, and training runs on a CPU; leave use_liger_kernel out"
        )
    unfit = [name for name in OF_LANGUAGE_MODELS if (settings or {}).get(name)]
    if unfit:
        raise ParamsError(
            f"liger_kernel_config asks for {unfit[0]}, which puts a language model's loss in place "
            "of the reward; leave it out"
        )
    return {**(settings or {}), **dict.fromkeys(OF_LANGUAGE_MODELS, False)}


def tell_of_liger(model_type: str, families: Collection[str] | None = None) -> None:
    """Warns if liger has no kernels for a family of models.

    `families`: the `model_type`s that it has kernels for; None: those of the installed package.
    """
    supported: Any = families
    if supported is None:
        patches: Any = import_module("liger_kernel.transformers.monkey_patch")
        supported = patches.MODEL_TYPE_TO_APPLY_LIGER_FN
    if model_type not in supported:
        logger.warning(
            "use_liger_kernel changes nothing: liger-kernel has no kernels for the family %s",
            model_type,
        )
