"""The stage as a whole: a child process that may die at any moment, and its end result."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tasks.artifact import Store
from tasks.artifact.lock import is_locked
from tasks.errors import ParamsError, TrainingError
from tasks.tokenization.shards import TOKENIZER_DIRECTORY
from tasks.training.checkpoints.checkpoint import newest_committed
from tasks.training.model.loading import load_reward_model
from tasks.training.process.supervisor import descendants
from tasks.training.scoring import score
from tests.training.run_stage import stage_step
from tests.training.tiny import make_rows, make_tokenizer, write_pairs

DEADLINE = 120.0
LONG = {
    "device": "cpu",
    "learning_rate": 1e-3,
    "num_train_epochs": 16,
    "per_device_train_batch_size": 4,
    "logging_steps": 7,
    "save_steps": 5,
}
SHORT = {"device": "cpu", "learning_rate": 1e-3, "logging_steps": 2}
ON_START = {**SHORT, "eval_on_start": True}


def start(store, base, pairs, params):
    command = [sys.executable, "-m", "tests.training.run_stage", *map(str, (store, base, pairs))]
    return subprocess.Popen([*command, json.dumps(params)], stdout=subprocess.PIPE, text=True)


def finish(process):
    output, _ = process.communicate(timeout=DEADLINE)
    return process.returncode, output


def processes_of(parent, module):
    """The processes below `parent` that run `python -m module` themselves."""
    found = []
    for pid in descendants(parent):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:]
            if words[words[0] == b"-u" :][:2] == [b"-m", module.encode()]:
                found.append(pid)
    return found


def wait_for_records(process, store, count):
    """Waits until the child has logged `count` records (or has ended); returns how many it has."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        logged = records(store)
        if logged >= count:
            return logged
        time.sleep(0.005)
    assert process.poll() is not None
    return records(store)


def records(store):
    return sum(p.read_bytes().count(b"\n") for p in store.glob(".work/*/logs/metrics.jsonl"))


def exact(store):
    """What must be equal for equal runs."""
    [record] = store.glob("5_training/*/record.json")
    return json.loads(record.read_text())["digest"]


def logged(artifact):
    lines = (artifact.path / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def undisturbed(base, pairs, tmp_path_factory):
    store = tmp_path_factory.mktemp("undisturbed")
    code, output = finish(start(store, base, pairs, LONG))
    assert code == 0, output
    return exact(store)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["supervisor", "parent", "all"])
def test_after_a_kill_the_next_run_ends_in_the_same_bytes(
    base, pairs, tmp_path, undisturbed, victim
):
    draw = random.Random(victim)
    for _ in range(2):
        before = records(tmp_path)
        parent = start(tmp_path, base, pairs, LONG)
        wait_for_records(parent, tmp_path, before + draw.randrange(1, 9))
        time.sleep(draw.random() * 0.3)
        below = descendants(parent.pid)
        victims = {
            "supervisor": processes_of(parent.pid, "tasks.training.process.supervisor"),
            "parent": [parent.pid],
            "all": [parent.pid, *below],
        }[victim]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        code, output = finish(parent)
        assert code in (1, 75, -9), output
        _nothing_left(below)
    code, output = finish(start(tmp_path, base, pairs, LONG))
    assert code == 0, output
    assert exact(tmp_path) == undisturbed


@pytest.mark.slow
def test_a_killed_training_process_goes_on_in_the_same_run_twice_at_most(
    base, pairs, tmp_path, undisturbed
):
    for kills, ends_in in ((3, 1), (1, 0)):
        parent = start(tmp_path, base, pairs, LONG)
        for _ in range(kills):
            kill_the_trainer_after_its_next_checkpoint(parent, tmp_path)
        code, output = finish(parent)
        assert code == ends_in, output
        assert output.count("it starts again from checkpoint-") == min(kills, 2)
    assert exact(tmp_path) == undisturbed


@pytest.mark.slow
def test_one_killed_process_of_several_is_no_failure_of_the_others(base, pairs, tmp_path):
    params = {**LONG, "num_train_epochs": 3, "num_processes": 2}
    digests = []
    for kills in (0, 1):
        store = tmp_path / str(kills)
        parent = start(store, base, pairs, params)
        for _ in range(kills):
            kill_the_trainer_after_its_next_checkpoint(parent, store)
        code, output = finish(parent)
        assert code == 0, output
        assert output.count("it starts again from checkpoint-") == kills
        digests.append(exact(store))
    assert digests[0] == digests[1]


def kill_the_trainer_after_its_next_checkpoint(parent, store):
    """Of several processes the last one."""
    before = newest_step(store)
    deadline = time.monotonic() + DEADLINE
    while newest_step(store) <= before:
        assert parent.poll() is None, "it ended before its next checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    pid = max(processes_of(parent.pid, "tasks.training"))
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.005)


def newest_step(store):
    found = [newest_committed(path) for path in store.glob(".work/*/*/checkpoints")]
    return max((checkpoint.step for checkpoint in found if checkpoint), default=-1)


def _nothing_left(pids):
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "processes are left behind"
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_saves_and_the_next_run_ends_in_the_same_bytes(base, pairs, tmp_path, undisturbed):
    parent = start(tmp_path, base, pairs, LONG)
    wait_for_records(parent, tmp_path, 3)
    [trainer] = processes_of(parent.pid, "tasks.training")
    os.kill(trainer, signal.SIGTERM)
    code, output = finish(parent)
    assert code == 75
    assert "interrupted: training stopped after step" in output
    assert "(SIGTERM)" in output
    assert not any(is_locked(path) for path in (tmp_path / ".locks").iterdir())
    code, output = finish(start(tmp_path, base, pairs, LONG))
    assert code == 0
    assert ", from checkpoint-" in output
    assert exact(tmp_path) == undisturbed


@pytest.mark.slow
def test_the_artifact_holds_a_complete_reward_model(base, pairs, tmp_path):
    seen = []
    params = {**SHORT, "eval_strategy": "epoch", "lora": {"r": 4, "target_modules": ["q_proj"]}}
    artifact = Store(tmp_path).obtain(stage_step(base, pairs, params, seen.append))
    assert {p.name for p in artifact.path.iterdir()} == {
        "model",
        "adapter",
        "metrics.jsonl",
        "training.json",
        "logs",
        "record.json",
    }
    history = logged(artifact)
    assert [r["step"] for r in seen] == [r["step"] for r in history] == [2, 4, 6, 6]
    assert not [name for r in history for name in r if "second" in name or "time" in name]
    assert artifact.report["last"]["num_tokens"] == artifact.report["num_tokens"] == 807
    assert artifact.report["head"]["origin"] == "new"
    assert artifact.report["determinism"] == {
        "device": "cpu",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
        "dtype": "float32",
        "processes": 1,
        "seed": 42,
        "data_seed": 42,
        "full_determinism": False,
        "bit_exact": True,
    }
    stock = AutoModelForSequenceClassification.from_pretrained(artifact.path / "model").eval()
    assert stock.config.problem_type == "regression"
    assert AutoTokenizer.from_pretrained(artifact.path / "model").pad_token == "<|pad|>"
    ours = load_reward_model(artifact.path / "model", need_head=True)
    ids = torch.tensor([[5, 6, 45, 1]])
    with torch.no_grad():
        expected = stock(ids).logits[:, 0]
        assert torch.allclose(score(ours.model.eval(), ids, ids > 0), expected, atol=1e-5)
    told = (artifact.path / "logs" / "log.txt").read_text().splitlines()
    assert any(line.startswith("training on cpu, float32") for line in told)  # libraries talk first


@pytest.mark.slow
def test_the_model_leaves_with_the_template_that_its_pairs_were_rendered_by(base, tmp_path):
    pairs = write_pairs(tmp_path / "pairs", make_rows(45), "train")
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }} w1 {{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(pairs / TOKENIZER_DIRECTORY)
    artifact = Store(tmp_path / "data").obtain(
        stage_step(base, pairs, SHORT | {"logging_steps": 4})
    )
    exported = (artifact.path / "model" / "chat_template.jinja").read_text()
    assert exported == tokenizer.chat_template
    assert not (base / "chat_template.jinja").exists()
    # 6 steps in records of 4: the record of the last 2 is there too
    assert [r["step"] for r in logged(artifact)] == [4, 6]
    numbers = artifact.report
    assert numbers["rows"] == numbers["train_pairs"] == 45
    assert numbers["num_tokens"] == numbers["last"]["num_tokens"] > numbers["first"]["num_tokens"]


def test_other_held_out_pairs_make_another_model_only_where_training_looks_at_them(
    base, pairs, tmp_path
):
    flipped, more = (shutil.copytree(pairs, tmp_path / name) for name in ("flipped", "more"))
    write_pairs(flipped, make_rows(9, seed=2), "eval")
    write_pairs(more, make_rows(46), "train")
    for params, looks in (({}, False), ({"eval_strategy": "epoch"}, True), (ON_START, True)):
        before, held_out, trained = (stage_step(base, d, params) for d in (pairs, flipped, more))
        assert (before.key != held_out.key) == looks
        assert before.key != trained.key
        assert {"tokenization", "model"} == {*before.uses}  # kept by the collection


@pytest.mark.slow
def test_held_out_pairs_can_be_evaluated_before_the_first_step_alone(base, pairs, tmp_path):
    artifact = Store(tmp_path).obtain(stage_step(base, pairs, ON_START))
    assert [r["step"] for r in logged(artifact) if "eval_loss" in r] == [0]
    assert artifact.report["last_evaluation"]["step"] == 0


@pytest.mark.slow
def test_a_model_is_the_same_whatever_is_held_out(base, pairs, tmp_path):
    held = shutil.copytree(pairs, tmp_path / "pairs")
    first = Store(tmp_path / "with").obtain(stage_step(base, held, SHORT))
    shutil.rmtree(held / "eval")
    assert Store(tmp_path / "without").obtain(stage_step(base, held, SHORT)).digest == first.digest


@pytest.mark.slow
def test_two_processes_follow_the_trajectory_of_one_and_leave_nothing_behind(
    base, tmp_path, monkeypatch
):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    pairs = write_pairs(tmp_path / "pairs", make_rows(40, margin=True), "train")
    write_pairs(pairs, make_rows(9, seed=1, margin=True), "eval")
    histories = []
    for processes, size in ((1, 8), (2, 4)):
        params = {
            **SHORT,
            "num_train_epochs": 3,
            "eval_strategy": "epoch",
            "center_rewards_coefficient": 0.01,
            "num_processes": processes,
            "per_device_train_batch_size": size,
        }
        artifact = Store(tmp_path / "data").obtain(stage_step(base, pairs, params))
        histories.append(logged(artifact))
    assert len(histories[0]) == len(histories[1]) == 11
    for one, two in zip(*histories, strict=True):
        assert one == pytest.approx(two, abs=5e-6)
        for name in one.keys() & {"loss", "eval_loss"}:
            assert one[name] == pytest.approx(two[name], abs=1e-6)
    assert not [*(tmp_path / "tmp").iterdir(), *(tmp_path / "data").rglob("launcher")]


def kill_and_wait_for_the_lock(parent: subprocess.Popen, run: Path) -> None:
    """Kills the parent; returns when its training processes have saved and are gone."""
    os.kill(parent.pid, signal.SIGKILL)  # the leash breaks; each process is asked by the supervisor
    finish(parent)
    deadline = time.monotonic() + 40
    while any(is_locked(path) for path in (run / ".locks").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_two_processes_stop_together_and_resume(base, tmp_path):
    pairs = write_pairs(tmp_path / "pairs", make_rows(40), "train")
    params = {**LONG, "num_processes": 2, "per_device_train_batch_size": 2}
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert finish(start(whole, base, pairs, params))[0] == 0
    parent = start(run, base, pairs, params)
    wait_for_records(parent, run, 4)
    kill_and_wait_for_the_lock(parent, run)
    code, output = finish(start(run, base, pairs, params))
    assert code == 0
    assert ", from checkpoint-" in output
    assert exact(run) == exact(whole)


@pytest.mark.slow
def test_the_child_s_own_sentence_is_raised(base, tmp_path):
    rows = make_rows(12, margin=True)
    rows[9]["margin"] = float("inf")
    pairs = write_pairs(tmp_path / "pairs", rows, "train")
    params = {**SHORT, "per_device_train_batch_size": 4, "train_sampling_strategy": "sequential"}
    with pytest.raises(TrainingError, match=r"^step 3: loss inf.*pair0008, pair0009"):
        Store(tmp_path / "data").obtain(stage_step(base, pairs, params))


@pytest.mark.slow
def test_a_gpu_that_is_asked_for_and_absent_is_an_error(base, pairs, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(TrainingError, match=r"training\.device is cuda, but torch finds no GPU"):
        Store(tmp_path).obtain(stage_step(base, pairs, {"device": "cuda"}))


def test_an_accelerate_config_that_does_not_exist_is_refused(base, pairs):
    with pytest.raises(ParamsError, match=r"nowhere\.yaml does not exist"):
        stage_step(base, pairs, {"accelerate_config": "nowhere.yaml"})


def test_the_key_holds_what_the_accelerate_config_says_not_where_it_stands(base, pairs, tmp_path):
    (tmp_path / "a.yaml").write_text("distributed_type: 'NO'\n")
    (tmp_path / "b.yaml").write_text("distributed_type: 'NO'\n")
    (tmp_path / "c.yaml").write_text("distributed_type: 'NO'\ndebug: true\n")
    keys = [
        stage_step(base, pairs, {"accelerate_config": str(tmp_path / name)}).key
        for name in ("a.yaml", "b.yaml", "c.yaml")
    ]
    assert keys[0] == keys[1] != keys[2]
