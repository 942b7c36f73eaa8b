"""The preflight finds what would fail later, and leaves no trace in the run."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers.trainer
from datasets import Dataset
from transformers import TrainerState
from transformers.integrations import liger

from tasks.errors import TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover import roundtrip
from tasks.training.handover.export import exact_history
from tasks.training.layout.plan import shared_prefix
from tasks.training.model.adapter import lora_config
from tasks.training.params import LoraParams
from tasks.training.preflight import rehearsal
from tasks.training.preflight.forecast import (
    Forecast,
    disk_need,
    item_lengths,
    mean_share,
)
from tasks.training.scoring import score
from tests.training.tiny import make_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "max_steps": 4,
}
LORA = lora_config(LoraParams(r=4, dropout=0.1, target_modules=["q_proj", "up_proj"]))
CASES = {
    "plain": ({}, None),
    "dropout": ({"disable_dropout": False}, None),
    "momentum": ({"optim": "sgd", "optim_args": "momentum=0.9"}, None),
    "adapters": ({"disable_dropout": False}, LORA),
    "bfloat16 computation": ({"bf16": True}, None),
    "bfloat16 weights, float32 head": ({"model_init_kwargs": {"dtype": "bfloat16"}}, None),
    "eager attention": ({"model_init_kwargs": {"attn_implementation": "eager"}}, None),
    "a loss of comparisons": ({"loss": {"type": "all_pairs"}}, None),
}


def make(base, directory, peft_config=None, rows=None, **fields):
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**FIELDS, **fields}),
        train_dataset=Dataset.from_list(rows or make_rows(14)),
        peft_config=peft_config,
    )


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_bit_for_bit_the_same_with_and_without_it(base, tmp_path, case):
    fields, peft_config = CASES[case]
    rows = [{**row, "comparison": f"list {n // 3}"} for n, row in enumerate(make_rows(14))]
    runs = []
    for on in (True, False):
        trainer = make(base, tmp_path / str(on), peft_config, rows, preflight=on, **fields)
        trainer.train()
        assert (trainer.forecast is not None) == on
        runs.append((dict(trainer.model.state_dict()), exact_history(trainer.state.log_history)))
        assert sorted((tmp_path / str(on)).glob("preflight*")) == []
    (weights, history), (others, other_history) = runs
    assert json.dumps(history) == json.dumps(other_history)
    assert all(torch.equal(tensor, others[name]) for name, tensor in weights.items())


def test_a_second_training_of_one_trainer_keeps_its_optimizer_state(base, tmp_path):
    runs = []
    for on in (True, False):
        trainer = make(base, tmp_path, preflight=on)
        trainer.train()
        trainer.train()
        runs.append([r["loss"] for r in trainer.state.log_history if "loss" in r])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("layout", ["padded", "padding_free", "prefix_shared"])
def test_the_longest_pairs_are_rehearsed_and_the_needs_are_told(base, tmp_path, layout):
    rows = make_rows(14)
    trainer = make(base, tmp_path, rows=rows, save_strategy="steps", save_steps=2, layout=layout)
    trainer.train()
    found = trainer.forecast
    sides = [(r["chosen_input_ids"], r["rejected_input_ids"]) for r in rows]
    longest = sorted(sides, key=lambda pair: -max(map(len, pair)))[:4]
    shared = [shared_prefix([np.asarray(ids) for ids in pair]) for pair in longest]
    own = sum(len(ids) for pair in longest for ids in pair)
    assert sum(shared) > 0
    expected = {"padded": 8 * max(map(len, longest[0])), "padding_free": own}
    assert found.longest_tokens == expected.get(layout, own - sum(shared))
    lengths = np.array([max(map(len, pair)) for pair in sides])
    share = lengths.mean() / np.sort(lengths)[-4:].mean()
    if layout == "padded":
        share = mean_share(lengths, 4, 4, padded=True)
    assert found.steps == 4
    assert found.seconds == pytest.approx(found.longest_seconds * share * 4)
    assert 1e8 < found.memory_bytes < found.memory_total_bytes  # of a process with torch
    weights = sum(p.nbytes for p in trainer.model.parameters())
    # two checkpoints of weights and Adam's two states each (and its step counts), and the model
    assert found.disk_bytes == pytest.approx(1.2 * (2 * 3 + 1) * weights, rel=0.02)
    assert "for 4 steps; peak memory" in found.line()


@pytest.mark.parametrize(
    ("fields", "checkpoints"),
    [
        ({"save_strategy": "no"}, 0),
        ({"save_steps": 1}, 100),
        ({"save_steps": 10}, 10),
        ({"save_steps": 30}, 4),
        ({"save_steps": 500}, 1),
        ({"save_steps": 0}, 1),
        ({"save_steps": 10, "save_total_limit": 2}, 3),
        ({"save_steps": 10, "save_total_limit": 1}, 3),
        ({"save_steps": 10, "save_total_limit": 1, "save_only_model": True}, 2),
        ({"save_steps": 0.5, "save_total_limit": 2}, 2),
        ({"save_strategy": "epoch", "num_train_epochs": 4}, 4),
        ({"save_strategy": "best", "eval_strategy": "steps", "eval_steps": 25}, 4),
        ({"save_strategy": "best", "eval_strategy": "epoch", "num_train_epochs": 5}, 5),
    ],
)
def test_disk_is_foretold_for_the_checkpoints_that_stand_at_one_time(tmp_path, fields, checkpoints):
    args = RewardConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        metric_for_best_model="accuracy",
        **{"save_strategy": "steps", **fields},
    )
    state = TrainerState(max_steps=100, num_train_epochs=int(args.num_train_epochs))
    state.compute_steps(args, 100)
    assert disk_need(args, state, 1000, 500) == int(1.2 * (checkpoints * 1000 + 500))
    if args.save_strategy == "epoch":  # as transformers says of a stream
        state.num_train_epochs = sys.maxsize
        assert disk_need(args, state, 1000, 500) == int(1.2 * (1000 + 500))


@pytest.mark.parametrize(
    "fields",
    [
        {"save_strategy": "epoch", "per_device_train_batch_size": 14},  # an epoch of one step
        {"save_strategy": "steps", "save_steps": 3, "save_only_model": True},
    ],
)
def test_what_is_foretold_of_the_disk_is_what_the_run_writes(base, tmp_path, fields):
    trainer = make(base, tmp_path, **fields)
    trainer.model.model.embed_tokens.requires_grad_(False)  # saved all the same
    trainer.train()
    files = [*tmp_path.rglob("*.safetensors"), *tmp_path.rglob("optimizer.pt")]
    weights = sum(p.nbytes for p in trainer.model.parameters())
    expected = 1.2 * (sum(file.stat().st_size for file in files) + weights)
    assert trainer.forecast.disk_bytes == pytest.approx(expected, rel=0.1)


def test_the_forecast_is_told_with_its_units_as_far_as_it_is_known():
    room = (3_200_000_000, 8_000_000_000, 1_200_000_000, 400_000_000)  # memory, disk
    known = Forecast(5000, 7200.0, 4096, 1.25, *room, 2, True, 12.34)
    assert known.line() == (
        "preflight took 12.3 s; longest micro-batch 4,096 tokens in 1.2 s; about 2.0 h for 5,000 "
        "steps; peak memory 3.2 GB of 8 GB; disk 1.2 GB of 0.4 GB; activations are kept, not "
        "computed twice; micro-batch halved 2 times to fit the memory"
    )
    assert "about 20 min for" in replace(known, seconds=1200.0).line()
    assert "about 1 s for" in replace(known, seconds=0.2).line()
    unknown = replace(known, seconds=None, longest_seconds=None, keeps_activations=False)
    assert replace(unknown, halvings=0).line() == (
        "preflight took 12.3 s; peak memory 3.2 GB of 8 GB; disk 1.2 GB of 0.4 GB"
    )


@pytest.mark.parametrize("layout", ["padded", "prefix_shared"])
@pytest.mark.parametrize(
    ("count", "fields"),
    [
        (8, {"loss": {"type": "all_pairs"}}),
        (8, {"pad_to_multiple_of": 64, "gradient_accumulation_steps": 2}),
        (8, {"max_tokens_per_micro_batch": 8}),
        (3, {}),  # fewer than a batch
    ],
)
def test_a_step_on_items_of_one_length_is_foretold_as_the_one_that_was_rehearsed(
    base, tmp_path, layout, count, fields
):
    rows = [  # of each comparison all pairs of three answers
        {"chosen_input_ids": [5, a], "rejected_input_ids": [5, b], "comparison": f"{n}"}
        for n in range(count)
        for a, b in [(20 + n, 30 + n), (20 + n, 40 + n), (30 + n, 40 + n)][: 3 if fields else 1]
    ]
    trainer = make(base, tmp_path, rows=rows, layout=layout, **fields)
    trainer.train()
    items, found = min(4, count), trainer.forecast  # of a step
    rehearsed = 2 if "max_tokens_per_micro_batch" in fields else items  # pairs of 4 or 3 tokens
    steps = 4 * fields.get("gradient_accumulation_steps", 1)
    assert found.seconds == pytest.approx(steps * found.longest_seconds * items / rehearsed)


def test_a_random_padded_batch_costs_what_its_longest_pair_makes_of_it():
    assert mean_share(np.array([1, 3]), 1, 1, padded=True) == pytest.approx(2 / 3, abs=0.1)
    assert mean_share(np.array([1] * 99 + [100]), 2, 2, padded=True) < 0.1


@pytest.mark.catalogue(122)
def test_a_disk_that_is_too_small_is_refused_with_the_figures(base, tmp_path, monkeypatch):
    found = Forecast(10, None, 0, None, 0, 0, 3_200_000_000, 400_000_000, 0)
    with pytest.raises(TrainingError, match=r"need 3\.2 GB below .*, but 0\.4 GB are free"):
        found.check_disk(tmp_path)
    monkeypatch.setattr(rehearsal, "free_disk", lambda _: 1000)
    trainer = make(base, tmp_path, save_strategy="epoch")
    with pytest.raises(TrainingError, match=r"but 1e-06 GB are free; make room"):
        trainer.train()
    assert trainer.state.global_step == 0


@pytest.mark.catalogue(123)
def test_a_directory_that_cannot_be_written_is_found_before_the_first_step(base, tmp_path):
    (tmp_path / "file").write_text("in the way")
    trainer = make(base, tmp_path)
    trainer.args.output_dir = str(tmp_path / "file" / "run")
    with pytest.raises(TrainingError, match=r"checkpoints cannot be written to .*Not a directory"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_model_that_computes_what_its_files_do_not_hold_is_refused(base, tmp_path):
    trainer = make(base, tmp_path)
    layer = trainer.model.model.layers[0].mlp
    layer.register_forward_hook(lambda module, inputs, output: output * 1.5)  # noqa: ARG005
    with pytest.raises(TrainingError, match=r"scores .* now, but .* after it has been saved"):
        trainer.train()
    trainer = make(base, tmp_path)
    norm = trainer.model.model.norm
    norm.weight.data = norm.weight.data.double() * 1.1  # is loaded in the dtype of the others
    with pytest.raises(TrainingError, match=r"model\.norm\.weight of .* does not survive being s"):
        trainer.train()
    trainer = make(base, tmp_path, preflight=False)
    trainer.train()


@pytest.mark.parametrize(("apart", "refused"), [(1e-7, False), (1e-3, True)])
def test_a_table_that_another_device_rounded_otherwise_is_no_other_model(
    base, tmp_path, monkeypatch, apart, refused
):
    told: list[float] = []

    def reward(model, ids, mask):  # a model in half precision tells of the last bit of its tables
        told.append(float(model.model.rotary_emb.inv_freq.sum()))
        return score(model, ids, mask) + told[-1]

    trainer = make(base, tmp_path)
    trainer.model.model.rotary_emb.inv_freq *= 1 + apart
    monkeypatch.setattr(roundtrip, "score", reward)
    if refused:
        with pytest.raises(TrainingError, match=r"scores .* now, but .* after it has been saved"):
            trainer.train()
    else:
        trainer.train()
        now, then, after = told
        assert now != then
        assert now == after


def test_a_model_that_memory_does_not_hold_twice_is_trained_and_told_not_to_be_checked(
    base, tmp_path, monkeypatch, caplog
):
    def full(*_args, **_more):
        raise MemoryError

    monkeypatch.setattr(roundtrip, "load_reward_model", full)
    trainer = make(base, tmp_path)
    trainer.train()
    assert trainer.state.global_step == 4
    assert caplog.text.count("not checked before the run, as memory ran out") == 1


def test_liger_s_kernels_are_in_the_loaded_model_too(base, tmp_path, monkeypatch):
    def other_kernels(model, config):
        assert config == {"swiglu": True}
        layer = model.model.layers[0].mlp
        layer.register_forward_hook(lambda module, inputs, output: output * 1.001)  # noqa: ARG005

    trainer = make(base, tmp_path)
    trainer.args.use_liger_kernel, trainer.args.liger_kernel_config = True, {"swiglu": True}
    for home in (liger, transformers.trainer):
        monkeypatch.setattr(home, "apply_liger_kernel", other_kernels)
    trainer.train()
    assert trainer.state.global_step == 4


def test_streams_are_not_rehearsed(base, tmp_path):
    rows = Dataset.from_list(make_rows(14)).to_iterable_dataset()
    fields = {**FIELDS, "save_strategy": "steps", "save_steps": 2}
    trainer = RewardTrainer(
        str(base), RewardConfig(output_dir=str(tmp_path), **fields), train_dataset=rows
    )
    trainer.train()
    assert item_lengths(rows) is None
    assert trainer.forecast.seconds is None
    weights = sum(p.nbytes for p in trainer.model.parameters())
    # nothing has shown what the optimizer keeps: two numbers for every weight, as Adam does
    assert trainer.forecast.disk_bytes == pytest.approx(1.2 * (2 * 3 + 1) * weights, rel=0.02)
