"""Whether the model that a run would leave scores as the one in memory, found out before the run.

The model is saved as the export saves it, loaded as evaluation loads it, and compared: every tensor
bit for bit, and the reward of one sequence bit for bit.
"""

import copy
import logging
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from transformers.integrations import liger

from tasks.artifact.durable import explained_disk_errors, writing
from tasks.errors import ArtifactError, TrainingError
from tasks.training.model.adapter import merged
from tasks.training.model.compiling import as_written
from tasks.training.model.loading import load_reward_model
from tasks.training.model.quantized import is_quantized
from tasks.training.preflight.out_of_memory import attempt
from tasks.training.scoring import body_dtype, score

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

logger = logging.getLogger(__name__)

PLACE = "preflight"
ROUNDING = 1e-6
"""Relative difference of a number that two devices computed alike, in float32."""


def check_writable(directory: Path) -> None:
    """Finds out whether files can be written, made to last and renamed.

    Raises:
        TrainingError: they cannot.
    """
    try:
        with writing(directory / f"{PLACE}.probe") as path:
            path.write_bytes(b"probe")
        (directory / f"{PLACE}.probe").unlink()
    except OSError as error:
        raise TrainingError(
            f"checkpoints cannot be written to {directory}: {error.strerror}; give another "
            "directory or mend its permissions"
        ) from error


def check_round_trip(trainer: "RewardTrainer", directory: Path, item: Any) -> None:
    """Saves the model below `directory`, loads and scores it, and takes it away again.

    Raises:
        TrainingError: the loaded model is not the one that was saved, or the disk is full.
    """
    live: Any = trainer.accelerator.unwrap_model(trainer.model)
    if is_quantized(live):
        return  # merged only at the export, where the quantized weights are given up
    training = live.training
    place = directory / PLACE
    shutil.rmtree(place, ignore_errors=True)
    try:
        with explained_disk_errors(directory):
            if attempt(lambda: _round_trip(trainer, live, place, item)) is None:
                logger.warning(
                    "not checked before the run, as memory ran out: whether the model that will be "
                    "saved scores as the one that is trained; golden sequences tell once it is"
                )
    except ArtifactError as error:
        raise TrainingError(str(error)) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        live.train(training)


def _round_trip(trainer: "RewardTrainer", live: Any, place: Path, item: Any) -> torch.Tensor:
    from tasks.training.handover.export import save_model

    plain: Any = merged(copy.deepcopy(live)) if isinstance(live, PeftModel) else live
    with _config_kept(plain):
        save_model(plain, trainer.processing_class, place)
    loaded: Any = load_reward_model(
        place,
        dtype=body_dtype(plain),
        need_head=True,
        attn_implementation=plain.config._attn_implementation,
    ).model
    found = loaded.state_dict()
    for name, tensor in plain.state_dict().items():
        if name not in found or not torch.equal(found[name], tensor.cpu()):
            raise TrainingError(
                f"{name} of the base model does not survive being saved and loaded, so the trained "
                "model would score otherwise; is it of a family that transformers saves whole?"
            )
    pair = item[0] if isinstance(item, list) else item
    ids = torch.tensor([list(pair["chosen_input_ids"])], device=trainer.args.device)
    loaded.to(trainer.args.device)
    if trainer.args.use_liger_kernel:  # the live one computes with its kernels, which round apart
        liger.apply_liger_kernel(loaded, trainer.args.liger_kernel_config)
    now, then = (_reward(trainer, model, ids) for model in (plain, loaded))
    if not torch.equal(now, then):
        _take_tables(plain, loaded)
        then = _reward(trainer, loaded, ids)
    if not torch.equal(now, then):
        raise TrainingError(
            f"the model scores {now.item()} now, but {then.item()} after it has been saved and "
            "loaded: what it computes is not all in its files"
        )
    return now


def _reward(trainer: "RewardTrainer", model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), trainer.accelerator.autocast(), as_written(model):
        return score(model.eval(), ids, torch.ones_like(ids))


def _take_tables(live: Any, loaded: Any) -> None:
    """Gives the loaded model the live one's tables that no file holds, where they differ by
    rounding alone: one that was made on a GPU has frequencies that a CPU rounds otherwise."""
    own = dict(loaded.named_buffers())
    for name, table in live.named_buffers():
        mine = own.get(name, torch.empty(0))
        alike = mine.shape == table.shape and mine.is_floating_point()
        if alike and torch.allclose(mine, table.to(mine), rtol=ROUNDING, atol=0):
            mine.copy_(table)


@contextmanager
def _config_kept(model: Any) -> Generator[None, None, None]:
    """Saving writes into the model's config; here it is a copy that is written into."""
    kept = model.config
    model.config = copy.deepcopy(kept)
    try:
        yield
    finally:
        model.config = kept
