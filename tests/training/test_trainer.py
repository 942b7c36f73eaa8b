"""RewardTrainer: the same result however pairs are batched, and a clear end where none is."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForSequenceClassification, TrainerCallback

from tasks.errors import DataError, ParamsError, TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.batches.pairs import open_pairs
from tasks.training.model.loading import load_reward_model
from tests.training.tiny import VOCABULARY, make_rows, make_tokenizer, write_pairs

METRICS = {"loss", "accuracy", "min_reward", "mean_reward", "max_reward", "margin"}


def config(directory, **fields):
    given = {
        "use_cpu": True,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
    }
    return RewardConfig(output_dir=str(directory), **{**given, **fields})


def trained(base, directory, rows, **fields):
    """A trainer after its training, and its logged records."""
    trainer = RewardTrainer(
        str(base), config(directory, **fields), train_dataset=Dataset.from_list(rows)
    )
    trainer.train()
    return trainer, [r for r in trainer.state.log_history if "loss" in r]


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def test_every_documented_metric_is_logged(base, tmp_path):
    _, records = trained(base, tmp_path, make_rows(16), num_train_epochs=1)
    assert set(records[0]) == METRICS | {
        "num_tokens",
        "learning_rate",
        "grad_norm",
        "epoch",
        "step",
    }
    tokens = [len(r["chosen_input_ids"]) + len(r["rejected_input_ids"]) for r in make_rows(16)]
    assert records[-1]["num_tokens"] == sum(tokens)


def test_an_interval_is_a_mean_over_its_pairs_and_an_unfinished_one_is_logged_at_the_end(
    base, tmp_path
):
    # 6 steps of 8, 8 and 5 pairs, twice: records of 10 and of 4 steps leave a rest, of 1 none
    rows, each = make_rows(21), np.array([8, 8, 5, 8, 8, 5])
    tokens = 2 * sum(len(r["chosen_input_ids"]) + len(r["rejected_input_ids"]) for r in rows)
    _, alone = trained(base, tmp_path, rows, num_train_epochs=2)
    for every, steps in ((1, [1, 2, 3, 4, 5, 6]), (10, [6]), (4, [4, 6])):
        _, records = trained(base, tmp_path, rows, num_train_epochs=2, logging_steps=every)
        assert [record["step"] for record in records] == steps
        assert records[-1]["num_tokens"] == tokens
        for begin, record in zip([0, *steps], records, strict=False):
            own = slice(begin, record["step"])
            for name in ("loss", "accuracy", "margin", "mean_reward"):
                mean = np.average([r[name] for r in alone[own]], weights=each[own])
                assert record[name] == pytest.approx(mean, abs=1e-6), name


def test_a_run_that_begins_anew_counts_nothing_of_one_that_was_broken_off(base, tmp_path):
    class Once(TrainerCallback):
        """A Ctrl-C in a notebook, within the second step."""

        def on_substep_end(self, args, state, *_, **__):  # noqa: ARG002
            if state.global_step == 1 and not broken:
                broken.append(state.global_step)
                raise KeyboardInterrupt

    broken: list[int] = []
    fields = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    trainer, records = trained(base, tmp_path, make_rows(8), logging_steps=5, **fields)
    [whole] = records[:1]
    trainer.add_callback(Once())
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train()
    [again] = [r for r in trainer.state.log_history if "loss" in r][:1]
    assert again["num_tokens"] == whole["num_tokens"]
    assert not trainer.guard._pairs


def test_a_gradient_is_the_mean_over_the_pairs_of_unequal_micro_batches(base, tmp_path):
    # 5 pairs as 3 + 2: a mean of two means would weigh the last two pairs more
    rows = make_rows(5)
    fields = {"max_steps": 1, "train_sampling_strategy": "sequential"}
    whole, [one] = trained(base, tmp_path / "a", rows, per_device_train_batch_size=5, **fields)
    parts, [two] = trained(
        base,
        tmp_path / "b",
        rows,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=2,
        **fields,
    )
    assert one["grad_norm"] == pytest.approx(two["grad_norm"], rel=1e-5)
    assert one["loss"] == pytest.approx(two["loss"], abs=1e-6)
    with torch.no_grad():
        expected = _losses_by_hand(base, rows).mean()
    assert one["loss"] == pytest.approx(expected.item(), abs=1e-6)
    for name, tensor in weights(parts).items():
        assert torch.allclose(tensor, weights(whole)[name], atol=2e-5)


def _losses_by_hand(base, rows):
    model = load_reward_model(base, seed=42).model.eval()
    rewards = [
        [model(input_ids=torch.tensor([row[side]])).logits[0, 0] for row in rows]
        for side in ("chosen_input_ids", "rejected_input_ids")
    ]
    difference = torch.stack(rewards[0]) - torch.stack(rewards[1])
    return torch.log1p(torch.exp(-difference))


def test_a_pair_of_weight_two_trains_as_the_pair_given_twice(base, tmp_path):
    rows = make_rows(3)
    fields = {"max_steps": 1, "train_sampling_strategy": "sequential"}
    _, [twice] = trained(base, tmp_path / "a", [rows[0], *rows], **fields)
    heavy = [{**rows[0], "weight": 2.0}, *rows[1:]]
    _, [weighted] = trained(base, tmp_path / "b", heavy, **fields)
    assert weighted["loss"] == pytest.approx(twice["loss"], abs=1e-6)
    assert weighted["grad_norm"] == pytest.approx(twice["grad_norm"], rel=1e-5)


def test_compute_metrics_gets_the_table_of_rewards(base, pairs, tmp_path):
    seen = {}

    def compute_metrics(prediction):
        seen["shape"] = prediction.predictions.shape
        return {"wins": int((prediction.predictions.argmax(1) == prediction.label_ids).sum())}

    trainer = RewardTrainer(
        str(base),
        config(tmp_path, per_device_eval_batch_size=4),
        eval_dataset={"held": open_pairs(pairs / "eval")},
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=lambda logits, labels: logits * 2,  # noqa: ARG005
    )
    metrics = trainer.evaluate()
    assert seen["shape"] == (9, 2)
    assert metrics["eval_held_wins"] == round(metrics["eval_held_accuracy"] * 9)


def test_saved_model_scores_as_the_trained_one_bit_for_bit(base, pairs, tmp_path):
    rows = open_pairs(pairs / "eval")
    trainer, _ = trained(base, tmp_path, make_rows(16), num_train_epochs=2)
    before = trainer.predict(rows).predictions
    trainer.save_model(str(tmp_path / "saved"))
    again = RewardTrainer(str(tmp_path / "saved"), config(tmp_path / "again"))
    assert again.head.origin == "loaded"
    assert np.array_equal(before, again.predict(rows).predictions)
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        for pair, (chosen, _) in zip(rows, before, strict=True):
            reward = plain(torch.tensor([pair["chosen_input_ids"]])).logits.item()
            assert reward == pytest.approx(chosen, abs=1e-5)


def test_bfloat16_training_keeps_float32_weights_and_rewards(base, tmp_path):
    trainer, records = trained(base, tmp_path, make_rows(24), bf16=True, num_train_epochs=3)
    assert trainer.accelerator.mixed_precision == "bf16"
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert records[-1]["loss"] < records[0]["loss"]
    rewards = torch.tensor(trainer.predict(trainer.train_dataset).predictions)
    assert not torch.equal(rewards, rewards.bfloat16().float())


@pytest.mark.catalogue(118)
def test_a_loss_that_is_not_finite_ends_the_run_and_names_its_pairs(base, tmp_path):
    rows = make_rows(12)
    rows = [{**row, "margin": 0.0} for row in rows]
    rows[9] |= {"margin": 1e18, "weight": 1e30}  # their product is no float32
    trainer = RewardTrainer(
        str(base),
        config(
            tmp_path,
            per_device_train_batch_size=4,
            train_sampling_strategy="sequential",
            save_strategy="steps",
            save_steps=1,
        ),
        train_dataset=Dataset.from_list(rows),
    )
    named = r"step 3: loss inf.*Pairs of this step: pair0008, pair0009, pair0010, pair0011\."
    with pytest.raises(TrainingError, match=named):
        trainer.train()
    assert all(bool(torch.isfinite(p).all()) for p in trainer.model.parameters())
    assert trainer.newest_checkpoint().step == 2


def test_tokenized_rows_under_another_name_are_taken_and_other_columns_refused(base, tmp_path):
    rows = make_rows(4)
    newer = [
        {"chosen_ids": r["chosen_input_ids"], "rejected_ids": r["rejected_input_ids"]} for r in rows
    ]
    trainer, _ = trained(base, tmp_path, newer, max_steps=1)
    assert trainer.train_dataset["pair_id"][:2] == ["row 0", "row 1"]
    both = [{**row, "chosen_input_ids": [5], "rejected_input_ids": [6]} for row in newer]
    for given in (both, Dataset.from_list(both).to_iterable_dataset()):
        again = RewardTrainer(
            str(base), config(tmp_path / "both", max_steps=1),
            train_dataset=given if given is not both else Dataset.from_list(both),
        )  # fmt: skip
        assert next(iter(again.train_dataset))["chosen_input_ids"] == newer[0]["chosen_ids"]
    with pytest.raises(DataError, match=r"columns \['better', 'worse'\]; expected raw pairs"):
        trained(base, tmp_path, [{"better": "yes", "worse": "no"}])


def test_long_pairs_are_left_out_and_nothing_is_written_beside_the_rows(base, tmp_path):
    rows = make_rows(12)
    write_pairs(tmp_path / "pairs", rows, "train")
    before = sorted((tmp_path / "pairs").rglob("*"))
    longest = [max(len(r["chosen_input_ids"]), len(r["rejected_input_ids"])) for r in rows]
    trainer = RewardTrainer(
        str(base),
        config(tmp_path / "run", max_length=10),
        train_dataset=open_pairs(tmp_path / "pairs" / "train"),
    )
    short = [row["pair_id"] for row, length in zip(rows, longest, strict=True) if length <= 10]
    assert 0 < len(short) < 12
    assert trainer.train_dataset["pair_id"][:] == short
    assert sorted((tmp_path / "pairs").rglob("*")) == before


def test_settings_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(ParamsError, match="logging_nan_inf_filter"):
        config(tmp_path, logging_nan_inf_filter=True)
    with pytest.raises(ParamsError, match=r"warmup_ratio=0\.1 and warmup_steps=5"):
        config(tmp_path, warmup_ratio=0.1, warmup_steps=5)
    with pytest.raises(ParamsError, match=r"warmup_ratio=0\.0 and warmup_steps=5"):
        config(tmp_path, warmup_ratio=0.0, warmup_steps=5)
    assert config(tmp_path, warmup_ratio=0.1).get_warmup_steps(50) == 5


def test_a_model_object_is_taken_with_its_tokenizer(base, tmp_path):
    model = load_reward_model(base, seed=42).model
    trainer = RewardTrainer(
        model,
        config(tmp_path, max_steps=2),
        train_dataset=Dataset.from_list(make_rows(8)),
        processing_class=make_tokenizer(),
    )
    trainer.train()
    _, records = trained(base, tmp_path / "path", make_rows(8), max_steps=2)
    assert trainer.state.log_history[1]["loss"] == records[1]["loss"]


@pytest.mark.parametrize("family", ["deberta-v2", "modernbert"])
def test_an_encoder_mapped_from_its_file_trains_as_an_object(tmp_path, family):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "cls_token_id": 2}
    made = AutoConfig.for_model(
        family, vocab_size=VOCABULARY, intermediate_size=48, num_labels=1, **sizes, **ids
    )
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(made).save_pretrained(tmp_path / "base")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
    assert any(p.data_ptr() % 64 for p in model.parameters())  # else there is nothing to see
    trainer = RewardTrainer(
        model,
        config(tmp_path, max_steps=1),
        train_dataset=Dataset.from_list(make_rows(8)),
        processing_class=make_tokenizer(),
    )
    assert trainer.train().global_step == 1


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("lora", [None, {"r": 4}], ids=["whole", "lora"])
def test_a_model_trained_in_half_precision_goes_on_in_the_precision_asked_for(base, tmp_path, lora):
    rows = Dataset.from_list(make_rows(8))
    peft = None if lora is None else LoraConfig(task_type="SEQ_CLS", **lora)
    half = RewardTrainer(
        str(base), config(tmp_path / "half", bf16=True), train_dataset=rows, peft_config=peft
    )
    half.train()
    half.save_model(str(tmp_path / "saved"))
    losses = []
    for number, model in enumerate((str(tmp_path / "saved"), half.model)):
        args = config(tmp_path / f"on{number}", num_train_epochs=4)
        trainer = RewardTrainer(
            model, args, train_dataset=rows, processing_class=half.processing_class
        )
        trainer.train()
        losses.append([r["loss"] for r in trainer.state.log_history if "loss" in r])
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
