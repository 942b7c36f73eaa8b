"""Losses in a run: the same trajectory for every layout, and rows that do not suit are refused."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from datasets import Dataset

from tasks.errors import DataError, ParamsError
from tasks.training import DataCollatorForPreference, RewardConfig, RewardTrainer
from tasks.training.loss.params import loss_params
from tests.at_length import at_length
from tests.training.tiny import EOS, PAD, make_rows

SMALL = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}
KINDS = {
    "soft": {"label_smoothing": 0.1},
    "davidson": {"type": "davidson", "nu": 0.5, "margin": "ignore"},
    "scaled": {"type": "scaled_bradley_terry"},
    "focal": {"type": "focal"},
    "regression": {"type": "regression"},
    "all_pairs": {"type": "all_pairs"},
    "plackett_luce": {"type": "plackett_luce", "margin": "ignore"},
    "plackett_luce with ties": {"type": "plackett_luce"},
}
ALWAYS = ("soft", "all_pairs")
"""Those of the default run: one loss of pairs, one of whole comparisons."""


def trainer_of(base, directory, rows, collator=None, **fields):
    given = {**SMALL, **fields}
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **given),
        collator,
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows),
    )


def rows_for(kind, count=14):
    """Rows with margins and unequal weights, and as the loss allows soft labels or comparisons."""
    if kind in ("all_pairs", "plackett_luce"):
        return compared(count)
    if kind == "plackett_luce with ties":
        return tied(compared(count))
    rows = make_rows(count, margin=True)
    for number, row in enumerate(rows):
        row["weight"] = 1.0 + number % 3
        row["preference"] = 1.0 if kind == "focal" else (1.0, 0.5, 0.8)[number % 3]
    return rows


def compared(count, seed=5):
    """Comparisons of 2, 3 and 4 answers as all their pairs, scattered over the rows."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        prompt = [draw.randrange(3, 20) for _ in range(3)]
        answers = [[*prompt, *draw.choices(range(20, 60), k=5), EOS] for _ in range(2 + number % 3)]
        for better, worse in itertools.combinations(answers, 2):
            rows.append(
                {
                    "pair_id": f"pair{len(rows):04d}",
                    "comparison": f"list{number}",
                    "chosen_input_ids": better,
                    "rejected_input_ids": worse,
                    "weight": 1.0 + number % 2,
                }
            )
    draw.shuffle(rows)
    return rows


def tied(rows):
    """The same, but the two best of three answers are tied, the two worst of four, and both
    answers of every second list of two."""
    for number, row in enumerate(sorted(rows, key=lambda row: row["pair_id"])):
        of_list = int(row["comparison"].removeprefix("list"))
        tie = (of_list % 2, number % 10 == 1, number % 10 == 9)[of_list % 3]
        row["preference"] = 0.5 if tie else 1.0
    return rows


@pytest.mark.parametrize(
    "kind", [*ALWAYS, *at_length(*(kind for kind in KINDS if kind not in ALWAYS))]
)
def test_every_layout_of_a_global_batch_gives_the_same_trajectory(base, tmp_path, kind):
    # 14 pairs or comparisons in global batches of 8 and 6: the last has unequal micro-batches
    runs, weights = [], []
    for size, steps in ((8, 1), (4, 2), (2, 4)):
        trainer = trainer_of(
            base,
            tmp_path / str(size),
            rows_for(kind),
            loss=KINDS[kind],
            num_train_epochs=2,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            center_rewards_coefficient=0.01,
        )
        trainer.train()
        runs.append([r for r in trainer.state.log_history if "learning_rate" in r])
        weights.append([*trainer.model.parameters()])
    assert len(runs[0]) == 4
    for records in itertools.zip_longest(*runs):
        for name in {*records[0]} - {"epoch"}:  # that of a step which is not an epoch's last
            values = [record[name] for record in records]
            assert values == pytest.approx([values[0]] * 3, abs=2e-6), name
    for one, *others in zip(*weights, strict=True):
        assert all(torch.allclose(one, other, atol=2e-5) for other in others)


@pytest.mark.parametrize("kind", KINDS)
def test_the_evaluated_loss_is_the_one_that_is_trained_on_and_has_no_batches(base, tmp_path, kind):
    rows = rows_for(kind)
    found = []
    for size in (1, 3, 100):
        trainer = trainer_of(
            base,
            tmp_path / str(size),
            rows,
            loss=KINDS[kind],
            max_steps=1,
            per_device_train_batch_size=100,
            per_device_eval_batch_size=size,
            center_rewards_coefficient=0.01,
        )
        found.append(trainer.evaluate()["eval_loss"])
    trainer.train()
    trained = trainer.state.log_history[0]["loss"]
    assert found == pytest.approx([trained] * 3, abs=1e-6)


@pytest.mark.parametrize("numbered", [False, True])
def test_all_pairs_is_a_mean_over_comparisons_of_means_over_their_pairs(base, tmp_path, numbered):
    rows = [{**row, "weight": 1.0} for row in compared(4)]
    names = [row["comparison"] for row in rows]
    for row in rows:  # a pair without a comparison is one by itself
        row["comparison"] = None if names.count(row["comparison"]) == 1 else row["comparison"]
    alone = [number for number, row in enumerate(rows) if row["comparison"] is None]
    assert len(alone) == 2
    if numbered:  # a comparison's number is no row's
        number_of = dict(zip(("list1", "list2"), alone, strict=True))
        rows = [{**row, "comparison": number_of.get(row["comparison"])} for row in rows]
    trainer = trainer_of(base, tmp_path, rows, loss="all_pairs", max_steps=1)
    table = torch.tensor(trainer.predict(Dataset.from_list(rows)).predictions)
    losses = torch.log1p(torch.exp(table[:, 1] - table[:, 0]))
    means = [
        losses[[i for i, name in enumerate(names) if name == wanted]].mean()
        for wanted in sorted({*names})
    ]
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(sum(means).item() / 4, abs=1e-6)


@pytest.mark.parametrize("collator", [None, DataCollatorForPreference(PAD)])
def test_an_answer_of_a_comparison_is_read_once(base, tmp_path, collator):
    fields = {"loss": "plackett_luce", "max_steps": 1}
    trainer = trainer_of(base, tmp_path, compared(3), collator, **fields)
    [batch] = trainer.get_train_dataloader()
    assert batch["input_ids"].shape[0] == 2 + 3 + 4
    assert len(batch["pair_id"]) == 1 + 3 + 6
    assert sorted((batch["ranking"] >= 0).sum(1).tolist()) == [2, 3, 4]
    for number, row in enumerate(batch["chosen_row"].tolist()):
        [pair] = [r for r in compared(3) if r["pair_id"] == batch["pair_id"][number]]
        ids = batch["input_ids"][row][batch["attention_mask"][row].bool()].tolist()
        assert ids == pair["chosen_input_ids"]
    trainer.train()
    tokens = int(batch["attention_mask"].sum())
    assert trainer.state.log_history[0]["num_tokens"] == tokens


@pytest.mark.parametrize("kind", ["all_pairs", "plackett_luce"])
def test_a_resumed_run_over_comparisons_ends_in_the_same_weights(base, tmp_path, kind):
    fields = {"per_device_train_batch_size": 4, "num_train_epochs": 2, "save_steps": 3}
    fields |= {"loss": kind, "save_strategy": "steps"}
    whole = trainer_of(base, tmp_path / "whole", compared(14), **fields)
    whole.train()
    resumed = trainer_of(base, tmp_path / "whole", compared(14), **fields)
    resumed.train(str(tmp_path / "whole" / "checkpoint-3"))
    for name, tensor in resumed.model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name]), name


@pytest.mark.parametrize("kind", ["all_pairs", "plackett_luce"])
def test_pairs_of_no_comparison_are_evaluated_each_by_itself(base, tmp_path, kind):
    trainer = trainer_of(base, tmp_path, compared(4), loss=kind)
    rows = make_rows(5)
    rows[2]["rejected_input_ids"] = rows[2]["chosen_input_ids"]  # stays in an evaluation
    for named in (rows, [row | {"comparison": None} for row in rows]):
        loss = trainer.evaluate(named)["eval_loss"]
        chosen, rejected = trainer.predict(named).predictions.astype(float).T
        assert loss == pytest.approx(np.log1p(np.exp(rejected - chosen)).mean(), abs=1e-9)


def test_a_tie_is_counted_apart_and_has_no_right_answer(base, tmp_path):
    rows = make_rows(12)
    for number, row in enumerate(rows):
        row["preference"] = 0.5 if number < 4 else 1.0
    seen = {}
    trainer = trainer_of(base, tmp_path, rows, loss="davidson", max_steps=1)
    trainer.user_metrics = lambda prediction: seen.update(labels=prediction.label_ids) or {}
    metrics = trainer.evaluate()
    table = trainer.predict(Dataset.from_list(rows)).predictions[4:]
    assert metrics["eval_tied_pairs"] == 4
    assert metrics["eval_accuracy"] == pytest.approx((table[:, 0] > table[:, 1]).mean())
    assert metrics["eval_margin"] == pytest.approx((table[:, 0] - table[:, 1]).mean(), abs=1e-6)
    assert seen["labels"].tolist() == [-100] * 4 + [0] * 8
    trainer.train()
    [record] = [r for r in trainer.state.log_history if "learning_rate" in r]
    assert 0 < record["tied_pairs"] <= 4


def test_several_sources_have_metrics_of_their_own(base, tmp_path):
    rows = make_rows(12)
    for number, row in enumerate(rows):
        row["source"] = ("talk", "code")[number % 2]
    trainer = trainer_of(base, tmp_path, rows, per_device_eval_batch_size=5)
    metrics = trainer.evaluate()
    halves = metrics["eval_talk_accuracy"] + metrics["eval_code_accuracy"]
    assert halves / 2 == pytest.approx(metrics["eval_accuracy"])
    assert (metrics["eval_talk_loss"] + metrics["eval_code_loss"]) / 2 == pytest.approx(
        metrics["eval_loss"]
    )
    alone = trainer.evaluate(rows[::2])
    assert alone["eval_loss"] == pytest.approx(metrics["eval_talk_loss"])
    assert not [name for name in alone if "talk" in name]  # they would all be there twice


@pytest.mark.parametrize(
    ("loss", "change", "error", "told"),
    [
        ("regression", {}, DataError, "12 of 12 rows of the train dataset have none.*pair0000"),
        ("scaled_bradley_terry", {"margin": None}, DataError, "needs margins"),
        ("davidson", {"margin": 0.5}, ParamsError, "12 of 12 rows .* set margin: ignore"),
        ("plackett_luce", {"margin": 0.5}, ParamsError, "does not use margins.*pair pair0000"),
        ("focal", {"preference": 0.5}, DataError, "ties and soft labels, but 12 of 12 rows "),
        ("plackett_luce", {"preference": 0.9}, DataError, "use soft labels.* pair pair0000"),
        ("all_pairs", {}, DataError, "no row of the train dataset has a `comparison`"),
    ],
)
def test_rows_that_do_not_suit_the_loss_are_refused_before_training(
    base, tmp_path, loss, change, error, told
):
    rows = [{**row, **change} for row in make_rows(12)]
    with pytest.raises(error, match=told):
        trainer_of(base, tmp_path, rows, loss=loss)


def test_a_comparison_without_one_order_is_refused_by_name(base, tmp_path):
    rows = compared(3)
    [first] = [r for r in rows if r["comparison"] == "list0"]
    turned = {
        **first,
        "chosen_input_ids": first["rejected_input_ids"],
        "rejected_input_ids": first["chosen_input_ids"],
    }
    with pytest.raises(DataError, match=r"comparison 'list0' .* its 2 pairs contradict each other"):
        trainer_of(base, tmp_path, [*rows, turned], loss="plackett_luce")
    # answers a, b, c of list1 without b > c
    rows = [row for row in rows if row["pair_id"] != "pair0003"]
    with pytest.raises(DataError, match=r"'list1' .*: its 2 pairs do not say which of two is"):
        trainer_of(base, tmp_path, rows, loss="plackett_luce")
    # a tied with b, b with c, and a better than c
    rows = [row | {"preference": 0.5 + 0.5 * (row["pair_id"] == "pair0002")} for row in compared(2)]
    with pytest.raises(DataError, match=r"'list1' .*: its 3 pairs contradict each other"):
        trainer_of(base, tmp_path, rows, loss="plackett_luce")


def test_streams_are_refused_where_pairs_must_stay_together_and_checked_row_by_row(base, tmp_path):
    stream = Dataset.from_list(compared(3)).to_iterable_dataset()
    args = RewardConfig(output_dir=str(tmp_path), loss="all_pairs", max_steps=1, **SMALL)
    with pytest.raises(ParamsError, match="a stream cannot be looked through"):
        RewardTrainer(str(base), args, train_dataset=stream)
    collate = DataCollatorForPreference(0, loss=loss_params("regression"))
    pair = {"pair_id": "p7", "chosen_input_ids": [1], "rejected_input_ids": [2]}
    with pytest.raises(DataError, match="pair p7: no margin"):
        collate([{**pair, "margin": None}])
    collate = DataCollatorForPreference(0, loss=loss_params("focal"))
    with pytest.raises(DataError, match=r"pair p7: preference 0\.5"):
        collate([{**pair, "preference": 0.5}])


def test_an_unknown_loss_is_refused_by_the_config(tmp_path):
    with pytest.raises(ParamsError, match=r"loss\.type"):
        RewardConfig(output_dir=str(tmp_path), loss="hinge", use_cpu=True)
    config = RewardConfig(output_dir=str(tmp_path), loss='{"type": "davidson", "nu": 2}')
    assert config.loss == {"type": "davidson", "nu": 2}
    assert math.isclose(loss_params(config.loss).nu, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_samples_are_shown_with_their_texts_and_rewards(base, tmp_path, capsys, stream):
    trainer = trainer_of(base, tmp_path, make_rows(6))
    if stream:
        trainer.eval_dataset = trainer.eval_dataset.to_iterable_dataset()
    rewards = trainer.predict(Dataset.from_list(make_rows(6))).predictions
    capsys.readouterr()
    trainer.visualize_samples(2)
    shown = capsys.readouterr().out
    assert f"{rewards[1, 0]:.4f}" in shown
    assert f"{rewards[2, 0]:.4f}" not in shown
    assert "<eos>" in shown
    trainer.visualize_samples(-1)
    assert f"{rewards[5, 1]:.4f}" in capsys.readouterr().out
