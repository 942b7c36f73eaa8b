"""Matrix products of linear layers on x86 CPUs, in float32, by the faster of two libraries.

    forward   y = x Wᵀ      [T, in] · [in, out]
    backward  ∂x = ∂y W     [T, out] · [out, in]
              ∂W = ∂yᵀ x    [out, T] · [T, in]

torch computes these with its BLAS, MKL, on AMD processors with AVX-512 at half the speed of oneDNN
(measured: 100 GFLOP/s a core against 180 to 240), which is a part of the same build of torch and
writes its kernels for the CPU that it finds. Elsewhere, on Intel's and on AMD's before AVX-512, MKL
is the faster one for long sums over rows (166 against 128, 84 against 54), so gradients are left to
it there. Outputs are oneDNN's everywhere: a row of them has the same bits whatever rows stand
beside it (from oneDNN 3.12 of torch 2.13 on; 3.10 of torch 2.11 sums in another order where rows
are few). Both round like float32 sums of products do, in another order.
Everything else (half precision, autocast, GPUs, other processors) is left to torch as it was.
Travels inside the registered model: it must not import any other part of the project.
"""

import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

CACHED_KERNELS = "64"
"""A flat row has a length of its own, and each length its kernels of a third of a megabyte: those
of one pass through the layers are enough, where oneDNN would keep a thousand."""

BLOCK_ROWS = 256
CPU_INFO = Path("/proc/cpuinfo")
"""Names the vendor, on Linux."""


def use_onednn(model: nn.Module) -> int:
    """How many linear layers of the model compute by oneDNN from now on.

    They stay `nn.Linear` with the same parameters; subclasses with products of their own are left
    as they are.
    """
    if not has_onednn():
        return 0
    plain = [module for module in model.modules() if type(module) is nn.Linear]
    if any(is_plain(module.weight) for module in plain):  # read at the first product
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", CACHED_KERNELS)
    for module in plain:
        module.__class__ = OneDnnLinear
    return len(plain)


def has_onednn() -> bool:
    """Whether this build of torch has oneDNN, on an x86 processor."""
    return (
        platform.machine().lower() in ("x86_64", "amd64")
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class OneDnnLinear(nn.Linear):
    """A linear layer whose float32 products on a CPU are oneDNN's."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`[..., in]` -> `[..., out]`."""
        weight, bias = self.weight, self.bias
        if not (is_plain(input) and is_plain(weight) and input.numel()) or is_left_to_torch():
            return linear(input, weight, bias)
        compute = _Linear.apply if torch.is_grad_enabled() else product
        # The function sees two dimensions: a view that it returned could not be changed in place.
        rows: Any = compute(input.reshape(-1, input.shape[-1]), weight, bias)  # (T, out)
        return rows.view(*input.shape[:-1], -1)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is an ordinary float32 tensor on a CPU, of no subclass (such as DTensor)."""
    return (
        tensor.dtype is torch.float32
        and tensor.device.type == "cpu"
        and type(tensor) in (torch.Tensor, nn.Parameter)
    )


def is_left_to_torch() -> bool:
    """Whether torch has to choose the kernels now: under autocast, under torch.compile, or with
    oneDNN switched off."""
    mkldnn: Any = torch.backends.mkldnn
    return torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or not mkldnn.enabled


def product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`x weightᵀ + bias`, `[T, out]` of `[T, in]` and `[out, in]`.

    A row alone would be summed in another order than beside others, so it is computed twice.
    """
    if x.shape[0] == 1:
        return product(x.expand(2, -1).contiguous(), weight, bias)[:1].clone()  # no view of it
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def gradient_of_rows(*parts: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """`Σ ∂y W`, `[T, in]`, over pairs of `∂y [T, out]` and `W [out, in]`."""
    (grad, weight), *others = parts
    if gradients_are_of_mkl():
        total = grad @ weight
        for grad, weight in others:
            total.addmm_(grad, weight)
        return total
    total = product(grad, weight.t())
    for grad, weight in others:
        total.add_(product(grad, weight.t()))
    return total


def gradients_of_weights(x: torch.Tensor, *grads: torch.Tensor) -> list[torch.Tensor]:
    """`∂yᵀ x`, `[out, in]`, for every `∂y [T, out]`, all equally wide, of `x [T, in]`.

    For oneDNN the narrower is transposed.
    """
    if gradients_are_of_mkl():
        return [grad.t() @ x for grad in grads]
    if grads[0].shape[1] <= x.shape[1]:
        return [product(transposed(grad), x.t()) for grad in grads]
    rows = transposed(x)
    return [product(rows, grad.t()).t() for grad in grads]


@cache
def gradients_are_of_mkl() -> bool:
    """Whether torch's BLAS is MKL, and the processor one on which that is fast: Intel's, or one
    without AVX-512."""
    processor = platform.processor()
    with suppress(OSError):
        processor += CPU_INFO.read_text()
    fast = "GenuineIntel" in processor or torch.backends.cpu.get_cpu_capability() != "AVX512"
    return torch.backends.mkl.is_available() and fast


def transposed(x: torch.Tensor) -> torch.Tensor:
    """A copy `[n, T]` of `[T, n]`, by blocks of rows that a core's cache holds."""
    copy = x.new_empty(x.shape[1], x.shape[0])
    for begin in range(0, x.shape[0], BLOCK_ROWS):
        copy[:, begin : begin + BLOCK_ROWS] = x[begin : begin + BLOCK_ROWS].t()
    return copy


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        of_x, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if of_weight else None, weight if of_x else None)
        return product(x, weight, bias)  # (T, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()  # the gradient of a sum is one number with strides of 0
        of_x = None if weight is None else gradient_of_rows((grad, weight))
        of_weight = None if x is None else gradients_of_weights(x, grad)[0]
        of_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias
