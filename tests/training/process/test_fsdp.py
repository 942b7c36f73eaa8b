"""FSDP over two processes of a CPU: the run of one, in shards; stopped, resumed, exported."""

import pytest
import torch
import yaml

from tasks.artifact import Store
from tasks.training.model.loading import load_reward_model
from tasks.training.process.command import ACCELERATE_CONFIGS
from tasks.training.scoring import score
from tests.training.process.two_processes import histories_of_two, history
from tests.training.run_stage import stage_step
from tests.training.test_stage import (
    LONG,
    SHORT,
    exact,
    finish,
    kill_and_wait_for_the_lock,
    logged,
    start,
    wait_for_records,
)
from tests.training.tiny import make_rows, write_pairs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        torch.accelerator.current_accelerator() is not None,
        reason="this torch is built for accelerators, and shards there alone",
    ),
]

FSDP = {
    "num_processes": 2,
    "per_device_train_batch_size": 4,
    "accelerate_config": str(ACCELERATE_CONFIGS / "fsdp2.yaml"),
}


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    """40 training pairs: 5 steps of 8, or of 2 x 4."""
    pairs = write_pairs(tmp_path_factory.mktemp("forty"), make_rows(40, margin=True), "train")
    return write_pairs(pairs, make_rows(9, seed=1, margin=True), "eval")


@pytest.mark.parametrize(
    "fields",
    [{"max_tokens_per_micro_batch": 40}, {"lora": {"r": 4}, "gradient_checkpointing": True}],
    ids=["budget", "lora"],
)
def test_shards_follow_the_trajectory_of_one_process(base, forty, tmp_path, fields):
    params = {**SHORT, "num_train_epochs": 3, "eval_strategy": "epoch", **fields}
    artifacts = [
        Store(tmp_path / "data").obtain(stage_step(base, forty, {**params, **how}))
        for how in ({"per_device_train_batch_size": 8}, FSDP)
    ]
    histories = [logged(artifact) for artifact in artifacts]
    assert len(histories[0]) == len(histories[1]) == 11
    for one, sharded in zip(*histories, strict=True):
        assert one == pytest.approx(sharded, abs=5e-6)
        for name in one.keys() & {"loss", "eval_loss"}:
            assert one[name] == pytest.approx(sharded[name], abs=1e-6)
    # the model that was gathered scores as the shards did in the last evaluation
    found = load_reward_model(artifacts[1].path / "model", need_head=True).model.eval()
    rewards = torch.tensor(
        [[reward(found, row[side]) for side in SIDES] for row in make_rows(9, seed=1, margin=True)]
    )
    last = histories[1][-1]
    assert rewards.diff().mean().item() == pytest.approx(-last["eval_margin"], abs=1e-6)
    assert rewards.max().item() == pytest.approx(last["eval_max_reward"], abs=1e-6)


def test_shards_in_half_precision_learn_as_one_process_with_rewards_in_float32(
    base, forty, tmp_path
):
    params = {**SHORT, "num_train_epochs": 3, "eval_strategy": "epoch"}
    runs = ({"per_device_train_batch_size": 8}, {**FSDP, "bf16": True})
    one, halves = (
        logged(Store(tmp_path / "data").obtain(stage_step(base, forty, {**params, **how})))
        for how in runs
    )
    differences = []
    for exact_record, record in zip(one, halves, strict=True):
        for name in exact_record.keys() & {"loss", "eval_loss", "eval_margin"}:
            assert record[name] == pytest.approx(exact_record[name], abs=2e-2)
            differences.append(abs(record[name] - exact_record[name]))
    assert max(differences) > 1e-5  # layers do compute in bfloat16
    extremes = torch.tensor([record["max_reward"] for record in halves if "max_reward" in record])
    assert not torch.equal(extremes, extremes.bfloat16().float())  # rewards are not rounded to it


def test_sharded_layers_are_compiled_for_flat_rows(base, tmp_path):
    fields = {"max_steps": 20, "layout": "prefix_shared", "per_device_train_batch_size": 4}
    compiled = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    cases = {
        "written": {"rows": 40, "fields": fields},
        "compiled": {"rows": 40, "fields": {**fields, **compiled}},
        "recomputed": {
            "rows": 40,
            "fields": {**fields, **compiled, "gradient_checkpointing": True},
        },
    }
    sharded = {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_RESHARD_AFTER_FORWARD": "true",
    }
    found = histories_of_two(base, tmp_path / "out", cases, **sharded)
    one = {**fields, "per_device_train_batch_size": 8}
    alone = history(base, tmp_path / "one", {"rows": 40, "fields": one})
    graphs = {name: records[-1]["graphs"] for name, records in found.items()}
    assert graphs["written"] == 0 < graphs["compiled"] <= 8  # of layers of any length
    for records in found.values():
        assert len(records) == len(alone) == 20
        for record, expected in zip(records, alone, strict=True):
            assert record["loss"] == pytest.approx(expected["loss"], abs=1e-6)
            assert record["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-4)


SIDES = ("chosen_input_ids", "rejected_input_ids")


def reward(model, ids):
    ids = torch.tensor([ids])
    with torch.no_grad():
        return score(model, ids, torch.ones_like(ids)).item()


@pytest.mark.parametrize("kind", ["FULL_STATE_DICT", "SHARDED_STATE_DICT"])
def test_a_stopped_run_in_shards_goes_on_to_the_same_bytes(base, forty, tmp_path, kind):
    config = yaml.safe_load((ACCELERATE_CONFIGS / "fsdp2.yaml").read_text("utf-8"))
    config["fsdp_config"]["fsdp_state_dict_type"] = kind
    (tmp_path / "fsdp.yaml").write_text(yaml.safe_dump(config), "utf-8")
    params = {**LONG, **FSDP, "accelerate_config": str(tmp_path / "fsdp.yaml")}
    whole, run = tmp_path / "whole", tmp_path / "run"
    code, output = finish(start(whole, base, forty, params))
    assert code == 0, output
    parent = start(run, base, forty, params)
    wait_for_records(parent, run, 4)
    kill_and_wait_for_the_lock(parent, run)
    full = kind == "FULL_STATE_DICT"
    pattern = "pytorch_model_fsdp.bin" if full else "pytorch_model_fsdp_0/*.distcp"
    assert list(run.glob(f".work/*/scratch/checkpoints/checkpoint-*/{pattern}"))
    code, output = finish(start(run, base, forty, params))
    assert code == 0, output
    assert ", from checkpoint-" in output
    assert exact(run) == exact(whole)
