"""One test per row of the table of peers' defects, in its order; each fails on what the peer does.

Where it is cheap, TRL 1.16.0 runs beside and is shown to do so. The finer cases of a row are tested
where its code is; the rows of the table that are about reading rows are in `test_promises_of_rows`.
"""

import logging
import warnings

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForSequenceClassification

from tasks.errors import DataError, Interrupted, ModelError, TrainingError
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.handover.export import save_model
from tasks.training.loss.objective import Objective
from tasks.training.loss.params import LossParams
from tasks.training.model.loading import load_reward_model
from tasks.training.scoring import score
from tests.training.checkpoints.test_checkpoint import make as resumable
from tests.training.checkpoints.test_checkpoint import result
from tests.training.peer.beside_peer import for_peer, ours, peer, quiet
from tests.training.tiny import EOS, PAD, make_rows, make_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """A reward model that knows something."""
    directory = tmp_path_factory.mktemp("trained")
    trainer = ours(base, directory, make_rows(16), max_steps=6)
    trainer.train()
    save_model(trainer.model, trainer.processing_class, directory / "model")
    return directory / "model"


def test_row_01_metrics_do_not_depend_on_the_batch_size(trained, tmp_path):
    rows = make_rows(9, seed=5)
    for row in rows[::2]:  # some that the model gets wrong
        sides = ("chosen_input_ids", "rejected_input_ids")
        row[sides[0]], row[sides[1]] = row[sides[1]], row[sides[0]]
    mine, theirs = [], []
    for size in (1, 2, 4, 8):
        fields = {"per_device_eval_batch_size": size}
        trainer = ours(trained, tmp_path, eval_dataset=Dataset.from_list(rows), **fields)
        mine.append(trainer.evaluate())
        other = peer(trained, tmp_path, for_peer(rows), for_peer(rows), **fields)
        theirs.append(quiet(other.evaluate))
    for name in ("loss", "accuracy", "margin", "min_reward", "mean_reward", "max_reward"):
        values = [metrics[f"eval_{name}"] for metrics in mine]
        assert values == pytest.approx([values[0]] * 4, abs=1e-6), name
    assert len({round(metrics["eval_accuracy"], 3) for metrics in theirs}) > 1


def test_row_02_the_reward_is_read_at_the_end_whatever_the_padding_token_is(trained):
    ids, mask = torch.tensor([[5, 45, EOS], [6, 30, EOS]]), torch.ones(2, 3, dtype=torch.long)
    model = load_reward_model(trained, need_head=True).model.eval()
    stock = AutoModelForSequenceClassification.from_pretrained(trained).eval()
    found, theirs = [], []
    with torch.no_grad():
        for pad in (PAD, EOS):
            model.config.pad_token_id = stock.config.pad_token_id = pad
            found.append(score(model, ids, mask))
            theirs.append(stock(ids, mask).logits[:, 0])
    assert torch.equal(*found)
    assert not torch.allclose(*theirs, atol=1e-3)  # one token before the end


def test_row_03_the_head_is_trained_and_saved_with_any_adapter(base, tmp_path):
    adapter = LoraConfig(r=2, target_modules=["q_proj"])
    trainer = ours(base, tmp_path, make_rows(16), peft_config=adapter)
    trainer.train()
    trainer.save_model(str(tmp_path / "adapter"))
    body = load_reward_model(base, seed=99).model  # with another head
    again = PeftModel.from_pretrained(body, tmp_path / "adapter")
    ids = torch.tensor([[5, 45, EOS]])
    with torch.no_grad():
        rewards = [score(m.eval(), ids, torch.ones_like(ids)) for m in (trainer.model, again)]
    assert torch.equal(*rewards)
    other = peer(base, tmp_path / "peer", for_peer(make_rows(16)), peft_config=adapter)
    trainable = [n for n, p in other.model.named_parameters() if p.requires_grad]
    assert trainable
    assert not any("score" in name for name in trainable)


def test_row_04_rewards_under_bfloat16_lie_on_no_grid_and_ties_are_told_apart(trained, tmp_path):
    rows = make_rows(12, seed=3)
    tie = {**rows[0], "rejected_input_ids": rows[0]["chosen_input_ids"], "pair_id": "tie"}
    trainer = ours(trained, tmp_path, bf16=True, eval_dataset=Dataset.from_list([*rows, tie]))
    rewards = torch.tensor(trainer.predict(trainer.eval_dataset).predictions)
    assert not torch.equal(rewards, rewards.bfloat16().float())
    right = int((rewards[:, 0] > rewards[:, 1]).sum())
    assert float(rewards[12, 0]) == float(rewards[12, 1])
    found = trainer.evaluate()
    assert found["eval_equal_rewards"] == 1  # strictly, a tie is wrong
    assert found["eval_accuracy"] == pytest.approx(right / 13)
    assert found["eval_accuracy_ties_half"] == pytest.approx((right + 0.5) / 13)
    other = peer(trained, tmp_path, for_peer(rows), bf16=True)
    batch = DataCollatorForPreference(PAD)(rows)
    with torch.no_grad(), other.accelerator.autocast():
        theirs = other.model(batch["input_ids"], batch["attention_mask"]).logits.float()
    assert torch.equal(theirs, theirs.bfloat16().float())


def test_row_07_rows_that_are_too_long_are_counted_and_none_left_is_an_error(
    base, tmp_path, caplog
):
    rows = make_rows(12)
    with caplog.at_level(logging.WARNING):
        trainer = ours(base, tmp_path, rows, max_length=10)
    left = len(trainer.train_dataset)
    assert f"train: {12 - left} of 12 rows are not used: too_long" in caplog.text
    with pytest.raises(DataError, match=r"12 of 12 rows are not used: too_long; raise max_length"):
        ours(base, tmp_path, rows, max_length=1)
    assert len(peer(base, tmp_path, for_peer(rows), max_length=1).train_dataset) == 0


@pytest.mark.slow
def test_row_11_a_resumed_run_ends_in_the_bits_of_an_undisturbed_one(base, pairs, tmp_path):
    whole = resumable(base, pairs, tmp_path / "whole", disable_dropout=False)
    whole.train()
    with pytest.raises(Interrupted):
        resumable(base, pairs, tmp_path / "run", 7, disable_dropout=False).train()
    last = resumable(base, pairs, tmp_path / "run", disable_dropout=False)
    last.train(resume_from_checkpoint=True)
    assert result(last, tmp_path / "a") == result(whole, tmp_path / "b")


def test_row_11_a_checkpoint_that_lost_a_file_is_refused_where_the_peer_goes_on_without(
    base, tmp_path
):
    fields = {"save_strategy": "steps", "save_steps": 3, "max_steps": 6, "logging_steps": 1}
    rows = make_rows(48)

    def last_loss(trainer, resume):
        quiet(lambda: trainer.train(resume_from_checkpoint=resume))
        return [r["loss"] for r in trainer.state.log_history if "loss" in r][-1]

    whole = last_loss(peer(base, tmp_path / "peer", for_peer(rows), **fields), None)
    step = tmp_path / "peer" / "checkpoint-3"
    assert last_loss(peer(base, tmp_path / "peer", for_peer(rows), **fields), str(step)) == whole
    (step / "optimizer.pt").unlink()
    torn = last_loss(peer(base, tmp_path / "peer", for_peer(rows), **fields), str(step))
    assert abs(torn - whole) > 1e-4  # other weights, and not a word

    ours(base, tmp_path / "ours", rows, **fields).train()
    step = tmp_path / "ours" / "checkpoint-3"
    (step / "optimizer.pt").unlink()
    with pytest.raises(TrainingError, match=r"cannot resume from .*: optimizer\.pt is missing"):
        ours(base, tmp_path / "ours", rows, **fields).train(resume_from_checkpoint=str(step))


def test_row_13_a_warm_start_keeps_its_head_and_says_so(base, trained, tmp_path, caplog):
    rows = Dataset.from_list(make_rows(6, seed=8))
    with caplog.at_level(logging.INFO):
        start = ours(trained, tmp_path, eval_dataset=rows)
    assert start.head.origin == "loaded"
    assert f"the head is loaded, SHA-256 {start.head.sha256}" in caplog.text
    assert start.head.sha256 == load_reward_model(trained, seed=7).head.sha256
    another = ours(trained, tmp_path, eval_dataset=rows, seed=9)  # no seed reaches a head that is
    assert np.array_equal(another.predict(rows).predictions, start.predict(rows).predictions)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        new = ours(base, tmp_path)
    assert f"the head is new, SHA-256 {new.head.sha256}" in caplog.text
    # a head of another shape is another head: it is refused, not drawn anew under its old name
    pairwise = AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    pairwise.save_pretrained(tmp_path / "two")
    make_tokenizer().save_pretrained(tmp_path / "two")
    with pytest.raises(ModelError, match="classifies into 2 labels"):
        ours(tmp_path / "two", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        silent = AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "two", num_labels=1, ignore_mismatched_sizes=True
        )
    assert silent.score.weight.shape == (1, 32)


def test_row_14_ties_soft_labels_weights_smoothing_and_ranked_answers_are_trained_on():
    chosen, rejected = torch.tensor([1.0, 0.5]), torch.tensor([0.0, 0.5])
    half = torch.tensor([0.5, 0.5])
    plain = Objective(LossParams()).pair_losses(chosen, rejected)
    soft = Objective(LossParams()).pair_losses(chosen, rejected, preference=half)
    # half of -log sigmoid(1) and half of -log sigmoid(-1) = 0.3133 / 2 + 1.3133 / 2
    assert soft.tolist() == pytest.approx([0.8133, 0.6931], abs=1e-4)
    assert plain.tolist() == pytest.approx([0.3133, 0.6931], abs=1e-4)
    smooth = Objective(LossParams(label_smoothing=0.1)).pair_losses(chosen, rejected)
    assert smooth[0].item() == pytest.approx(0.9 * 0.3133 + 0.1 * 1.3133, abs=1e-4)
    weight = {"weight": torch.tensor([2.0, 0.0])}
    total = Objective(LossParams()).total(torch.cat([chosen, rejected]), weight)
    assert total.item() == pytest.approx(2 * 0.3133, abs=1e-4)
    # three answers of rewards 1, 0, 0: -log(e / (e + 2)) - log(1/2)
    ranked = {
        "ranking": torch.tensor([[0, 1, 2]]),
        "ranking_level": torch.tensor([[0, 1, 2]]),
        "ranking_weight": torch.ones(1),
        "chosen_row": torch.tensor([0, 0, 1]),
        "rejected_row": torch.tensor([1, 2, 2]),
    }
    listwise = Objective(LossParams(type="plackett_luce"))
    total = listwise.total(torch.tensor([1.0, 0.0, 0.0]), ranked)
    assert total.item() == pytest.approx(np.log((np.e + 2) / np.e) + np.log(2), abs=1e-5)


def test_row_14_the_columns_change_the_training_that_the_peer_leaves_as_it_is(base, tmp_path):
    plain = make_rows(8)
    fields = {"max_steps": 1, "train_sampling_strategy": "sequential"}
    kinds = {
        "weight": [{**row, "weight": 1.0 + 9 * (n % 2)} for n, row in enumerate(plain)],
        "preference": [{**row, "preference": 0.5 + 0.4 * (n % 2)} for n, row in enumerate(plain)],
    }

    def first_loss(trainer):
        quiet(trainer.train)
        return trainer.state.log_history[0]["loss"]

    mine = first_loss(ours(base, tmp_path, plain, **fields))
    theirs = first_loss(peer(base, tmp_path, for_peer(plain), **fields))
    for name, rows in kinds.items():
        assert abs(first_loss(ours(base, tmp_path, rows, **fields)) - mine) > 1e-4, name
        given = [{**r, name: row[name]} for r, row in zip(for_peer(rows), rows, strict=True)]
        assert first_loss(peer(base, tmp_path, given, **fields)) == theirs, name
    sides = ("chosen_input_ids", "rejected_input_ids")
    ranked = []
    for n in range(2):  # three answers each, best first, as all of their pairs
        answers = [plain[n][sides[0]], plain[n][sides[1]], plain[n + 2][sides[1]]]
        for a, b in ((0, 1), (0, 2), (1, 2)):
            both = dict(zip(sides, (answers[a], answers[b]), strict=True))
            ranked.append({**both, "pair_id": f"{n}{a}{b}", "comparison": f"list {n}"})
    listwise, pairwise = (
        first_loss(ours(base, tmp_path, ranked, loss=loss, **fields))
        for loss in ("plackett_luce", "bradley_terry")
    )
    assert abs(listwise - pairwise) > 1e-2  # log 3 + log 2 of a random head, and log 2


def test_row_15_the_export_says_that_its_output_is_a_reward(base, trained, tmp_path):
    config = AutoModelForSequenceClassification.from_pretrained(trained).config
    assert (config.num_labels, config.problem_type) == (1, "regression")
    assert config.id2label == {0: "reward"}
    assert config.pad_token_id == PAD != EOS
    other = peer(base, tmp_path, for_peer(make_rows(4)))
    assert other.model.config.problem_type is None
