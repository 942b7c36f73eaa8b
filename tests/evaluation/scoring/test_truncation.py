"""Rewards of answers cut short: what is kept, and that nothing else is scored again."""

import numpy as np
import pyarrow as pa
import pytest

from tasks.evaluation.scoring.score import RewardScorer, score_window
from tasks.evaluation.scoring.truncation import closing_tokens, cut, truncated_window
from tasks.evaluation.scoring.windows import read_windows, split_files
from tests.evaluation.pieces import random_pairs, write_arrow, write_reward_model

CLOSING = [201, 202]


@pytest.fixture(scope="module")
def scorer(tiny_model_directory, tmp_path_factory):
    directory = tmp_path_factory.mktemp("reward-model")
    write_reward_model(tiny_model_directory, directory, seed=1)
    return RewardScorer(directory, device="cpu")


@pytest.fixture
def files(tmp_path):
    """Pairs with 6 shared tokens, up to 40 of an answer, and a closing of two."""
    rows = [
        pair
        | {
            f"{s}_ids": [*range(10, 16), *pair[f"{s}_ids"], *CLOSING]
            for s in ("chosen", "rejected")
        }
        | {"shared": 6}
        for pair in random_pairs(21)
    ]
    write_arrow(tmp_path / "eval" / "0.arrow", rows)
    return split_files(tmp_path)


def truncated(scorer, files, first, window=2048):
    closing = closing_tokens(files)
    parts = [
        truncated_window(scorer, w, score_window(scorer, w, "eval"), first, closing)
        for w in read_windows(files, window)
    ]
    return pa.concat_tables(parts)


def test_an_answer_keeps_its_prompt_its_first_tokens_and_the_closing():
    ids = np.arange(10, dtype=np.int32)
    assert cut(ids, 3, 2, ids[-2:]).tolist() == [0, 1, 2, 3, 4, 8, 9]
    assert cut(ids, 3, 5, ids[-2:]) is ids
    assert cut(ids, 3, 2, ids[:0]).tolist() == [0, 1, 2, 3, 4]


def test_the_closing_is_what_all_sequences_of_a_source_end_in(files, tmp_path):
    found = closing_tokens(files)
    assert {source: ids.tolist() for source, ids in found.items()} == {"a": CLOSING, "b": CLOSING}
    one = {"pair_id": "0", "source": "c", "chosen_ids": [*range(50)], "rejected_ids": [7, 49]}
    write_arrow(tmp_path / "other" / "eval" / "0.arrow", [one])
    assert closing_tokens(split_files(tmp_path / "other"))["c"].tolist() == [49]
    ends = {"pair_id": "0", "source": "d", "chosen_ids": [7, 8, 9], "rejected_ids": [7, 8, 10, 11]}
    write_arrow(tmp_path / "none" / "eval" / "0.arrow", [ends, ends])
    assert closing_tokens(split_files(tmp_path / "none"))["d"].tolist() == []


def test_cut_pairs_get_the_reward_of_the_cut_sequence_and_others_keep_theirs(scorer, files):
    whole = pa.concat_tables(score_window(scorer, w, "eval") for w in read_windows(files))
    found = truncated(scorer, files, 5)
    window = next(read_windows(files))
    kept = 0
    for row in range(len(window)):
        ids = np.array(window["chosen_input_ids"][row].as_py(), np.int32)
        short = cut(ids, 6, 5, np.array(CLOSING, np.int32))
        reward = found["reward_chosen"][row].as_py()
        assert reward == pytest.approx(float(scorer.rewards([short])[0]), abs=1e-6)
        if len(short) == len(ids):
            kept += 1
            assert reward == whole["reward_chosen"][row].as_py()
        else:
            assert len(short) == 6 + 5 + 2
    assert 0 < kept < len(window)
    long = truncated(scorer, files, 1000)
    assert long["reward_rejected"].equals(whole["reward_rejected"])


def test_windows_do_not_change_what_is_cut(scorer, files):
    one, other = truncated(scorer, files, 5), truncated(scorer, files, 5, window=4)
    for name in ("reward_chosen", "reward_rejected"):
        assert np.abs(one[name].to_numpy() - other[name].to_numpy()).max() < 1e-6
