"""A loss or gradient that is not finite ends the run, with an error that names the step's pairs.

On a CPU a step is checked before the optimizer applies it. On a GPU its numbers are copied
asynchronously and checked one step later, and always before anything is logged or saved: no step
waits for the device, and no checkpoint holds broken weights.
"""

from collections import deque
from dataclasses import dataclass, field

import torch
from torch import nn

from tasks.errors import TrainingError, some

MAX_NAMED_PAIRS = 64
MAX_NAMED_WEIGHTS = 5


@dataclass(frozen=True)
class _Step:
    number: int
    pairs: list[str]
    values: torch.Tensor
    """Loss and gradient norm, float32 `[2]`, on the host once `copied` has passed."""
    copied: torch.cuda.Event | None


@dataclass
class FiniteGuard:
    """Watches loss and gradient norm of every step."""

    device: torch.device
    norm_may_overflow: bool = False
    """float16's scaler expects infinite gradients and skips such steps itself."""
    _pairs: list[str] = field(default_factory=list[str])
    _loss: torch.Tensor | None = None
    _unchecked: deque[_Step] = field(default_factory=deque[_Step])

    def saw_batch(self, pairs: list[str], loss: torch.Tensor) -> None:
        """Notes the pairs of one micro-batch and its loss."""
        self._pairs += pairs
        self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()

    def forget_batches(self) -> None:
        """Forgets the micro-batches of the current step, which are computed again."""
        self._pairs, self._loss = [], None

    def finish_step(self, number: int, norm: torch.Tensor | float) -> None:
        """Ends a step, whose gradient has this norm.

        Raises:
            TrainingError: this step (on a GPU, the one before) is not finite.
        """
        loss = self._loss if self._loss is not None else torch.zeros((), device=self.device)
        norm = torch.as_tensor(norm, device=self.device)
        if self.norm_may_overflow:
            norm = torch.zeros_like(norm)
        values = torch.stack([loss.float(), norm.float().reshape(())])
        self._unchecked.append(_Step(number, self._pairs, *_to_host(values)))
        self._pairs, self._loss = [], None
        while len(self._unchecked) > (1 if values.is_cuda else 0):
            _check(self._unchecked.popleft())

    def settle(self) -> None:
        """Checks all steps that have not been checked.

        Raises:
            TrainingError: a step was not finite.
        """
        while self._unchecked:
            _check(self._unchecked.popleft())


def check_weights(model: nn.Module, number: int) -> None:
    """Checks trainable weights before they are saved; waits for the device once.

    A step with finite loss and gradient can ruin them if the learning rate is far too high.

    Raises:
        TrainingError: weights are not finite; names them.
    """
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.numel()]
    finite = torch.stack(
        [torch.isfinite(p.detach()).all().to(named[0][1].device) for _, p in named]
    )
    broken = [name for (name, _), good in zip(named, finite.tolist(), strict=True) if not good]
    if broken:
        raise TrainingError(
            f"step {number}: {some(broken, MAX_NAMED_WEIGHTS)} hold values that are NaN or "
            "infinite, so nothing is saved; lower learning_rate, or train in float32. The "
            "checkpoint before is sound"
        )


def _to_host(values: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
    if not values.is_cuda:
        return values.cpu(), None
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()
    return host, copied


def _check(step: _Step) -> None:
    if step.copied is not None:
        step.copied.synchronize()
    loss, norm = step.values.tolist()
    if bool(torch.isfinite(step.values).all()):
        return
    named = some(step.pairs, MAX_NAMED_PAIRS) or "(pairs without ids)"
    raise TrainingError(
        f"step {step.number}: loss {loss}, gradient norm {norm}: not finite, so the run ends here. "
        f"Pairs of this step: {named}. Look at them (an extreme margin or weight?), lower "
        "learning_rate, or train in float32; the checkpoint before this step is sound"
    )
