"""A subclass with a `compute_loss` of its own: trained on, logged and evaluated as it says."""

import pytest
import torch
from datasets import Dataset
from torch.nn.functional import logsigmoid

from tasks.errors import ParamsError, TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tests.at_length import at_length
from tests.training.checkpoints.test_checkpoint_rotation import killed
from tests.training.peer.beside_peer import FIELDS, quiet
from tests.training.tiny import make_rows, make_tokenizer

UNEVEN = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}
"""Of 22 pairs: a step of 4, 4 and 4, then one of 4, 4 and 2."""


class Written(RewardTrainer):
    """Bradley-Terry as a script for TRL writes it."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # noqa: ARG002
        inputs["use_cache"] = False
        rewards = model(**inputs).logits.squeeze(-1)
        chosen, rejected = torch.chunk(rewards, chunks=2)
        loss = -logsigmoid(chosen - rejected).mean()
        return (loss, {"rewards": rewards}) if return_outputs else loss


class Older(RewardTrainer):
    """The same with the arguments of older versions."""

    def compute_loss(self, model, inputs, return_outputs=False):
        output = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        chosen, rejected = output["logits"][:, 0].chunk(2)
        loss = -logsigmoid(chosen - rejected).mean()
        return (loss, output) if return_outputs else loss


class Called(RewardTrainer):
    """RewardTrainer's loss without word of the whole step."""

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        return super().compute_loss(model, inputs, return_outputs)


class Twice(RewardTrainer):
    """RewardTrainer's loss, doubled."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        found = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return (2 * found[0], found[1]) if return_outputs else 2 * found


class Decayed(RewardTrainer):
    """RewardTrainer's loss and a term of the weights, handed on all that is given."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, out = super().compute_loss(model, inputs, True, num_items_in_batch=num_items_in_batch)
        loss = loss + 0.5 * model.score.weight.pow(2).sum()
        return (loss, out) if return_outputs else loss


def trained(kind, base, directory, **fields):
    trainer = kind(
        str(base),
        RewardConfig(output_dir=str(directory), **{**FIELDS, "max_steps": 2, **fields}),
        train_dataset=Dataset.from_list(make_rows(22)),
        eval_dataset=Dataset.from_list(make_rows(5, seed=1)),
    )
    trainer.train()
    return trainer, [r for r in trainer.state.log_history if "learning_rate" in r]


def same_weights(one, other, atol=1e-6):
    wanted = dict(other.model.named_parameters())
    for name, tensor in one.model.named_parameters():
        assert torch.allclose(tensor, wanted[name], atol=atol), name


@pytest.mark.parametrize("kind", [Written, *at_length(Older, Called)])
@pytest.mark.parametrize(
    "fields",
    [UNEVEN, {"per_device_train_batch_size": 12, "max_tokens_per_micro_batch": 60}],
    ids=["accumulated", "by tokens"],
)
def test_the_same_loss_written_anew_trains_the_same(base, tmp_path, kind, fields):
    fields = {**fields, "optim": "sgd", "learning_rate": 0.05, "optim_args": "momentum=0.5"}
    usual, expected = trained(RewardTrainer, base, tmp_path / "usual", **fields)
    own, records = trained(kind, base, tmp_path / "own", **fields)
    same_weights(own, usual)
    assert [r["loss"] for r in records] == pytest.approx([r["loss"] for r in expected], rel=1e-5)
    assert [r["grad_norm"] for r in records] == pytest.approx(
        [r["grad_norm"] for r in expected], rel=1e-4
    )
    assert ("accuracy" in records[0]) == (kind is Called)  # who computes rewards, has their metrics
    found, wanted = own.evaluate(), usual.evaluate()
    assert found["eval_loss"] == pytest.approx(wanted["eval_loss"], rel=1e-5)
    assert found["eval_accuracy"] == wanted["eval_accuracy"]


@pytest.mark.parametrize("fields", [*at_length(UNEVEN), {"max_tokens_per_micro_batch": 60}])
def test_a_term_beside_the_pairs_is_added_once_whatever_the_micro_batches(base, tmp_path, fields):
    whole = {"per_device_train_batch_size": 12, "max_steps": 2}
    expected = trained(Decayed, base, tmp_path / "whole", **whole)[1]
    usual = trained(RewardTrainer, base, tmp_path / "usual", **whole)[1]
    records = trained(Decayed, base, tmp_path / "parts", **{**whole, **fields})[1]
    for name in ("loss", "grad_norm"):
        given = [record[name] for record in records]
        assert given == pytest.approx([record[name] for record in expected], rel=1e-4)
    assert records[0]["loss"] > usual[0]["loss"] + 1e-3


def test_a_loss_that_is_doubled_is_logged_and_evaluated_doubled(base, tmp_path):
    usual, [expected] = trained(RewardTrainer, base, tmp_path / "usual", max_steps=1)
    twice, [record] = trained(Twice, base, tmp_path / "twice", max_steps=1)
    for name in ("loss", "grad_norm"):
        assert record[name] == pytest.approx(2 * expected[name], rel=1e-5)
    assert record["accuracy"] == expected["accuracy"]
    assert record["num_tokens"] == expected["num_tokens"]
    # Adam's first step is as long for a gradient twice as large
    assert twice.evaluate()["eval_loss"] == pytest.approx(2 * usual.evaluate()["eval_loss"], 1e-4)


def test_the_best_model_s_loss_is_that_of_all_rows_where_it_is_one_s_own(base, tmp_path):
    rows = [row | {"source": "ab"[number % 2]} for number, row in enumerate(make_rows(6))]

    def best_by(name):
        fields = {**FIELDS, "max_steps": 1, "eval_strategy": "steps", "metric_for_best_model": name}
        trainer = Twice(
            str(base),
            RewardConfig(output_dir=str(tmp_path), **fields),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=Dataset.from_list(rows),
        )
        trainer.train()
        return trainer.state.best_metric, trainer.state.log_history

    with pytest.raises(ParamsError, match=r"'a_loss', which not every .* eval_loss, .*eval_a_acc"):
        best_by("a_loss")
    best, records = best_by("loss")
    assert best in [record.get("eval_loss") for record in records]


def test_metrics_get_the_losses_of_one_s_own(base, tmp_path):
    seen = []
    rows, fields = make_rows(5), {"per_device_eval_batch_size": 2, "include_for_metrics": ["loss"]}
    trainer = Twice(
        str(base),
        RewardConfig(output_dir=str(tmp_path), **{**FIELDS, **fields}),
        eval_dataset=Dataset.from_list(rows),
        compute_metrics=lambda prediction: seen.append(prediction),
    )
    found = trainer.evaluate()
    chosen, rejected = torch.from_numpy(seen[0].predictions).double().T
    each = -2 * logsigmoid(chosen - rejected)
    batches = [each[:2].mean()] * 2 + [each[2:4].mean()] * 2 + [each[4]]
    assert seen[0].losses == pytest.approx([float(mean) for mean in batches], rel=1e-5)
    assert found["eval_loss"] == pytest.approx(float(each.mean()), rel=1e-5)


@pytest.mark.parametrize("step", [2, *at_length(1, 3, 5)])
def test_a_run_that_goes_on_logs_the_loss_of_its_whole_interval(base, tmp_path, step):
    def given(directory):
        return RewardConfig(output_dir=str(directory), **{**FIELDS, **fields})

    fields = {"max_steps": 7, "save_strategy": "steps", "save_steps": 1}
    each = [r["loss"] for r in trained(Twice, base, tmp_path / "each", **fields)[1]]
    fields["logging_steps"] = 3
    whole, wanted = trained(Twice, base, tmp_path / "whole", **fields)
    killed(Twice(str(base), given(tmp_path / "run"), train_dataset=whole.train_dataset), step)
    resumed = Twice(str(base), given(tmp_path / "run"), train_dataset=whole.train_dataset)
    resumed.train(resume_from_checkpoint=True)
    assert [r for r in resumed.state.log_history if "learning_rate" in r] == wanted
    assert [r["step"] for r in wanted] == [3, 6, 7]
    assert wanted[0]["loss"] == pytest.approx(sum(each[:3]) / 3)


def test_a_subclass_trains_as_it_does_under_the_peer(base, tmp_path):
    trl = pytest.importorskip("trl")
    start = tmp_path / "start"
    load_reward_model(base, seed=1).model.save_pretrained(start)
    make_tokenizer().save_pretrained(start)
    fields = {
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 11,
    }  # two whole steps

    class Theirs(trl.RewardTrainer):
        compute_loss = Written.compute_loss

    own, records = trained(Written, start, tmp_path / "own", **fields)
    names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
    rows = [{new: row[name] for name, new in names.items()} for row in make_rows(22)]
    given = {**FIELDS, "max_steps": 2, **fields}
    args = quiet(lambda: trl.RewardConfig(str(tmp_path / "peer"), bf16=False, **given))
    peer = quiet(lambda: Theirs(str(start), args, train_dataset=Dataset.from_list(rows)))
    quiet(peer.train)
    theirs = [r for r in peer.state.log_history if "learning_rate" in r]
    for name in ("loss", "grad_norm"):
        expected = pytest.approx([r[name] for r in theirs], rel=1e-4)
        assert [r[name] for r in records] == expected
    same_weights(own, peer, atol=2e-5)


def test_a_loss_of_one_s_own_that_is_not_finite_ends_the_run_and_names_its_pairs(base, tmp_path):
    class Broken(Written):
        def compute_loss(self, model, inputs, **given):
            loss = super().compute_loss(model, inputs, **given)
            return loss * (float("inf") if "pair0004" in inputs["pair_id"] else 1)

    fields = {"per_device_train_batch_size": 4, "train_sampling_strategy": "sequential"}
    named = r"step 2: loss inf.*Pairs of this step: pair0004, pair0005, pair0006, pair0007\."
    with pytest.raises(TrainingError, match=named):
        trained(Broken, base, tmp_path, preflight=False, **fields)
