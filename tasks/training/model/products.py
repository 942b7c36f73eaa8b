"""Matrix products of linear layers on x86 CPUs, in float32, by oneDNN instead of the BLAS.

    forward   y = x Wᵀ      [T, in] · [in, out]
    backward  ∂x = ∂y W     [T, out] · [out, in]
              ∂W = ∂yᵀ x    [out, T] · [T, in]

torch computes these with MKL, whose float32 kernels leave half of an AMD core's vector units idle;
oneDNN, which is a part of the same build of torch, writes its kernels for the CPU that it finds.
Both round like float32 sums of products do, in another order. Everything else (half precision,
autocast, GPUs, other processors) goes the way that it went. Travels inside the registered model: it
must not import any other part of the project.
"""

import os
import platform
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

CACHED_KERNELS = "64"
"""A flat row has a length of its own, and each length its kernels of a third of a megabyte: those
of one pass through the layers are enough, where oneDNN would keep a thousand."""


def use_onednn(model: nn.Module) -> int:
    """How many linear layers of the model compute by oneDNN from now on.

    They stay `nn.Linear` with the same parameters; subclasses with products of their own are left
    as they are.
    """
    if not has_onednn():
        return 0
    plain = [module for module in model.modules() if type(module) is nn.Linear]
    if plain:  # read at the first product
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", CACHED_KERNELS)
    for module in plain:
        module.__class__ = OneDnnLinear
    return len(plain)


def has_onednn() -> bool:
    """Whether this build of torch has oneDNN, on a processor that it is the faster one for, and
    nobody has switched it off."""
    mkldnn: Any = torch.backends.mkldnn
    return (
        platform.machine().lower() in ("x86_64", "amd64")
        and mkldnn.is_available()
        and mkldnn.enabled
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class OneDnnLinear(nn.Linear):
    """A linear layer whose float32 products on a CPU are oneDNN's."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`[..., in]` -> `[..., out]`."""
        weight, bias = self.weight, self.bias
        plain = _is_plain(input) and _is_plain(weight) and input.numel() > 0
        if not plain or torch.is_autocast_enabled("cpu"):
            return linear(input, weight, bias)
        if not torch.is_grad_enabled():
            return _product(input, weight, bias)
        return _Linear.apply(input, weight, bias)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Not one of a GPU, of half precision, of a distributed or another special kind."""
    return (
        tensor.dtype is torch.float32
        and tensor.device.type == "cpu"
        and type(tensor) in (torch.Tensor, nn.Parameter)
    )


def _product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`x weightᵀ + bias`."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)  # [..., out]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        grad = grads[0].contiguous()  # a sum's is one number, with strides of nought
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _product(grad, weight.t(), None)
        rows = grad.reshape(-1, grad.shape[-1])  # (T, out)
        if ctx.needs_input_grad[1]:
            of_weight = _product(rows.t(), x.reshape(-1, x.shape[-1]).t(), None)
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(0)
        return of_x, of_weight, of_bias
