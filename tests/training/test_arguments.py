"""Arguments that RewardTrainer hands on, or reads itself: each changes what it says it changes."""

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback, TrainingArguments

from tasks.errors import TrainingError
from tasks.training import DataCollatorForPreference, RewardConfig, RewardTrainer
from tests.training.tiny import PAD, make_rows


def make(base, directory, **given):
    fields = {"max_steps": 2, "learning_rate": 1e-3, "logging_steps": 1, **given.pop("fields", {})}
    return RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            use_cpu=True,
            gradient_checkpointing=False,
            disable_tqdm=True,
            save_strategy="no",
            report_to="none",
            train_sampling_strategy="sequential",
            **fields,
        ),
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

    wide = make(base, tmp_path, data_collator=Wide(PAD, pad_to_multiple_of=32))
    rounded = make(base, tmp_path, fields={"layout": "padded", "pad_to_multiple_of": 32})
    for trainer in (plain, wide, rounded):
        trainer.train()
    assert set(sizes) == {32}
    first, *others = (
        [r["loss"] for r in t.state.log_history if "loss" in r] for t in (plain, wide, rounded)
    )
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
