"""Bodies in 4 or 8 bits, for adapters to be trained on (QLoRA), by the package bitsandbytes.

The package is asked for by name and never imported here: whoever does not quantize needs no such
package. What is trained is what is exported: adapters learn to correct the rounding of the body,
so they are added into the rounded weights, read back as float32, and not into the original ones.
"""

from importlib.util import find_spec
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from tasks.errors import ParamsError

BITS = ("load_in_4bit", "load_in_8bit")
CPU_SHORTCUT = "support_avx512bf16_for_cpu"
"""Switch of bitsandbytes' 4-bit layers on CPUs with AVX-512 BF16."""


def with_quantization(options: dict[str, Any], quantization: Any) -> dict[str, Any]:
    """Arguments of from_pretrained, with the quantization that is asked for either way.

    Raises:
        ParamsError: it is asked for twice, or the package that does it is absent.
    """
    if quantization is not None and "quantization_config" in options:
        raise ParamsError(
            "quantization_config is given twice, as an argument and in model_init_kwargs; leave "
            "one of them out"
        )
    config = options.get("quantization_config") if quantization is None else quantization
    if config is None:
        return options
    fields: dict[str, Any] = config if isinstance(config, dict) else vars(config)
    method = str(getattr(fields.get("quant_method"), "value", fields.get("quant_method")))
    if method in ("bitsandbytes", "None") and find_spec("bitsandbytes") is None:
        raise ParamsError(
            "quantization_config needs the package bitsandbytes, which is not installed; install "
            "it (pip install 'bitsandbytes>=0.50'), or train plain LoRA adapters"
        )
    if isinstance(config, dict) and "quant_method" not in config:
        if not any(config.get(bits) for bits in BITS):
            raise ParamsError(
                f"quantization_config is {config}; expected {' or '.join(BITS)} to be true in it, "
                "or the quant_method of another package"
            )
        config = {"quant_method": "bitsandbytes", **config}
    return {**options, "quantization_config": config}


def compute_exactly(model: PreTrainedModel) -> None:
    """Keeps 4-bit layers from the shortcut that bitsandbytes takes on some CPUs.

    With bitsandbytes 0.50 the first evaluation repacks a layer for a kernel in bfloat16 that knows
    no gradients: training after it would pass none through the body, without a word, and rewards
    would differ between training and evaluation. Without the shortcut both are float32.
    """
    for module in model.modules():
        if hasattr(module, CPU_SHORTCUT):
            setattr(module, CPU_SHORTCUT, False)


def check_trainable(model: PreTrainedModel | PeftModel) -> None:
    """Refuses rounded weights with nothing beside them that could learn.

    Raises:
        ParamsError: as above.
    """
    by_rounding = getattr(getattr(model, "hf_quantizer", None), "is_qat_trainable", False)
    if is_quantized(model) and not isinstance(model, PeftModel) and not by_rounding:
        raise ParamsError(
            "the body's weights are quantized, and no adapters are there to be trained; give some "
            "(peft_config, or lora in the training section), or leave quantization_config out"
        )


def is_quantized(model: Any) -> bool:
    """Whether the weights of a model's body are kept in fewer bits than it computes in."""
    return bool(getattr(model, "is_quantized", False))


def dequantized(model: PreTrainedModel) -> PreTrainedModel:
    """The model with plain float32 weights of the values that its rounded ones stand for."""
    plain: Any = model.dequantize(dtype=torch.float32)
    plain.is_quantized = False
    if hasattr(plain.config, "quantization_config"):
        del plain.config.quantization_config
    return plain.float()
