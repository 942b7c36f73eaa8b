"""Two processes (DDP, gloo) follow the trajectory of one, for every loss, layout and budget."""

import random

import pytest

from tests.training.layout.test_layouts_in_training import ranked
from tests.training.process.two_processes import histories_of_two, history
from tests.training.tiny import make_rows

pytestmark = pytest.mark.slow


def soft(count):
    """Pairs with ties, soft labels and weights."""
    draw = random.Random(3)
    rows = make_rows(count)
    for row in rows:
        row["preference"] = draw.choice([0.5, 0.75, 1.0])
        row["weight"] = draw.choice([0.5, 1.0, 2.0])
    return rows


LOSSES = {
    "bradley_terry": 48,
    "davidson": soft(48),
    "focal": 48,
    "regression": 48,
    "scaled_bradley_terry": 48,
    "all_pairs": ranked(40),
    "plackett_luce": ranked(40),
}
ONE = {"max_steps": 50, "per_device_train_batch_size": 8}
TWO = {"max_steps": 50, "per_device_train_batch_size": 4}
BUDGETS = {
    "prefix_shared": {"max_tokens_per_micro_batch": 30},
    "padding_free": {"max_tokens_per_micro_batch": 30},
    "padded": {"max_tokens_per_micro_batch": 50},
    "accumulated": {
        "layout": "prefix_shared",
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
    },
    "by_length": {"layout": "padded", "train_sampling_strategy": "group_by_length"},
}
UNEVEN = 41
"""Pairs: the last batch of an epoch is one pair, and a process has nothing to compute."""
STREAMS = {
    "stream": (1, {}),
    "stream of several files": (5, {}),
    "stream of whole batches": (1, {"dataloader_drop_last": True}),
    "stream, accumulated": (
        1,
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
    ),
}
"""Into how many files the rows are cut, and how they are trained on."""
HELD_OUT = {f"{rows} held out": rows for rows in (5, 7, 8)}
"""By batches of 2 of two processes: one row is left over, then three, then none."""


def own_loss(rows, of_a_process):
    fields = {"max_steps": 1, "per_device_train_batch_size": of_a_process, "layout": "padded"}
    fields["per_device_eval_batch_size"] = 2
    return {"rows": 8, "own_loss": True, "held_out": rows, "fields": fields}


@pytest.fixture(scope="module")
def of_two(base, tmp_path_factory):
    cases = {
        name: {"rows": rows, "fields": {**TWO, "loss": {"type": name}}}
        for name, rows in LOSSES.items()
    }
    for name, fields in BUDGETS.items():
        layout = {"layout": name} if "layout" not in fields else {}
        cases[name] = {"rows": UNEVEN, "fields": {**TWO, **layout, **fields}}
    for name, (files, fields) in STREAMS.items():
        cases[name] = {"rows": UNEVEN, "stream": files, "fields": {**TWO, **fields}}
    cases |= {name: own_loss(rows, 4) for name, rows in HELD_OUT.items()}
    return histories_of_two(base, tmp_path_factory.mktemp("two") / "out", cases)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_the_trajectory_of_one_process(base, tmp_path, of_two, name):
    case = {"rows": LOSSES[name], "fields": {**ONE, "loss": {"type": name}}}
    _same(history(base, tmp_path, case), of_two[name], 1e-6)


@pytest.mark.parametrize("name", BUDGETS)
def test_every_layout_and_budget_has_the_trajectory_of_padded_batches(base, tmp_path, of_two, name):
    grouped = {k: v for k, v in BUDGETS[name].items() if k == "train_sampling_strategy"}
    fields = {**ONE, **grouped, "layout": "padded"}
    _same(history(base, tmp_path, {"rows": UNEVEN, "fields": fields}), of_two[name], 1e-5)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_shared_out_row_by_row(base, tmp_path, of_two, name):
    files, fields = STREAMS[name]
    dropped = {k: v for k, v in fields.items() if k == "dataloader_drop_last"}
    case = {"rows": UNEVEN, "stream": files, "fields": {**ONE, **dropped}}
    _same(history(base, tmp_path, case), of_two[name], 1e-5)


@pytest.mark.parametrize("name", HELD_OUT)
def test_a_loss_of_one_s_own_is_evaluated_over_each_row_once(base, tmp_path, of_two, name):
    (one,) = history(base, tmp_path, own_loss(HELD_OUT[name], 8))
    assert of_two[name][0]["eval_loss"] == pytest.approx(one["eval_loss"], abs=1e-6)


def _same(one, two, within):
    assert len(one) == len(two) == 50
    both = [(a["loss"], b["loss"]) for a, b in zip(one, two, strict=True)]
    worst = max(abs(a - b) / max(1.0, abs(a)) for a, b in both)
    print(f"worst difference of a loss: {worst:.1e}")
    assert worst <= within
    assert one[0]["loss"] != pytest.approx(one[-1]["loss"], rel=1e-3)
    for a, b in zip(one, two, strict=True):
        assert a["num_tokens"] == b["num_tokens"]
        for name in a.keys() & {"accuracy", "margin", "mean_reward", "min_reward", "max_reward"}:
            assert a[name] == pytest.approx(b[name], abs=10 * within)
