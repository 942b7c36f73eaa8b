"""The command that starts the training processes, and their environment variables.

    one process, no accelerate_config    python -m tasks.training JOB
    else                                 accelerate launch ... -m tasks.training JOB

accelerate's launcher first imports torch (2 to 3 seconds), and for one process would only set a few
variables, so these are set here instead. Every flag is given, so that neither accelerate's defaults
nor a config file in the user's home changes a run.
"""

import logging
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tasks.errors import ParamsError
from tasks.training.params import TrainingParams

logger = logging.getLogger("tasks.training")

ROOT = Path(__file__).parents[3]
ACCELERATE_CONFIGS = ROOT / "params" / "accelerate"
GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
OF_A_LAUNCHER = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)|MPI_LOCAL(RANKID|NRANKS)"
    r"|(ACCELERATE|PMI|OMPI_COMM_WORLD|MV2_COMM_WORLD|PET|TORCHELASTIC)_.*"
)
"""Variables in which accelerate, torchrun, MPI or a cluster gives a process its rank. The child
does not inherit them: the pipeline's rank is not the training's."""


def launch_command(params: TrainingParams, job: Path) -> list[str]:
    """The command line, as in the table above.

    Raises:
        ParamsError: the accelerate config cannot be used here.
    """
    several = params.num_processes > 1
    module = ["-m", "tasks.training", str(job)]
    if not several and params.accelerate_config is None:
        return [sys.executable, *module]
    config = accelerate_config(params)
    check_accelerate_config(config, cpu=on_cpu(params))
    flags = {
        "--config_file": str(config),
        "--num_processes": str(params.num_processes),
        "--num_machines": "1",
        "--mixed_precision": "no",  # RewardConfig's bf16 decides
        "--dynamo_backend": "no",
        "--num_cpu_threads_per_process": str(params.torch_num_threads),
    }
    if several:
        flags["--main_process_port"] = "0"
        flags["--log_dir"] = str(job.parent / "launcher")  # else torch leaves one in /tmp
    words = [word for pair in flags.items() for word in pair]
    if on_cpu(params) and not several:
        words.append("--cpu")
    elif several and params.accelerate_config is None:
        words.append("--multi_gpu")  # also the way to several processes on a CPU
    return [sys.executable, "-m", "accelerate.commands.launch", *words, *module]


def accelerate_config(params: TrainingParams) -> Path:
    """Path of the accelerate config that `accelerate launch` gets: the user's, or a bundled one."""
    if params.accelerate_config is not None:
        return Path(params.accelerate_config).resolve()
    return ACCELERATE_CONFIGS / ("ddp.yaml" if params.num_processes > 1 else "one_gpu.yaml")


def tell_of_flags(params: TrainingParams) -> None:
    """Warns of what the user's own accelerate config says otherwise than the launch's flags."""
    config = accelerate_config(params)
    if config.parent == ACCELERATE_CONFIGS:
        return
    found: Any = yaml.safe_load(config.read_bytes())
    processes = found.get("num_processes", params.num_processes)
    half = found.get("mixed_precision") or "no"  # YAML reads a bare no as false
    bf16 = not on_cpu(params) if params.bf16 is None else params.bf16
    for said, differs, decides in (
        (f"num_processes {processes}", processes != params.num_processes, "num_processes"),
        (f"mixed_precision {half}", half not in ("no", "bf16" if bf16 else "no"), "bf16"),
    ):
        if differs:
            logger.warning("%s of %s is not read: training.%s decides", said, config, decides)


def check_accelerate_config(config: Path, *, cpu: bool = False) -> None:
    """Checks that this stage can run the config here; `cpu`: training is on CPUs.

    Raises:
        ParamsError: it does not exist, is no YAML mapping, asks for several machines, or for
            DeepSpeed without the package or on CPUs.
    """
    if not config.is_file():
        raise ParamsError(f"training.accelerate_config {config} does not exist")
    try:
        found: Any = yaml.safe_load(config.read_bytes())
    except yaml.YAMLError as error:
        raise ParamsError(f"{config} is no YAML: {error}; correct it") from error
    if not isinstance(found, dict):
        raise ParamsError(f"{config} is no accelerate config: expected a mapping of its fields")
    if found.get("num_machines", 1) != 1:
        raise ParamsError(
            f"{config} asks for {found['num_machines']} machines, but the training stage runs on "
            "one; start a script with RewardTrainer on each machine with accelerate launch"
        )
    if found.get("distributed_type") == "DEEPSPEED" and find_spec("deepspeed") is None:
        raise ParamsError(
            f"{config} asks for DeepSpeed, but the package deepspeed is not installed; install it "
            "(pip install deepspeed), or take params/accelerate/fsdp2.yaml"
        )
    if found.get("distributed_type") == "DEEPSPEED" and cpu:
        raise ParamsError(
            f"{config} asks for DeepSpeed, which accelerate leaves out on a CPU; take "
            "params/accelerate/fsdp2.yaml there"
        )


def environment(params: TrainingParams) -> dict[str, str]:
    """Environment of the child: fixed threads and hash seed, no hub access, unbuffered output, and
    no rank from another launcher."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    fixed = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(params.torch_num_threads),
        "ACCELERATE_USE_CPU": str(on_cpu(params)).lower(),
        "ACCELERATE_MIXED_PRECISION": "no",  # RewardConfig's bf16 decides
        "ACCELERATE_DYNAMO_BACKEND": "NO",
    }
    own = {name: at for name, at in os.environ.items() if not OF_A_LAUNCHER.fullmatch(name)}
    return {**own, **fixed}


def on_cpu(params: TrainingParams) -> bool:
    """Whether training will run on the CPU, decided without importing torch."""
    if params.device == "auto":
        return not any(Path(device).exists() for device in GPU_DEVICES)
    return params.device == "cpu"
