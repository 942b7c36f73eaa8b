"""What a training does when it runs out of memory: the same optimizer step again, with less.

    1. gradient checkpointing on, if the preflight had switched it off (`recomputing.py`)
    2. micro-batches of a half, a quarter, an eighth of the pairs, their gradients accumulated

Global batch, order of the pairs and loss stay the same; the result is bit-equal to that of a run
started with the smaller micro-batch and as many more accumulation steps. Under
`max_tokens_per_micro_batch`, each micro-batch is cut by its own number of pairs.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers import Trainer

from tasks.errors import PipelineError, TrainingError
from tasks.training.batches.pieces import items_in, split
from tasks.training.guard import FiniteGuard
from tasks.training.layout.loader import FILLER
from tasks.training.metrics.interval import IntervalSums
from tasks.training.preflight.recomputing import recompute_activations
from tasks.training.process.engines import accumulate_only

MOST_HALVINGS = 3
SIGNS = ("DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED", "out of memory")
"""Texts of the RuntimeErrors that mean out of memory, besides torch.OutOfMemoryError."""
UNCUT = "lower per_device_train_batch_size and raise gradient_accumulation_steps: memory is short"


class MemoryAdaptiveTrainer(Trainer):
    """Trainer that repeats a step with less memory when it ran out of it."""

    interval: IntervalSums
    """Metrics of the unfinished logging interval."""
    guard: FiniteGuard
    halvings: int = 0
    """How often the micro-batch has been halved."""
    keeps_activations: bool = False
    """Whether the preflight has switched gradient checkpointing off, since there is room."""
    keeping: Sequence[nn.Module] = ()
    """The modules in which it was switched off."""

    @property
    def _budget(self) -> int | None:
        """`max_tokens_per_micro_batch`; None where micro-batches have a fixed number of pairs."""
        return getattr(self.args, "max_tokens_per_micro_batch", None)

    def batch_adapted(self) -> dict[str, int] | None:
        """For training.json: the halvings, and the batch size and accumulation steps that they
        amount to, or the token budget; None if there were none."""
        if not self.halvings:
            return None
        if self._budget is not None:
            return {"halvings": self.halvings, "max_tokens_per_micro_batch": self._budget}
        pieces = 2**self.halvings
        return {
            "halvings": self.halvings,
            "per_device_train_batch_size": -(-self.args.per_device_train_batch_size // pieces),
            "gradient_accumulation_steps": self.args.gradient_accumulation_steps * pieces,
        }

    def use_less_memory(self) -> None:
        """Switches gradient checkpointing on or, if it was on, halves the micro-batches.

        Raises:
            TrainingError: the micro-batch cannot be halved any further.
        """
        if self.keeps_activations:
            recompute_activations(self)
        else:
            self.halve()

    def halve(self) -> None:
        """Halves the micro-batch from here on.

        Raises:
            TrainingError: it cannot be halved any further.
        """
        size = self.args.per_device_train_batch_size
        if self._budget is not None:
            if self.halvings == MOST_HALVINGS:
                raise TrainingError(
                    f"out of memory with micro-batches of max_tokens_per_micro_batch "
                    f"{self._budget}, halved {self.halvings} times; lower it, set "
                    "gradient_checkpointing, use lora, or take a device with more memory"
                )
        elif self.halvings == MOST_HALVINGS or 2**self.halvings >= size:
            left = -(-size // 2**self.halvings)
            raise TrainingError(
                f"out of memory with micro-batches of {left} pairs, halved {self.halvings} times "
                f"from per_device_train_batch_size {size}; set gradient_checkpointing, use lora, "
                "lower tokenization.max_length, or take a device with more memory"
            )
        self.halvings += 1

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
        """The micro-batches of one optimizer step, kept until it is done."""
        samples, items = super().get_batch_samples(*args, **kwargs)
        self._batches, self._taken = samples, 0
        return samples, items

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Forward and backward pass of one micro-batch. Out of memory: uses less, and repeats all
        micro-batches of the step so far, whose gradients are lost.

        Raises:
            TrainingError: out of memory, and the step cannot be repeated (`_check_repeatable`), or
                its micro-batches cannot be halved any further.
        """
        if self._taken == 0:  # a resumed run has its random state by now
            self._before = copy.deepcopy(self.interval), random_state()
        self._taken += 1
        loss = attempt(lambda: self.forward_backward(model, inputs, num_items_in_batch))
        while loss is None:
            self._check_repeatable()
            self.use_less_memory()
            loss = attempt(lambda: self._step_again(model, num_items_in_batch))
        return loss

    def _check_repeatable(self) -> None:
        """Refuses to repeat a step that other processes, or DeepSpeed, would not repeat.

        Raises:
            TrainingError: there are several processes, or DeepSpeed is in use.
        """
        if self.args.world_size > 1:
            why = "the others cannot follow"
        elif self.is_deepspeed_enabled:
            why = "DeepSpeed holds what it has computed of the step"
        else:
            return
        smaller = (
            "per_device_train_batch_size and raise gradient_accumulation_steps by the same factor"
            if self._budget is None
            else "max_tokens_per_micro_batch"
        )
        raise TrainingError(
            f"process {self.args.process_index} ran out of memory in step "
            f"{self.state.global_step + 1}; {why}, so the run ends here: lower {smaller}"
        )

    def forward_backward(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any
    ) -> torch.Tensor:
        """The loss of one micro-batch; its gradients are accumulated, in pieces after halvings."""
        if not self.halvings or FILLER in inputs:  # a filler is one item already
            return super().training_step(model, inputs, num_items_in_batch)
        given = self._budget is None
        whole = self.args.per_device_train_batch_size if given else items_in(inputs)
        size = -(-whole // 2**self.halvings)
        pieces = split(inputs, size, UNCUT, getattr(self.args, "pad_to_multiple_of", None))
        losses: list[torch.Tensor] = []
        for piece in pieces[:-1]:
            with accumulate_only(self.accelerator, model):
                losses.append(super().training_step(model, piece, num_items_in_batch))
        losses.append(super().training_step(model, pieces[-1], num_items_in_batch))
        return torch.stack(losses).sum()

    def _step_again(self, model: nn.Module, num_items_in_batch: Any) -> torch.Tensor:
        model.zero_grad()
        self.interval = copy.deepcopy(self._before[0])
        self.guard.forget_batches()
        set_random_state(self._before[1])
        losses = [
            self.forward_backward(model, batch, num_items_in_batch)
            for batch in self._batches[: self._taken]
        ]
        return losses[-1]


def attempt(work: Callable[[], torch.Tensor]) -> torch.Tensor | None:
    """What `work` returns; None if it ran out of memory, and then its own memory is freed."""
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory; False for this project's own, which end the run."""
    if isinstance(error, PipelineError):
        return False
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def random_state() -> list[torch.Tensor]:
    """torch's RNG states, of the CPU and, if there is one, of this process's GPU."""
    gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *gpu]


def set_random_state(state: list[torch.Tensor]) -> None:
    """Restores what `random_state` returned."""
    torch.set_rng_state(state[0])
    for gpu in state[1:]:
        torch.cuda.set_rng_state(gpu)
