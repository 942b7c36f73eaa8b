"""A micro-batch that does not fit is computed in pieces: the run is that of the smaller one."""

import json
import re
import shutil
from types import MethodType

import pytest
import torch
from datasets import Dataset

from tasks.errors import TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.batches.pieces import split
from tasks.training.handover.export import exact_history
from tasks.training.loss.params import LossParams
from tasks.training.preflight.out_of_memory import is_out_of_memory
from tests.at_length import cases_at_length
from tests.training.tiny import make_rows

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "learning_rate": 1e-3,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 8,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "preflight": False,
}


def make(base, directory, rows=None, room=None, calls=None, **fields):
    """A trainer whose model has room for `room` sequences, from forward call `calls` on."""
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**FIELDS, **fields}),
        train_dataset=Dataset.from_list(rows or make_rows(20, margin=True)),
    )
    if room is not None:
        _limit(trainer.model, room, calls or 0)
    return trainer


def _limit(model, room, calls):
    whole, seen = model.forward, []

    def forward(_, input_ids=None, **given):
        output = whole(input_ids=input_ids, **given)
        if torch.is_grad_enabled():
            layout = given.get("layout")
            seen.append(len(input_ids) if layout is None else len(layout.last))
            if seen[-1] > room and len(seen) > calls:
                # after the forward pass, so that metrics and random states have moved
                raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")
        return output

    model.forward = MethodType(forward, model)


def outcome(trainer):
    trainer.train()
    return dict(trainer.model.state_dict()), history_of(trainer)


def history_of(trainer):
    """The records without `epoch`, which transformers counts in micro-batches, full or not."""
    history = exact_history(trainer.state.log_history)
    return json.dumps([{k: v for k, v in r.items() if k != "epoch"} for r in history])


@pytest.mark.catalogue(120)
@pytest.mark.parametrize("by_preflight", [True, False])
@pytest.mark.parametrize(
    ("room", "size", "accumulation"),
    [(8, 4, 2), *cases_at_length((4, 2, 4), (2, 1, 8))],
)
def test_the_adapted_run_is_the_run_with_the_smaller_micro_batch(
    base, tmp_path, room, size, accumulation, by_preflight
):
    # 20 pairs: the last global batch of an epoch has 4 pairs
    adapted = make(base, tmp_path / "a", room=room, preflight=by_preflight)
    given = make(
        base,
        tmp_path / "b",
        per_device_train_batch_size=size,
        gradient_accumulation_steps=accumulation,
    )
    (weights, history), (expected, other_history) = outcome(adapted), outcome(given)
    assert history == other_history
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
    assert adapted.batch_adapted() == {
        "halvings": {4: 1, 2: 2, 1: 3}[size],
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": accumulation,
    }
    assert given.batch_adapted() is None


@pytest.mark.catalogue(120)
def test_memory_that_runs_short_in_the_middle_of_a_step_costs_that_step_alone(base, tmp_path):
    # global batches of 3 x 4 pairs; the fifth micro-batch, in the second step, is the first to fail
    fields = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}
    adapted = make(base, tmp_path / "a", room=4, calls=4, **fields)
    given = make(base, tmp_path / "b", **fields)
    (weights, history), (expected, other_history) = outcome(adapted), outcome(given)
    assert adapted.halvings == 1
    records = zip(json.loads(history), json.loads(other_history), strict=True)
    for number, (mine, theirs) in enumerate(records):
        assert mine == (theirs if number == 0 else pytest.approx(theirs, rel=1e-4, abs=2e-6))
    assert all(torch.allclose(t, expected[name], atol=2e-5) for name, t in weights.items())


def test_a_step_that_is_taken_again_drops_what_it_would_have_dropped(base, tmp_path):
    shutil.copytree(base, tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    (tmp_path / "base/config.json").write_text(json.dumps({**config, "attention_dropout": 0.5}))
    rows = [  # as long as each other: no batch is padded
        {"pair_id": f"{n}", "chosen_input_ids": [5, 40 + n], "rejected_input_ids": [5, 20 + n]}
        for n in range(16)
    ]
    fields = {"disable_dropout": False, "max_steps": 2}
    adapted = make(tmp_path / "base", tmp_path / "a", rows, room=8, **fields)
    weights, history = outcome(adapted)
    smaller = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    given = make(tmp_path / "base", tmp_path / "b", rows, **fields, **smaller)  # seeds anew
    expected, other_history = outcome(given)
    assert adapted.halvings == 1
    assert history == other_history
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())


def test_pairs_of_a_step_that_is_taken_again_are_named_once(base, tmp_path):
    fields = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    trainer = make(base, tmp_path, make_rows(8), room=4, calls=1, **fields)
    torch.nn.init.constant_(trainer.model.score.weight, float("nan"))
    with pytest.raises(TrainingError, match="step 1: loss nan") as told:
        trainer.train()
    assert trainer.halvings == 1
    assert sorted(re.findall(r"pair\d+", str(told.value))) == [f"pair{n:04d}" for n in range(8)]


def test_an_adapted_run_that_is_resumed_stays_adapted(base, tmp_path):
    fields = {"save_strategy": "steps", "save_steps": 2, "save_total_limit": 9}
    whole = make(base, tmp_path / "run", room=8, **fields)
    expected, history = outcome(whole)
    resumed = make(base, tmp_path / "run", **fields)
    resumed.train(str(tmp_path / "run" / "checkpoint-2"))
    assert resumed.batch_adapted() == whole.batch_adapted()
    assert history_of(resumed) == history
    assert all(torch.equal(t, expected[n]) for n, t in resumed.model.state_dict().items())


@pytest.mark.parametrize("by_preflight", [True, False])
def test_after_three_halvings_the_run_ends_with_advice(base, tmp_path, by_preflight):
    trainer = make(base, tmp_path, room=1, preflight=by_preflight, per_device_train_batch_size=16)
    named = (
        r"micro-batches of 2 pairs, halved 3 times from per_device_train_batch_size 16; set grad"
    )
    with pytest.raises(TrainingError, match=named):
        trainer.train()
    assert trainer.state.global_step == 0


BUDGET = {"per_device_train_batch_size": 16, "max_tokens_per_micro_batch": 120}


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({}, "per_device_train_batch_size and raise gradient_accumulation_steps by the same f"),
        ({"max_tokens_per_micro_batch": 100}, "max_tokens_per_micro_batch$"),
    ],
)
def test_a_step_that_deepspeed_holds_is_not_taken_again(base, tmp_path, fields, advice):
    trainer = make(base, tmp_path, room=4, **fields)
    trainer.is_deepspeed_enabled = True  # its engine has the gradients of the step so far
    item = next(iter(trainer.get_train_dataloader()))
    model, [batch, *_] = trainer.model, item.get("micro_batches", [item])
    assert trainer._prepare_inputs(batch)["margin"].tolist() == batch["margin"].tolist()
    trainer._batches, trainer._taken, trainer.state.global_step = [batch], 0, 6
    with pytest.raises(
        TrainingError,
        match=f"in step 7; DeepSpeed holds what it has computed of the step, so .*: lower {advice}",
    ):
        trainer.training_step(model, batch)
    assert trainer.halvings == 0


@pytest.mark.parametrize("by_preflight", [True, False])
def test_under_a_budget_its_own_micro_batches_are_halved(base, tmp_path, by_preflight):
    given = make(base, tmp_path / "a", preflight=by_preflight, **BUDGET)
    sizes = []

    def noted(_, __, named):
        if named.get("layout") is not None:
            sizes.append(len(named["layout"].last))

    given.model.register_forward_pre_hook(noted, with_kwargs=True)
    expected, history = outcome(given)
    pairs = max(sizes) // 2
    assert 3 <= pairs <= 8  # so that halves of 16 pairs would leave them whole
    room = 2 * -(-pairs // 2)
    adapted = make(base, tmp_path / "b", room=room, preflight=by_preflight, **BUDGET)
    weights, adapted_history = outcome(adapted)
    assert adapted.batch_adapted() == {"halvings": 1, "max_tokens_per_micro_batch": 120}
    for mine, theirs in zip(json.loads(adapted_history), json.loads(history), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=2e-6)
    assert all(torch.allclose(t, expected[name], atol=2e-5) for name, t in weights.items())


def test_under_a_budget_the_advice_is_to_lower_it(base, tmp_path):
    trainer = make(base, tmp_path, room=1, **BUDGET)
    with pytest.raises(TrainingError, match=r"max_tokens_per_micro_batch 120, halved 3 times; low"):
        trainer.train()


@pytest.mark.parametrize("streams", [False, True])
def test_a_step_that_is_filled_up_is_computed_in_pieces_too(base, tmp_path, streams):
    fields = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_steps": 4}
    fields |= {} if streams else {"max_tokens_per_micro_batch": 200}
    trainers = []
    for name in ("whole", "halved"):  # of 9 pairs a step has one batch of 1, and nothing beside it
        trainer = make(base, tmp_path / name, make_rows(9, margin=True), **fields)
        if streams:
            trainer.train_dataset = trainer.train_dataset.to_iterable_dataset()
        trainers.append(trainer)
    trainers[1].halve()
    for trainer in trainers:
        trainer.train()
    for one, other in zip(*(json.loads(history_of(t)) for t in trainers), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_a_batch_that_cannot_be_cut_is_named_where_memory_is_short(base, tmp_path):
    def collate(rows):
        return trainer_collator(rows) | {"colour": torch.zeros(len(rows))}

    trainer = make(base, tmp_path, room=4)
    trainer_collator = trainer.data_collator
    trainer.data_collator = collate
    with pytest.raises(TrainingError, match=r"batch of .*colour.* cannot be cut in pieces; lower"):
        trainer.train()


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("tried to allocate 20.00 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (TrainingError("out of memory with micro-batches of 2 pairs"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_memory_that_is_short_is_known_by_the_kind_of_an_error_or_its_text(error, short):
    assert is_out_of_memory(error) is short


def test_an_error_that_is_not_about_memory_is_not_swallowed(base, tmp_path):
    trainer = make(base, tmp_path)
    trainer.model.forward = MethodType(lambda *_, **__: 1 / 0, trainer.model)
    with pytest.raises(ZeroDivisionError):
        trainer.train()


@pytest.mark.parametrize(
    "ranked", [[(0, 1), (0, 2), (1, 2)], [(0, 1), (1, 2)]], ids=["all pairs", "neighbours"]
)
def test_pairs_of_one_comparison_stay_in_one_piece(ranked):
    """Three answers, best first."""
    ids = [[5, 6], [7], [8, 9, 10], [11], [12], [13, 14]]
    first, second = (
        [
            {"pair_id": f"{n}", "chosen_input_ids": ids[a + n], "rejected_input_ids": ids[b + n]}
            for a, b in ranked
        ]
        for n in (0, 3)
    )
    collate = DataCollatorForPreference(0, loss=LossParams(type="plackett_luce"))
    whole = collate([first, second])
    pieces = split(whole, 1, "")
    assert len(pieces) == 2
    for piece, comparison in zip(pieces, (first, second), strict=True):
        expected = collate([comparison])
        assert piece.keys() == expected.keys()
        for name, value in expected.items():
            tensor = isinstance(value, torch.Tensor)
            assert torch.equal(piece[name], value) if tensor else piece[name] == value, name


def test_a_batch_of_another_layout_is_not_cut():
    with pytest.raises(
        TrainingError, match=r"^a batch of attention_mask, extra, input_ids cannot .*; try another"
    ):
        split({"input_ids": [], "attention_mask": [], "extra": []}, 2, "try another")
