"""The preflight, before the first step: one step on the longest batch; the model saved and loaded.

So what would fail after hours fails now: too little memory, a full or read-only disk, a model that
scores otherwise once it is saved and loaded. All that the trial step changes (weights, optimizer,
RNG states, metrics) is restored bit for bit, so the run is the same with and without it.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tasks.training.batches.pieces import items_in
from tasks.training.checkpoints.space import checkpoint_bytes
from tasks.training.handover.roundtrip import check_round_trip, check_writable
from tasks.training.layout.loader import items_of, longest_batch
from tasks.training.preflight.forecast import (
    Forecast,
    Lengths,
    disk_need,
    forget_peak,
    free_disk,
    item_lengths,
    mean_share,
    peak_memory,
)
from tasks.training.preflight.out_of_memory import attempt
from tasks.training.preflight.recomputing import keep_activations, nearly_full
from tasks.training.preflight.undoing import put_back, random_states_kept

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer


@dataclass(frozen=True)
class Rehearsal:
    """What was measured of one step on the longest batch."""

    seconds: float
    tokens: int
    """Of the batch, padding included."""
    state_bytes: int
    """Size of the optimizer's state."""
    items: int
    """Pairs or comparisons of the batch; under `max_tokens_per_micro_batch` perhaps fewer than
    `per_device_train_batch_size`."""
    peak_bytes: int
    """`peak_memory`: on a GPU of this step, on a CPU of the process so far."""


def preflight(trainer: "RewardTrainer", model: nn.Module, loader: Any, steps: int) -> Forecast:
    """Makes all checks and returns the forecast; the trainer is left as it was.

    `model`: the trainer's, wrapped by accelerate and on its device. `loader`: its training
    DataLoader. `steps`: optimizer steps of the run.

    Raises:
        TrainingError: too little memory or disk, an output directory that cannot be written, or a
            saved model that does not score as the one in memory.
    """
    started = time.monotonic()
    directory = Path(trainer.args.output_dir or ".")
    lengths = None if trainer.sharded else item_lengths(items_of(loader))
    rehearsed = None
    with random_states_kept():
        if trainer.is_world_process_zero():
            check_writable(directory)
            if lengths is not None:
                shortest = items_of(loader)[int(lengths.argmin())]
                check_round_trip(trainer, directory, shortest)
        trainer.accelerator.wait_for_everyone()
        if lengths is not None:
            rehearsed = _rehearse(trainer, model, loader, lengths)
    found = _forecast(trainer, lengths, rehearsed, steps, started)
    if trainer.is_world_process_zero():
        found.check_disk(directory)
    return found


def _rehearse(
    trainer: "RewardTrainer", model: nn.Module, loader: Any, lengths: Lengths
) -> Rehearsal:
    """One step on the longest batch, repeated with less memory until it fits in every process."""
    size = trainer.args.per_device_train_batch_size
    batch: dict[str, Any] = trainer._prepare_inputs(  # pyright: ignore[reportPrivateUsage]
        longest_batch(loader, lengths, size)
    )
    items = trainer._get_num_items_in_batch([batch], trainer.args.device)  # pyright: ignore[reportPrivateUsage]

    optimizer: Any = trainer.optimizer
    on_gpu = trainer.args.device.type == "cuda"
    twice = on_gpu and not optimizer.state  # the second backward has the states beside it
    args: Any = trainer.args
    alone = args.gradient_accumulation_steps == 1 and args.max_tokens_per_micro_batch is None
    seconds: list[float] = []

    def work() -> torch.Tensor:
        started = time.monotonic()
        with trainer.accelerator.no_sync(model):  # a process that fails leaves none waiting
            loss = trainer.forward_backward(model, batch, items)
        if twice:
            optimizer.step()
            if alone:
                model.zero_grad()  # as the trainer does between steps
            started = _now()  # a device's first step is slower than any other
            with trainer.accelerator.no_sync(model):
                trainer.forward_backward(model, batch, items)
        optimizer.step()
        seconds.append(_now() - started)
        return loss

    if args.decides_checkpointing:
        keep_activations(trainer)
    with put_back(trainer, model) as undo_step:
        while True:
            forget_peak(args.device)
            short = attempt(work) is None or (
                trainer.keeps_activations and nearly_full(args.device)
            )
            if not _on_any_process(trainer, short):
                break
            undo_step()
            trainer.use_less_memory()
        peak, _ = peak_memory(args.device)
        states = [s for entry in optimizer.state.values() for s in entry.values()]
        size = sum(s.nbytes for s in states if isinstance(s, torch.Tensor))
    tokens = len(batch["plan"].input_ids) if "plan" in batch else batch["input_ids"].numel()
    return Rehearsal(seconds[-1], tokens, size, items_in(batch), peak)


def _now() -> float:
    """A monotonic clock in seconds, read after all queued work of the GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic()


def _on_any_process(trainer: "RewardTrainer", flag: bool) -> bool:
    if trainer.args.world_size == 1:
        return flag
    vote = torch.tensor([int(flag)], device=trainer.args.device)
    return bool(trainer.accelerator.reduce(vote, "sum").item())  # pyright: ignore[reportAttributeAccessIssue]


def _forecast(
    trainer: "RewardTrainer",
    lengths: Lengths | None,
    rehearsed: Rehearsal | None,
    steps: int,
    started: float,
) -> Forecast:
    args = trainer.args
    peak, total = peak_memory(args.device)
    seconds = None
    if lengths is not None and rehearsed is not None:
        size, padded = args.per_device_train_batch_size, trainer.layout == "padded"
        share = mean_share(lengths, size, rehearsed.items, padded=padded)
        seconds = rehearsed.seconds * share * steps * args.gradient_accumulation_steps
        peak = rehearsed.peak_bytes
        peak += 0 if args.device.type == "cuda" else rehearsed.state_bytes
    parameters: Any = list(trainer.model.parameters())  # pyright: ignore[reportOptionalMemberAccess]
    whole = sum(p.nbytes for p in parameters)
    saved = checkpoint_bytes(trainer.model, None)
    if not args.save_only_model:
        trained = sum(p.nbytes for p in parameters if p.requires_grad)
        saved += rehearsed.state_bytes if rehearsed else 2 * trained
    return Forecast(
        steps=steps,
        seconds=seconds,
        longest_tokens=rehearsed.tokens if rehearsed else 0,
        longest_seconds=rehearsed.seconds if rehearsed else None,
        memory_bytes=peak,
        memory_total_bytes=total,
        disk_bytes=disk_need(args, trainer.state, saved, whole),
        disk_free_bytes=free_disk(Path(args.output_dir or ".")),
        halvings=trainer.halvings,
        keeps_activations=trainer.keeps_activations,
        preflight_seconds=time.monotonic() - started,
    )
