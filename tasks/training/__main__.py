"""The training process: `python -m tasks.training JOB.json`, alone or under accelerate's launcher.

Reads the job, trains from the newest valid checkpoint if there is one, and writes the reward model.
Exit codes: 0 done, 75 stopped on request with a checkpoint saved, 1 failed (the error is in
error.json and on standard error). Every process of a distributed run runs this.
"""

import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact.durable import explained_disk_errors
from tasks.errors import EXIT_INTERRUPTED, Interrupted, PipelineError, TrainingError
from tasks.training.checkpoints.stopping import StopRequest
from tasks.training.params import TrainingParams, reward_config_fields
from tasks.training.process.job import Job, read_job, write_failure
from tasks.training.process.supervisor import leash_and_lock

if TYPE_CHECKING:
    from tasks.training.settings.config import RewardConfig
    from tasks.training.trainer import RewardTrainer


def main(arguments: list[str]) -> int:
    """Runs the job of a file; returns the exit code."""
    try:
        if len(arguments) != 1:
            raise TrainingError(f"found {len(arguments)} arguments, expected the file of one job")
        job = read_job(Path(arguments[0]))
    except TrainingError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    try:
        _train(job)
    except Interrupted as stop:
        write_failure(job, stop)
        return EXIT_INTERRUPTED
    except PipelineError as error:
        write_failure(job, error)
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    except BaseException as error:
        traceback.print_exc()
        write_failure(job, error)
        return 1
    return 0


def _train(job: Job) -> None:
    request = StopRequest()
    request.on_signals()
    descriptors = leash_and_lock()
    _see_one_gpu()
    if descriptors:
        request.on_broken_leash(descriptors[0])
    run(job, request)


def run(job: Job, request: StopRequest) -> None:
    """Trains the job's model and writes it to the job's output.

    Raises:
        PipelineError: an input cannot be used, the run diverged, or it was stopped.
    """
    from tasks.training.batches.pairs import open_pairs
    from tasks.training.handover.contract import rendering_policy, write_contract
    from tasks.training.handover.export import export
    from tasks.training.process.progress import say

    trainer = _trainer(job, request)
    checkpoint = trainer.newest_checkpoint()
    if trainer.is_world_process_zero():
        say(
            f"training on {trainer.args.device}, {'bfloat16' if trainer.args.bf16 else 'float32'}: "
            f"{len(trainer.train_dataset):,} pairs, head {trainer.head.origin}"
            + (f", from checkpoint-{checkpoint.step}" if checkpoint else "")
        )
    with explained_disk_errors(Path(job.output)):
        trainer.train(checkpoint)
        request.saves = False
        tokens = trainer.interval.tokens()  # a sum over processes: none may be missing
        trainer.gather_model()
        if trainer.is_world_process_zero():
            policy = rendering_policy(Path(job.pairs))
            trainer.formats = tuple(policy["formats"] or ())
            export(trainer, Path(job.output), tokens)
            pairs: Any = open_pairs(Path(job.pairs) / "train")
            write_contract(Path(job.output) / "model", pairs or (), **policy)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


def _trainer(job: Job, request: StopRequest) -> "RewardTrainer":
    """The trainer of the job.

    Raises:
        TrainingError: there are no training pairs, or none to evaluate though params ask for it.
    """
    from transformers import PrinterCallback
    from transformers.utils import logging as transformers_logging

    from tasks.training.batches.pairs import open_pairs
    from tasks.training.checkpoints.callbacks import StopCallback
    from tasks.training.model.adapter import base_of, lora_config
    from tasks.training.model.families import check_positions
    from tasks.training.model.tokenizer import load_tokenizer
    from tasks.training.process.progress import ProgressCallback
    from tasks.training.trainer import RewardTrainer

    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers_logging.disable_progress_bar()
    params = job.training_params
    args = _reward_config(job, params)
    train, held_out = (open_pairs(Path(job.pairs) / split) for split in ("train", "eval"))
    if train is None:
        raise TrainingError(f"{job.pairs} holds no training pairs")
    if held_out is None and params.evaluates:
        raise TrainingError(
            f"{job.pairs} holds no held-out pairs, which training.eval_strategy or eval_on_start "
            "asks to evaluate; leave these out, or hold some out (conversion.eval_fraction)"
        )
    trainer = RewardTrainer(
        model=job.model,
        args=args,
        train_dataset=train,
        eval_dataset=held_out if params.evaluates else None,
        processing_class=load_tokenizer(job.tokenizer),
        callbacks=[StopCallback(request)],
        peft_config=lora_config(params.lora) if params.lora else None,
    )
    model: Any = trainer.model
    check_positions(base_of(model), held_out, "eval")  # the evaluation stage always scores them
    trainer.base_name = job.base
    trainer.job = {**job.identity, "world_size": args.world_size}
    logs = Path(job.output) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressCallback(trainer, logs / "metrics.jsonl"))
    return trainer


def _reward_config(job: Job, params: TrainingParams) -> "RewardConfig":
    """The config of the job; also sets torch's threads.

    Raises:
        TrainingError: another number of processes runs than params say.
    """
    import torch

    from tasks.training.settings.config import RewardConfig

    torch.set_num_threads(params.torch_num_threads)
    args = RewardConfig(**config_arguments(job, params, torch.cuda.is_available()))
    if args.world_size != params.num_processes:
        raise TrainingError(
            f"{params.num_processes} processes were asked for, but {args.world_size} run; check "
            "num_processes and the accelerate config"
        )
    return args


def config_arguments(job: Job, params: TrainingParams, gpu: bool) -> dict[str, Any]:
    """The arguments of RewardConfig for the job; `gpu`: whether torch finds a GPU.

    Raises:
        TrainingError: `device` is cuda, and there is none.
    """
    if params.device == "cuda" and not gpu:
        raise TrainingError(
            "training.device is cuda, but torch finds no GPU here; run where there is one, or set "
            "training.device to auto"
        )
    on_gpu = gpu and params.device != "cpu"
    fields = reward_config_fields(params)
    fields.setdefault("gradient_checkpointing", None if on_gpu else False)
    fields.setdefault("bf16", None if on_gpu else False)
    if fields["gradient_checkpointing"] is not False:
        fields.setdefault("gradient_checkpointing_kwargs", {"use_reentrant": False})
    fields.setdefault("data_seed", params.seed)
    if not on_gpu:
        fields["dataloader_pin_memory"] = False
    return {
        **fields,
        "output_dir": str(job.checkpoints),
        "use_cpu": not on_gpu,
        "max_length": None,  # the tokenization stage has filtered by length
        "report_to": "none",
        "disable_tqdm": True,
        "ddp_find_unused_parameters": False,
        "log_level": "warning",
    }


def _see_one_gpu() -> None:
    """Shows one GPU to a single process; with more, Trainer would use DataParallel threads."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[0]


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of libraries must not keep a finished or failed process alive
