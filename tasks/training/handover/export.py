"""What training leaves: a plain reward model directory, the adapter, the exact history, numbers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peft import PeftModel
from transformers import PreTrainedModel

from tasks.artifact.durable import write_json, writing
from tasks.training.checkpoints.space import explained_full_disk
from tasks.training.guard import check_weights
from tasks.training.handover.card import HUB_NAME, base_name, model_card
from tasks.training.handover.determinism import determinism
from tasks.training.model.adapter import base_of, merged, merged_anew
from tasks.training.model.quantized import is_quantized
from tasks.training.model.score_head import head_digest
from tasks.training.process.progress import is_timing

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

PROGRESS_SUMMARY = "train_runtime"


def export(trainer: "RewardTrainer", output: Path, tokens: int) -> None:
    """Writes model/, adapter/ (LoRA), metrics.jsonl and, last, training.json below `output`.

    `tokens`: those of all processes.
    """
    if not trainer.sharded:
        check_weights(trainer.model, trainer.state.global_step)  # pyright: ignore[reportArgumentType]
    needed = sum(parameter.nbytes for parameter in trainer.model.parameters())  # pyright: ignore[reportOptionalMemberAccess]
    advice = "the last checkpoint stands. Make room and run again: only the export is left to do"
    with explained_full_disk("the trained model", output, needed, advice):
        _export(trainer, output, tokens)


def _export(trainer: "RewardTrainer", output: Path, tokens: int) -> None:
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    tokenizer: Any = trainer.processing_class
    history = exact_history(trainer.state.log_history)
    card = model_card(trainer, history, "model", merged=True)
    if isinstance(model, PeftModel):
        _save_adapter(model, output / "adapter", base_name(trainer))
        quantized = is_quantized(model)
        model = merged_anew(output / "adapter", model.unload()) if quantized else merged(model)
    save_model(model, tokenizer, output / "model")
    (output / "model" / "README.md").write_text(card, "utf-8")
    with writing(output / "metrics.jsonl") as path:
        path.write_text("".join(json.dumps(record) + "\n" for record in history), "utf-8")
    write_json(output / "training.json", summary(trainer, model, history, tokens))


def _save_adapter(model: PeftModel, directory: Path, base: str) -> None:
    """The adapter, with the place of its base model where that is the hub.

    A path of this machine is no part of the result.
    """
    base_of(model).name_or_path = ""
    for config in model.peft_config.values():
        config.base_model_name_or_path = None  # peft would fill in the name above
    model.save_pretrained(str(directory), safe_serialization=True)
    (directory / "README.md").unlink(missing_ok=True)
    if hub := HUB_NAME.fullmatch(base):  # named before, it would have been asked for its config
        path = directory / "adapter_config.json"
        named = {"base_model_name_or_path": hub["repository"], "revision": hub["commit"]}
        config = json.loads(path.read_text("utf-8")) | named
        path.write_text(json.dumps(config, indent=2, sort_keys=True), "utf-8")


def save_model(model: PreTrainedModel, tokenizer: Any, directory: Path) -> None:
    """A complete model directory that transformers loads without this project."""
    model.config._name_or_path = ""  # pyright: ignore[reportPrivateUsage]
    model.config.use_cache = True
    model.save_pretrained(str(directory))
    tokenizer.save_pretrained(str(directory))


def exact_history(log_history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The logged records without figures that depend on the clock or on an interruption.

    Names are sorted: a checkpoint does not keep their order.
    """
    return [
        {"step": record["step"], **{k: record[k] for k in sorted(record) if not is_timing(k)}}
        for record in log_history
        if PROGRESS_SUMMARY not in record
    ]


def summary(
    trainer: "RewardTrainer", model: PreTrainedModel, history: list[dict[str, Any]], tokens: int
) -> dict[str, Any]:
    """The numbers of a finished run; equal for an undisturbed and a resumed one."""
    trained = [record for record in history if "loss" in record]
    evaluated = [record for record in history if any(k.startswith("eval_") for k in record)]
    pairs = len(trainer.train_dataset) if trainer.train_dataset is not None else 0  # pyright: ignore[reportArgumentType]
    return {
        "rows": pairs,
        "global_step": trainer.state.global_step,
        "epoch": trainer.state.epoch,
        "train_pairs": pairs,
        "num_tokens": tokens,
        "first": trained[0] if trained else None,
        "last": trained[-1] if trained else None,
        "last_evaluation": evaluated[-1] if evaluated else None,
        "batch_adapted": trainer.batch_adapted(),
        "determinism": determinism(trainer),
        "parameters": base_of(model).num_parameters(),
        "head": {
            "origin": trainer.head.origin,
            "sha256_before": trainer.head.sha256,
            "sha256": head_digest(model),
        },
    }
