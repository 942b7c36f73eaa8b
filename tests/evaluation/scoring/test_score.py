"""Rewards come back in their order and do not depend on how they were batched."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from tasks.errors import DataError, ModelError
from tasks.evaluation.scoring.score import RewardScorer, score_pairs, score_window
from tasks.evaluation.scoring.windows import read_windows, split_files
from tests.evaluation.pieces import random_pairs, write_arrow, write_reward_model


@pytest.fixture(scope="module")
def model_directory(tiny_model_directory, tmp_path_factory):
    directory = tmp_path_factory.mktemp("reward-model")
    write_reward_model(tiny_model_directory, directory, seed=1)
    return directory


@pytest.fixture
def files(tmp_path):
    pairs = random_pairs(53)
    write_arrow(tmp_path / "eval" / "00000.arrow", pairs[:30])
    write_arrow(tmp_path / "eval" / "00001.arrow", pairs[30:])
    return split_files(tmp_path)


def test_a_side_longer_than_the_positions_names_its_pair(model_directory, tmp_path):
    """Its training may have been done before the data had such a row."""
    long = {"rejected_ids": [5] * 65, "rejected_tokens": 65}
    write_arrow(tmp_path / "eval" / "0.arrow", [*random_pairs(2), random_pairs(3)[2] | long])
    scorer = RewardScorer(model_directory)
    scorer.model.config.max_position_embeddings = 64
    message = f"rejected side of pair {2:032x} has 65 tokens, .* takes 64: .*max_length to 64"
    with pytest.raises(ModelError, match=message):
        score_pairs(scorer, split_files(tmp_path))


def rewards(table: pa.Table) -> np.ndarray:
    return np.stack([table["reward_chosen"].to_numpy(), table["reward_rejected"].to_numpy()])


def test_each_reward_is_the_one_its_sequence_gets_alone(model_directory, files):
    from tasks.training import score

    table = score_pairs(RewardScorer(model_directory, device="cpu"), files)
    assert table["pair_id"].to_pylist() == [f"{i:032x}" for i in range(53)]
    scorer = RewardScorer(model_directory, device="cpu")
    for row, pair in enumerate(random_pairs(53)):
        for side in ("chosen", "rejected"):
            ids = torch.tensor([pair[f"{side}_ids"]])
            with torch.inference_mode():
                alone = score(scorer.model, ids, torch.ones_like(ids)).item()
            assert table[f"reward_{side}"][row].as_py() == pytest.approx(alone, abs=1e-6)
        assert table["chosen_tokens"][row].as_py() == len(pair["chosen_ids"])


def test_ids_of_any_integers_get_the_rewards_of_those_numbers(model_directory):
    """Their bytes read as int32 would be other ids, and other rewards."""
    scorer = RewardScorer(model_directory, device="cpu")
    ids = [pair["chosen_ids"] for pair in random_pairs(9)]
    expected = scorer.rewards([np.array(each, np.int32) for each in ids])
    assert len(set(expected.tolist())) == len(ids)
    for kind in (np.int64, np.uint16, list):
        given = [each if kind is list else np.array(each, kind) for each in ids]
        assert scorer.rewards(given).tolist() == expected.tolist()


def test_rewards_do_not_depend_on_batch_size_or_windows(model_directory, files):
    reference = rewards(score_pairs(RewardScorer(model_directory, batch_size=1), files))
    for batch_size, window in ((2, 2048), (16, 2048), (64, 5), (7, 1)):
        windows = read_windows(files, window)
        scorer = RewardScorer(model_directory, batch_size=batch_size)
        found = pa.concat_tables([score_window(scorer, w, "eval") for w in windows])
        assert np.abs(rewards(found) - reference).max() < 1e-6
    again = rewards(score_pairs(RewardScorer(model_directory, batch_size=1), files))
    assert (again == reference).all()


@pytest.mark.parametrize("flat", [True, False])
def test_batches_of_long_sequences_are_bounded_by_tokens(model_directory, files, flat, monkeypatch):
    reference = rewards(score_pairs(RewardScorer(model_directory, batch_size=1), files))
    monkeypatch.setattr("tasks.evaluation.scoring.score.MOST_TOKENS", 60)
    if not flat:
        monkeypatch.setattr("tasks.training.layout.support.make_flat", lambda _: "as asked")
    scorer = RewardScorer(model_directory, batch_size=64)
    assert scorer.flat == flat
    scored, batches = scorer._batch, []
    scorer._batch = lambda batch: batches.append([*map(len, batch)]) or scored(batch)
    found = rewards(score_pairs(scorer, files))
    np.testing.assert_allclose(found, reference, rtol=1e-6, atol=1e-6)
    assert all(len(b) * max(b) <= 60 or len(b) == 1 for b in batches if not flat)
    assert all(sum(b) <= 60 or len(b) == 1 for b in batches)
    assert max(len(b) for b in batches) > 1
    lengths = {len(p[f"{side}_ids"]) for p in random_pairs(53) for side in ("chosen", "rejected")}
    assert max(lengths) > 30  # some do not share a batch with an equal one


def test_windows_hold_every_row_once_across_files_and_record_batches(files):
    for size in (1, 4, 30, 1000):
        windows = list(read_windows(files, size))
        assert all(len(w) == size for w in windows[:-1])
        assert pa.concat_tables(windows)["pair_id"].to_pylist() == [f"{i:032x}" for i in range(53)]


def test_equal_sides_are_a_tie_and_no_right_answer(model_directory, tmp_path):
    pair = random_pairs(1)[0]
    write_arrow(tmp_path / "eval" / "0.arrow", [pair | {"rejected_ids": pair["chosen_ids"]}])
    row = score_pairs(RewardScorer(model_directory), split_files(tmp_path)).to_pylist()[0]
    assert (row["tie"], row["correct"], row["margin"]) == (True, False, 0.0)
    assert row["pair_margin"] is None


def test_margins_of_the_data_are_kept_beside_those_of_the_model(model_directory, tmp_path):
    first, second = random_pairs(2)
    write_arrow(tmp_path / "eval" / "0.arrow", [first | {"margin": 0.5}, second])
    table = score_pairs(RewardScorer(model_directory), split_files(tmp_path))
    assert table["pair_margin"].to_pylist() == [0.5, None]
    difference = table["reward_chosen"].to_numpy() - table["reward_rejected"].to_numpy()
    assert (table["margin"].to_numpy() == difference).all()


def test_a_reward_that_is_no_number_names_its_pair(model_directory, tmp_path):
    write_arrow(tmp_path / "eval" / "0.arrow", random_pairs(3))
    scorer = RewardScorer(model_directory)
    scorer.model.score.weight.data.fill_(float("nan"))
    with pytest.raises(ModelError, match=f"chosen side of pair {0:032x} is nan.*6 such"):
        score_pairs(scorer, split_files(tmp_path))


def test_without_held_out_pairs_the_error_says_what_to_raise(tmp_path):
    with pytest.raises(DataError, match=r"conversion\.eval_fraction"):
        split_files(tmp_path)


def test_the_longest_sequence_that_is_said_can_be_scored_and_no_longer_one(tmp_path):
    config = RobertaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=34,
        pad_token_id=1,
        num_labels=1,
    )
    RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    scorer = RewardScorer(tmp_path)
    longest = scorer.most_tokens
    assert longest == 32
    scorer.rewards([np.full(longest, 5, np.int32)])
    with pytest.raises(RuntimeError):
        scorer.rewards([np.full(longest + 1, 5, np.int32)])


def test_a_model_without_a_trained_head_is_refused(tiny_model_directory):
    with pytest.raises(ModelError, match="no score head"):
        RewardScorer(tiny_model_directory)


def test_threads_that_share_a_scorer_get_the_rewards_of_one_alone(model_directory):
    """A flat row has its own attention, which the model is switched to for the time of a pass."""
    scorer = RewardScorer(model_directory, batch_size=8, device="cpu")
    assert scorer.flat
    ids = [np.asarray(p["chosen_ids"], np.int32) for p in random_pairs(80, longest=120)]
    asked = [ids[start::8] for start in range(8)] * 10
    alone = [scorer.rewards(sequences) for sequences in asked]
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(scorer.rewards, asked)]
    assert np.concatenate(found) == pytest.approx(np.concatenate(alone), abs=1e-6)
