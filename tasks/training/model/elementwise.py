"""Norms and gated layers of decoders, in float32 on CPUs, with fewer passes over memory.

    RMSNorm     n = x / sqrt(mean(x²) + ε)      y = w n
                ∂x = (w ∂y - n mean(w ∂y n)) / sqrt(mean(x²) + ε),   ∂w = Σ ∂y n
    gated MLP   y = down(silu(gate x) · up x)

autograd keeps every step of these, and makes a tensor for each. Here a norm keeps its input and one
number a row, a gated layer its input and the two products, and what comes between is computed again
or in place: a third less time over memory. The forward passes do what the modules of transformers
do, number for number, and only modules that gave the very same numbers in a probe compute so, by
whatever name a family calls them.

Sources: Zhang and Sennrich 2019 (RMSNorm), Shazeer 2020 (SwiGLU).
"""

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

from tasks.training.model.products import (
    OneDnnLinear,
    gradient_of_rows,
    gradients_of_weights,
    is_left_to_torch,
    is_plain,
    product,
)

PROBED_ROWS = 3
GATED = ("gate_proj", "up_proj", "down_proj")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def use_fewer_passes(model: nn.Module) -> int:
    """How many norms and gated layers of the model compute so from now on.

    They keep their class, their parameters and their hooks; call it after `use_onednn`.
    """
    agrees: dict[Any, bool] = {}
    changed = 0
    for module in model.modules():
        forward = _forward_of(module)
        if forward is None or "forward" in vars(module):
            continue
        kind = _kind(module)
        if kind not in agrees:
            agrees[kind] = _agrees(module, forward)
        if agrees[kind]:
            module.forward = partial(forward, module)  # a bound method could not be pickled
            changed += 1
    return changed


def use_usual_passes(module: nn.Module) -> None:
    """Undoes `use_fewer_passes`: other devices have no use for it, and torch.compile would compile
    each of these forwards anew."""
    for part in module.modules():
        own = vars(part).get("forward")
        if isinstance(own, partial) and own.func in OURS:
            del part.forward


def _forward_of(module: nn.Module) -> Any:
    names = {name for name, _ in module.named_children()}
    if names == {*GATED, "act_fn"}:
        activation = type(module.act_fn)
        return partial(_gated_forward, activation=activation) if _is_gated(module) else None
    if type(module).__name__.endswith("RMSNorm") and not names:
        epsilon = _epsilon(module)
        return None if epsilon is None else partial(_norm_forward, epsilon=epsilon)
    return None


def _kind(module: nn.Module) -> Any:
    """A key that modules share which compute alike: classes and plain settings."""
    settings = (item for item in vars(module).items() if isinstance(item[1], bool | int | float))
    return type(module), type(getattr(module, "act_fn", None)), *sorted(settings)


def _agrees(module: nn.Module, forward: Any) -> bool:
    """Whether `forward` gives exactly the numbers of the module's own, for random inputs.

    The module is in training mode for this, so that its dropout shows.
    """
    weight: Any = next(module.parameters())
    if not is_plain(weight) or weight.numel() == 0 or is_left_to_torch():
        return False
    rng = torch.Generator().manual_seed(0)
    shape = 1, PROBED_ROWS, weight.shape[-1]
    inputs = torch.randn(shape, generator=rng, dtype=torch.float32, device="cpu")
    modes = {part: part.training for part in module.modules()}
    try:
        with torch.no_grad():
            expected = type(module).forward(module.train(), inputs)
            return torch.equal(forward(module, inputs), expected)
    finally:
        for part, mode in modes.items():
            part.training = mode


def _epsilon(norm: nn.Module) -> float | None:
    """The ε of a norm whose only parameter is one weight per column; None for others."""
    parameters = dict(norm.named_parameters())
    if set(parameters) != {"weight"} or parameters["weight"].dim() != 1:
        return None
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", None))


def _norm_forward(self: Any, hidden_states: torch.Tensor, *, epsilon: float) -> torch.Tensor:
    """`[..., H]` -> `[..., H]`."""
    plain = is_plain(hidden_states) and hidden_states.dim() > 1 and is_plain(self.weight)
    if not plain or is_left_to_torch():
        return type(self).forward(self, hidden_states)
    return _Norm.apply(hidden_states, self.weight, epsilon)  # pyright: ignore[reportReturnType]


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        scale = x.pow(2).mean(-1, keepdim=True).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight, scale = ctx.saved_tensors
        of_x, of_weight, _ = ctx.needs_input_grad
        normed = x * scale
        along = grad * normed
        weight_grad = along.flatten(0, -2).sum(0) if of_weight else None
        if not of_x:
            return None, weight_grad, None
        mean = (along @ weight).div_(-weight.numel())[..., None]
        return (grad * weight).addcmul_(normed, mean).mul_(scale), weight_grad, None


def _is_gated(module: Any) -> bool:
    """Whether its three layers are oneDNN's, without bias, and neither they nor the activation have
    hooks or a forward of their own."""
    layers: list[Any] = [getattr(module, name) for name in GATED]
    plain = all(type(x) is OneDnnLinear and getattr(x, "bias", None) is None for x in layers)
    return plain and all(map(_is_as_made, (*layers, module.act_fn)))


def _is_as_made(module: nn.Module) -> bool:
    """Whether the module has its class's forward, and no hooks."""
    return "forward" not in vars(module) and not any(getattr(module, hooks) for hooks in HOOKS)


def _gated_forward(self: Any, x: torch.Tensor, *, activation: type) -> torch.Tensor:
    """`[..., in]` -> `[..., in]`."""
    gated = _is_gated(self) and type(self.act_fn) is activation
    weights = [getattr(self, name).weight for name in GATED] if gated else []
    if not (weights and x.numel() and all(map(is_plain, (x, *weights)))) or is_left_to_torch():
        return type(self).forward(self, x)
    rows: Any = _Gated.apply(x.reshape(-1, x.shape[-1]), *weights)
    return rows.view(*x.shape[:-1], -1)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor
    ) -> torch.Tensor:
        gated, raised = product(x, gate), product(x, up)  # (T, inner)
        ctx.save_for_backward(x, gate, up, down, gated, raised)
        return product(silu(gated).mul_(raised), down)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, gate, up, down, gated, raised = ctx.saved_tensors
        of_x, of_gate, of_up, of_down = ctx.needs_input_grad
        grad = grad.contiguous()
        of_inner = gradient_of_rows((grad, down))
        of_gated = of_inner * raised
        torch.ops.aten.silu_backward.grad_input(of_gated, gated, grad_input=of_gated)
        active = silu(gated)
        of_raised = of_inner.mul_(active)
        both = gradients_of_weights(x, of_gated, of_raised) if of_gate or of_up else (None, None)
        return (
            gradient_of_rows((of_gated, gate), (of_raised, up)) if of_x else None,
            *both,
            gradients_of_weights(active.mul_(raised), grad)[0] if of_down else None,
        )


OURS = (_norm_forward, _gated_forward)
"""The functions that `use_fewer_passes` puts in place of a module's forward."""
