"""Arguments that RewardTrainer hands on, or reads itself: each changes what it says it changes."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback, TrainingArguments

from tasks.errors import ParamsError, TrainingError
from tasks.training import DataCollatorForPreference, RewardConfig, RewardTrainer
from tests.training.tiny import PAD, QUIET, make_rows


def make(base, directory, **given):
    usual = {"max_steps": 2, "learning_rate": 1e-3, "logging_steps": 1}
    usual["train_sampling_strategy"] = "sequential"
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**QUIET, **usual, **given.pop("fields", {})}),
        train_dataset=Dataset.from_list(make_rows(16)),
        **given,
    )


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def test_an_optimizer_and_schedule_of_one_s_own_are_used(base, tmp_path):
    trainer = make(base, tmp_path, fields={"max_grad_norm": 0, "max_steps": 1})
    before = weights(trainer)
    optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
    again = RewardTrainer(
        trainer.model,
        trainer.args,
        train_dataset=trainer.train_dataset,
        processing_class=trainer.processing_class,
        optimizers=(optimizer, schedule),
    )
    gradients = {}
    for name, parameter in again.model.named_parameters():
        parameter.register_hook(lambda g, name=name: gradients.update({name: g.clone()}))
    again.train()
    for name, tensor in weights(again).items():
        assert torch.allclose(tensor, before[name] - 0.5 * gradients[name], atol=1e-6), name
    assert schedule.last_epoch == 1


def test_a_gradient_norm_of_none_never_scales_as_zero_does(base, tmp_path):
    found = []
    for norm in (None, 0, 1e-3):
        trainer = make(base, tmp_path, fields={"max_grad_norm": norm, "optim": "sgd"})
        trainer.train()
        found.append([r["loss"] for r in trainer.state.log_history if "loss" in r])
    assert found[0] == found[1] != found[2]


def test_an_optimizer_class_gets_its_arguments(base, tmp_path):
    given = (torch.optim.SGD, {"lr": 0.25, "momentum": 0.5})
    trainer = make(base, tmp_path, optimizer_cls_and_kwargs=given)
    trainer.train()
    inner = trainer.optimizer.optimizer
    assert isinstance(inner, torch.optim.SGD)
    assert inner.param_groups[0]["momentum"] == 0.5
    assert trainer.state.log_history[0]["learning_rate"] == 0.25


def test_callbacks_see_the_steps_and_may_stop_the_run(base, tmp_path):
    class Stop(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):  # noqa: ARG002
            if "loss" in logs:
                seen.append(logs["loss"])
                control.should_training_stop = len(seen) == 2

    seen = []
    trainer = make(base, tmp_path, callbacks=[Stop()], fields={"max_steps": 50})
    trainer.train()
    assert trainer.state.global_step == len(seen) == 2


def test_a_collator_of_one_s_own_and_padding_to_a_multiple_change_no_loss(base, tmp_path):
    plain = make(base, tmp_path, fields={"layout": "padded"})
    sizes = []

    class Wide(DataCollatorForPreference):
        def __call__(self, examples):
            batch = super().__call__(examples)
            sizes.append(batch["input_ids"].shape[1])
            return batch

    def by_names_of_others(rows):
        sides = [r[name] for name in ("chosen_ids", "rejected_ids") for r in rows]
        longest = max(map(len, sides))
        return {
            "input_ids": torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sides]),
            "attention_mask": torch.tensor(
                [[1] * len(ids) + [0] * (longest - len(ids)) for ids in sides]
            ),
        }

    wide = make(base, tmp_path, data_collator=Wide(PAD, pad_to_multiple_of=32))
    other = make(base, tmp_path, data_collator=by_names_of_others)
    rounded = make(base, tmp_path, fields={"layout": "padded", "pad_to_multiple_of": 32})
    trainers = plain, wide, rounded, other
    for trainer in trainers:
        trainer.train()
    assert set(sizes) == {32}
    first, *others = ([r["loss"] for r in t.state.log_history if "loss" in r] for t in trainers)
    for losses in others:
        assert losses == pytest.approx(first, abs=1e-6)


def test_a_gradient_that_is_not_finite_ends_the_run_though_its_loss_is(base, tmp_path):
    trainer = make(base, tmp_path, fields={"preflight": False})
    before = weights(trainer)
    trainer.model.score.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(TrainingError, match=r"step 1: loss \d.*gradient norm nan.*pair0000, pair"):
        trainer.train()
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(trainer).items())


def test_settings_come_as_text_too(base, tmp_path):
    fields = {"model_init_kwargs": '{"attn_implementation": "eager"}', "loss": '{"type": "focal"}'}
    trainer = make(base, tmp_path, fields=fields)
    assert trainer.model.config._attn_implementation == "eager"
    assert trainer.objective.params.type == "focal"


def test_what_is_resumed_may_be_loaded_to_the_device_of_a_process_among_several(
    tmp_path, monkeypatch
):
    numbered = torch.device("cpu", 0)  # accelerate's name for it; transformers 5.17 loads there
    monkeypatch.setattr(TrainingArguments, "_setup_devices", numbered)
    torch.save({"step": torch.ones(2)}, tmp_path / "optimizer.pt")
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    loaded = torch.load(tmp_path / "optimizer.pt", map_location=args.device, weights_only=True)
    assert torch.equal(loaded["step"], torch.ones(2))


@pytest.mark.parametrize("size", [9, 4, 1])
def test_metrics_that_grow_by_batches_are_those_of_all_pairs_at_once(base, tmp_path, size):
    def at_once(prediction):
        gaps.append(prediction.predictions @ [1, -1])
        return {"widest": np.abs(gaps[0]).max()}

    def by_batch(prediction, compute_result):
        seen.append(prediction)
        wide = np.abs(np.concatenate([p.predictions @ [1, -1] for p in seen])).max()
        return {"widest": wide} if compute_result else {}

    gaps, seen = [], []
    rows = [
        {**row, "preference": 0.5 + 0.5 * (n > 2)} for n, row in enumerate(make_rows(9, seed=1))
    ]
    whole = make(base, tmp_path, eval_dataset=rows, compute_metrics=at_once).evaluate()
    fields = {
        "batch_eval_metrics": True,
        "per_device_eval_batch_size": size,
        "eval_strategy": "steps",
    }
    trainer = make(base, tmp_path, eval_dataset=rows, compute_metrics=by_batch, fields=fields)
    grown = trainer.evaluate()
    assert [len(p.predictions) for p in seen] == [size] * (9 // size) + [9 % size] * (9 % size > 0)
    assert np.concatenate([p.label_ids for p in seen]).tolist() == [-100] * 3 + [0] * 6
    timed = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
    names = set(whole).difference(timed, ["eval_model_preparation_time"])
    assert {"eval_loss", "eval_accuracy", "eval_widest"} <= names
    for name in names:
        assert grown[name] == pytest.approx(whole[name], abs=1e-6), name
    assert trainer.predict(rows).label_ids.tolist() == [-100] * 3 + [0] * 6
    trainer.user_metrics = None
    trainer.train()
    assert len([r for r in trainer.state.log_history if "eval_accuracy" in r]) == 2


def test_the_label_smoothing_of_classifiers_is_refused_with_the_name_of_ours(tmp_path):
    with pytest.raises(ParamsError, match=r"label_smoothing_factor=0.3 .*label_smoothing: 0.3"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, label_smoothing_factor=0.3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"per_device_train_batch_size": 17}, r"16 pairs.*a batch takes 17.*drop"),
        ({"per_device_train_batch_size": 64, "max_steps": -1}, r"16 pairs.*a batch takes 64"),
        (
            {"per_device_train_batch_size": 17, "max_tokens_per_micro_batch": 64},
            r"16 pairs.*a batch takes 17",
        ),
    ],
)
def test_an_epoch_without_a_whole_batch_is_told_apart_from_a_stream(base, tmp_path, fields, said):
    trainer = make(base, tmp_path, fields={"dataloader_drop_last": True, **fields})
    with pytest.raises(ParamsError, match=said):
        trainer.train()


def test_batches_that_are_not_whole_are_left_out(base, tmp_path):
    fields = {"dataloader_drop_last": True, "per_device_train_batch_size": 6, "max_steps": -1}
    trainer = make(base, tmp_path, fields={**fields, "num_train_epochs": 1})
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize("size", [2, 4, 16])
def test_no_row_is_left_out_of_an_evaluation(base, tmp_path, size):
    rows = make_rows(9, seed=1)
    fields = {"dataloader_drop_last": True, "per_device_eval_batch_size": size}
    whole = make(base, tmp_path, eval_dataset=rows).evaluate()
    trainer = make(base, tmp_path, eval_dataset=rows, fields=fields)
    found = trainer.evaluate()
    for name in ("eval_loss", "eval_margin", "eval_min_reward", "eval_max_reward"):
        assert found[name] == pytest.approx(whole[name], abs=1e-6), name
    assert trainer.predict(rows).predictions.shape == (9, 2)
    assert trainer.args.dataloader_drop_last


@pytest.mark.parametrize("strategy", ["group_by_length", "sequential"])
def test_rows_are_evaluated_in_their_order_however_training_takes_them(base, tmp_path, strategy):
    rows = make_rows(9, seed=1)
    given = {"train_sampling_strategy": strategy, "per_device_eval_batch_size": 2}
    trainer = make(base, tmp_path, eval_dataset=rows, fields={**given, "eval_strategy": "steps"})
    trainer.train()
    evaluated = [r for r in trainer.state.log_history if "eval_loss" in r]
    assert [r["step"] for r in evaluated] == [1, 2]
    wanted = np.concatenate([trainer.predict([row]).predictions for row in rows])
    np.testing.assert_allclose(trainer.predict(rows).predictions, wanted, atol=1e-6)
    assert np.ptp(wanted) > 0.01
    assert evaluated[-1]["eval_margin"] == pytest.approx((wanted @ [1, -1]).mean(), abs=1e-6)


def test_batches_of_like_length_come_from_the_seed_of_the_data(base, tmp_path):
    fields = {"train_sampling_strategy": "group_by_length", "per_device_train_batch_size": 2}

    def order(**seeds):
        loader = make(base, tmp_path, fields={**fields, **seeds}).get_train_dataloader()
        return [micro["pair_id"] for item in loader for micro in item["micro_batches"]]

    first = order(seed=1, data_seed=7)
    assert first == order(seed=2, data_seed=7)
    assert first != order(seed=1, data_seed=8)
    assert order(seed=1) != order(seed=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (make_rows(3), r"got 'helpfull'; expected rows.*names are \[\]$"),
        ({"helpful": make_rows(3), "b": make_rows(2)}, r"are \['b', 'helpful'\].*mean 'helpful'"),
        (None, r"got 'helpfull'; expected rows.*names are \[\]$"),
    ],
)
def test_a_name_that_no_rows_have_is_told_by_the_names_that_there_are(base, tmp_path, given, said):
    trainer = make(base, tmp_path, eval_dataset=given)
    with pytest.raises(ParamsError, match=said):
        trainer.evaluate("helpfull")
    if isinstance(given, dict):
        assert trainer.evaluate("b")["eval_loss"] == trainer.evaluate(given["b"])["eval_loss"]


def test_half_precision_that_is_asked_for_stays_and_is_nobody_s_default_on_a_cpu(tmp_path):
    given = {"output_dir": str(tmp_path), "use_cpu": True}
    found = [RewardConfig(**given, bf16=asked).bf16 for asked in (True, False, None)]
    assert found == [True, False, False]
