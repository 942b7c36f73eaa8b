"""ZeRO-3 over two processes is the run of one: its losses, its model, its resume."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tasks.training.process.command import ACCELERATE_CONFIGS, ROOT
from tests.training.process.under_deepspeed import rewards_of, trained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        torch.accelerator.current_accelerator() is not None,
        reason="this torch is built for accelerators, and DeepSpeed trains there alone",
    ),
]
PACKAGES = ["deepspeed==0.19.8", "hjson", "py-cpuinfo", "einops", "msgpack", "ninja"]
GLOO = {"ddp_backend": "gloo"}
TWO = {**GLOO, "per_device_train_batch_size": 4}
CASES = {
    "plain": {"fields": {}},
    "padded": {"fields": {"layout": "padded", "max_grad_norm": 0.1}},
    "budget": {"rows": 41, "fields": {"max_tokens_per_micro_batch": 60}},
    "as written": {"fields": {"torch_compile_backend": "aot_eager"}},  # within layers is no graph
    "lora": {"lora": True, "fields": {"gradient_checkpointing": True}},
    "accumulated": {
        "fields": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
    },
}
IN_HALVES = {"fields": {**TWO, "bf16": True}}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """DeepSpeed in a folder of its own: in the environment, all tests would run with it."""
    place = tmp_path_factory.mktemp("deepspeed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--target", str(place), *PACKAGES],
        env={**os.environ, "DS_BUILD_OPS": "0"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"deepspeed cannot be installed here: {done.stderr[-500:]}")
    return place


@pytest.fixture(scope="module")
def under_zero3(base, packages, tmp_path_factory):
    """What every case came to, of one launch: the folder, and `{name: facts}`."""
    out = tmp_path_factory.mktemp("zero3")
    cases = {name: {**case, "fields": {**TWO, **case["fields"]}} for name, case in CASES.items()}
    cases |= {
        "resumed": {**cases["plain"], "resumes": "plain"},
        "halves": IN_HALVES,
        "resumed halves": {**IN_HALVES, "resumes": "halves"},
    }
    (out / "cases.json").write_text(json.dumps(cases))
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]
    launch += [str(ACCELERATE_CONFIGS / "zero3.yaml"), "--num_processes", "2"]
    launch += ["--main_process_port", "0", "--mixed_precision", "no"]
    words = ["-m", "tests.training.process.under_deepspeed", base, out / "cases.json", out]
    done = subprocess.run(
        [*launch, *map(str, words)],
        cwd=ROOT,
        env={
            **os.environ,
            "DS_ACCELERATOR": "cpu",
            "TORCH_EXTENSIONS_DIR": str(packages / "extensions"),  # a killed build leaves a lock
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)]),
        },
        capture_output=True,
        text=True,
        timeout=400,  # a process that loads a model alone once waited for ever
    )
    assert done.returncode == 0, done.stderr[-12000:]
    return out, {name: json.loads((out / f"{name}.json").read_text()) for name in cases}


@pytest.mark.parametrize("name", CASES)
def test_a_dealt_out_model_follows_the_trajectory_of_one_process(base, tmp_path, under_zero3, name):
    _, found = under_zero3
    facts = found[name]
    fields = {**CASES[name]["fields"], "per_device_train_batch_size": 8, "use_cpu": True}
    fields |= {"gradient_accumulation_steps": 1, "torch_compile_backend": None}
    one = trained(base, tmp_path, {**CASES[name], "fields": fields})
    assert facts["layout"] == one.layout == ("padded" if name == "padded" else "prefix_shared")
    records = [
        [record for record in log if "loss" in record or "eval_loss" in record]
        for log in (one.state.log_history, facts["log"])
    ]
    assert len(records[0]) == len(records[1]) >= 18
    for alone, dealt in zip(*records, strict=True):
        for kind in alone.keys() & {"loss", "eval_loss", "eval_margin", "margin", "accuracy"}:
            assert dealt[kind] == pytest.approx(alone[kind], abs=1e-6)
        if "grad_norm" in alone:
            assert dealt["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-4)
    one.save_model(str(tmp_path / "saved"))
    if name != "lora":
        expected = torch.tensor(rewards_of(tmp_path / "saved"))
        for saved in ("saved", "model"):
            assert torch.tensor(facts[saved]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("name", "resumed"), [("plain", "resumed"), ("halves", "resumed halves")])
def test_a_resumed_run_comes_to_the_same_bytes(under_zero3, name, resumed):
    out, found = under_zero3
    weights = [(out / run / "model" / "model.safetensors").read_bytes() for run in (name, resumed)]
    assert weights[0] == weights[1]
    logs = [
        [record["loss"] for record in found[run]["log"] if "loss" in record]
        for run in (name, resumed)
    ]
    assert logs[0] == logs[1]


def test_weights_of_half_the_width_learn_and_are_what_is_saved(under_zero3):
    _, found = under_zero3
    records = found["halves"]["log"]
    losses = [record["loss"] for record in records if "loss" in record]
    assert losses[-1] < losses[0] / 2
    plain = [record["loss"] for record in found["plain"]["log"] if "loss" in record]
    assert losses == pytest.approx(plain, abs=2e-2)
    rewards = torch.tensor(found["halves"]["model"])
    last = [record for record in records if "eval_margin" in record][-1]
    assert -rewards.diff().mean().item() == pytest.approx(last["eval_margin"], abs=2e-2)
