"""Every file of params/accelerate/ is one that accelerate reads, and what it says is what runs."""

import os
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)
from datasets import Dataset

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.params import TrainingParams
from tasks.training.process import command
from tasks.training.process.command import (
    ACCELERATE_CONFIGS,
    accelerate_config,
    check_accelerate_config,
    environment,
    launch_command,
    on_cpu,
    tell_of_flags,
)
from tests.training.tiny import make_rows

KINDS = {
    "one_gpu": "NO",
    "ddp": "MULTI_GPU",
    "fsdp2": "FSDP",
    "zero3": "DEEPSPEED",
    "multi_node": "MULTI_GPU",
}


def test_there_is_a_file_for_each_way():
    assert {path.stem for path in ACCELERATE_CONFIGS.iterdir()} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_accelerate_launch_reads_it(name, monkeypatch):
    path = str(ACCELERATE_CONFIGS / f"{name}.yaml")
    config = load_config_from_file(path)
    assert config.distributed_type.value == KINDS[name]
    # a machine with two GPUs, as far as the reading of arguments goes
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("accelerate.commands.launch.is_bf16_available", lambda *_: True)
    parser = launch_command_parser()
    words = parser.parse_args(["--config_file", path, "script.py"])
    args, defaults, _ = _validate_launch_command(words)
    assert args.use_fsdp == (name == "fsdp2")
    assert args.use_deepspeed == (name == "zero3")
    assert args.num_machines == (2 if name == "multi_node" else 1)
    if name == "fsdp2":
        assert int(args.fsdp_version) == 2
    assert defaults is not None


def test_several_machines_and_absent_packages_are_refused_by_the_stage(tmp_path, monkeypatch):
    several = str(ACCELERATE_CONFIGS / "multi_node.yaml")
    with pytest.raises(ParamsError, match="asks for 2 machines, but the training stage runs on"):
        launch_command(TrainingParams(accelerate_config=several), Path("job.json"))
    zero3 = ACCELERATE_CONFIGS / "zero3.yaml"
    try:
        import deepspeed  # noqa: F401
    except ImportError:
        with pytest.raises(ParamsError, match="the package deepspeed is not installed"):
            check_accelerate_config(zero3)
    else:
        check_accelerate_config(zero3)
    monkeypatch.setattr(command, "find_spec", lambda name: name)
    with pytest.raises(ParamsError, match=r"zero3\.yaml asks for DeepSpeed, which accelerate leav"):
        launch_command(TrainingParams(accelerate_config=str(zero3), device="cpu"), Path("job.json"))
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(ParamsError, match="is no accelerate config"):
        check_accelerate_config(tmp_path / "list.yaml")
    for content in (b"a: [1", b"a: \xff"):
        (tmp_path / "none.yaml").write_bytes(content)
        with pytest.raises(ParamsError, match=r"none\.yaml is no YAML: "):
            check_accelerate_config(tmp_path / "none.yaml")


def test_every_flag_of_a_launch_is_given():
    config = str(ACCELERATE_CONFIGS / "one_gpu.yaml")
    own = TrainingParams(device="cpu", accelerate_config=config)
    command = launch_command(own, Path("job.json"))
    assert "--cpu" in command
    for flag in ("--num_processes", "--num_machines", "--mixed_precision", "--dynamo_backend"):
        assert flag in command
    several = launch_command(TrainingParams(device="cpu", num_processes=2), Path("a/job.json"))
    assert several[several.index("--log_dir") + 1] == "a/launcher"  # not torch's own place
    assert "--multi_gpu" in several
    assert several[several.index("--config_file") + 1] == str(ACCELERATE_CONFIGS / "ddp.yaml")
    assert accelerate_config(TrainingParams()) == Path(config)  # what the key of one process has
    assert "--cpu" not in several


@pytest.mark.parametrize(
    ("said", "bf16", "told"),
    [
        (
            "num_processes: 4\nmixed_precision: bf16",
            False,
            ["num_processes 4 of", "mixed_precision bf16 of"],
        ),
        ("num_processes: 2\nmixed_precision: bf16", True, []),
        ("num_processes: 2\nmixed_precision: fp16", True, ["mixed_precision fp16 of"]),
        ("num_processes: 2\nmixed_precision: no", True, []),
        ("distributed_type: MULTI_GPU", None, []),
    ],
)
def test_what_an_accelerate_config_of_one_s_own_says_otherwise_is_told(
    tmp_path, caplog, said, bf16, told
):
    own = tmp_path / "own.yaml"
    own.write_text(said)
    tell_of_flags(TrainingParams(num_processes=2, bf16=bf16, accelerate_config=str(own)))
    ours = str(ACCELERATE_CONFIGS / "one_gpu.yaml")
    for config in (None, ours):
        tell_of_flags(TrainingParams(num_processes=2, accelerate_config=config))
    assert [text.partition(" /")[0] for text in caplog.messages] == told


@pytest.mark.parametrize("gpu", [False, True])
def test_a_device_that_is_left_open_is_the_gpu_where_a_driver_shows_one(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(command, "GPU_DEVICES", (tmp_path / "kfd", tmp_path / "nvidiactl"))
    if gpu:
        (tmp_path / "nvidiactl").touch()
    found = {device: on_cpu(TrainingParams(device=device)) for device in ("auto", "cpu", "cuda")}
    assert found == {"auto": not gpu, "cpu": True, "cuda": False}
    told = environment(TrainingParams())["ACCELERATE_USE_CPU"]
    assert told == str(not gpu).lower()


@pytest.mark.parametrize("given", [None, "", "/own::/other:"])
def test_the_project_comes_before_the_user_s_own_paths_and_no_path_is_empty(monkeypatch, given):
    """An empty one would stand for the working directory, whose files would hide modules."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONPATH", given)
    paths = environment(TrainingParams())["PYTHONPATH"].split(os.pathsep)
    assert paths == [str(command.ROOT), *(["/own", "/other"] if given else [])]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_process_is_told_what_the_launcher_would_tell_it(device, monkeypatch):
    for name in ("ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND"):
        monkeypatch.setenv(name, "of the user's shell")
    params = TrainingParams(device=device, torch_num_threads=3)
    config = str(ACCELERATE_CONFIGS / "one_gpu.yaml")
    launch = launch_command(
        params.model_copy(update={"accelerate_config": config}), Path("job.json")
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: device == "cuda")
    monkeypatch.setattr("accelerate.commands.launch.is_bf16_available", lambda *_: True)
    words = launch_command_parser().parse_args(launch[3:])
    command, launched = prepare_simple_launcher_cmd_env(_validate_launch_command(words)[0])
    assert launch_command(params, Path("job.json")) == command
    ours = environment(params)
    changed = {n for n, value in launched.items() if os.environ.get(n) != value}
    # how the compiler works that is not asked for, and threads of Intel's own OpenMP
    indifferent = {n for n in changed if n.startswith(("ACCELERATE_DYNAMO_", "KMP_"))}
    for name in changed - indifferent | {"ACCELERATE_DYNAMO_BACKEND"}:
        assert ours[name].lower() == launched[name].lower(), name


@pytest.mark.parametrize("processes", [1, 2])
def test_no_place_among_the_processes_of_another_launcher_is_handed_on(processes, monkeypatch):
    names = [
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
        *("PET_NNODES", "TORCHELASTIC_USE_AGENT_STORE"),
        *("ACCELERATE_TORCH_DEVICE", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"),
    ]
    for name in names:
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("MY_RANK", "2")
    ours = environment(TrainingParams(device="cpu", num_processes=processes))
    assert not set(names) & set(ours)
    assert ours["CUDA_VISIBLE_DEVICES"] == ours["MY_RANK"] == "2"


def test_a_file_of_one_s_own_says_how_processes_are_started():
    fsdp = str(ACCELERATE_CONFIGS / "fsdp2.yaml")
    params = TrainingParams(accelerate_config=fsdp, num_processes=2, device="cuda")
    command = launch_command(params, Path("job.json"))
    assert command[command.index("--config_file") + 1] == fsdp
    assert "--multi_gpu" not in command
    on_cpu = params.model_copy(update={"device": "cpu"})
    assert launch_command(on_cpu, Path("job.json"))[-5:] == command[-5:]  # test_fsdp.py runs it


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fsdp2", {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}),
        (
            "zero3",
            {
                "ACCELERATE_USE_DEEPSPEED": "true",
                "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
                "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true",
                "ACCELERATE_DEEPSPEED_ZERO3_INIT": "false",
                "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "auto",
                "ACCELERATE_GRADIENT_CLIPPING": "auto",
            },
        ),
    ],
)
def test_what_a_file_says_is_what_every_process_is_told(name, expected, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("accelerate.commands.launch.is_bf16_available", lambda *_: True)
    path = str(ACCELERATE_CONFIGS / f"{name}.yaml")
    words = launch_command_parser().parse_args(["--config_file", path, "script.py"])
    args, defaults, _ = _validate_launch_command(words)
    if name == "zero3":
        args.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
        _, told = prepare_deepspeed_cmd_env(args)
    else:
        told = prepare_multi_gpu_env(args)
    assert {key: told.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    "fields", [{"fsdp": True}, {"fsdp": True, "fsdp_config": {"fsdp_version": 2}}]
)
def test_shards_of_one_process_are_refused(base, tmp_path, fields, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))  # transformers writes fsdp there, too
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True, **fields)
    with pytest.raises(ParamsError, match=r"fsdp is .*started alone.*accelerate launch"):
        RewardTrainer(str(base), args, train_dataset=Dataset.from_list(make_rows(4)))
