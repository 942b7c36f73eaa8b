"""Figures against arithmetic that is shown, and properties that hold for every table."""

from math import exp, log, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.metrics import (
    all_metrics,
    calibration_error,
    flat,
    mean_interval,
    metrics_of,
    wilson_interval,
)
from tasks.evaluation.table import Scores, score_table, scores_of


def scores(rows: list[tuple[str, float, float, int, int]], margins=None) -> Scores:
    """Rows of (source, reward of chosen, of rejected, tokens of chosen, of rejected)."""
    pairs = pa.table(
        {
            "pair_id": [str(i) for i in range(len(rows))],
            "source": [r[0] for r in rows],
            "chosen_input_ids": [[7] * r[3] for r in rows],
            "rejected_input_ids": [[7] * r[4] for r in rows],
            "margin": pa.array(margins or [None] * len(rows), pa.float32()),
        }
    )
    chosen, rejected = (np.array([r[i] for r in rows], np.float32) for i in (1, 2))
    return scores_of(score_table(pairs, "eval", chosen, rejected))


FOUR = [
    ("a", 2.0, 0.0, 5, 3),  # margin 2: right, the longer one is chosen
    ("a", 1.0, 1.0, 4, 4),  # margin 0: a tie, equally long
    ("b", 0.0, 1.0, 9, 2),  # margin -1: wrong, the longer one is chosen
    ("b", 0.5, 0.0, 2, 8),  # margin 0.5: right, the shorter one is chosen
]


def test_figures_of_four_pairs_by_hand():
    found = metrics_of(scores(FOUR))
    assert (found["pairs"], found["correct"], found["ties"]) == (4, 2, 1)
    assert found["accuracy"] == 2 / 4
    assert found["accuracy_ties_half"] == (2 + 0.5) / 4
    assert found["margin"] == (2 + 0 - 1 + 0.5) / 4
    # -log sigmoid(m) = log(1 + exp(-m)) for m = 2, 0, -1, 0.5
    by_hand = (log(1 + exp(-2)) + log(2) + log(1 + exp(1)) + log(1 + exp(-0.5))) / 4
    assert found["loss"] == pytest.approx(by_hand, rel=1e-12)
    # rewards: 2 0 1 1 0 1 0.5 0 -> sum 5.5 over 8; squares sum to 4+1+1+1+.25 = 7.25
    assert (found["min_reward"], found["max_reward"]) == (0.0, 2.0)
    assert found["mean_reward"] == 5.5 / 8
    assert found["std_reward"] == pytest.approx(sqrt(7.25 / 8 - (5.5 / 8) ** 2), rel=1e-12)
    # longer is chosen twice, equal once: (2 + 1/2) / 4
    assert found["length_baseline"] == 2.5 / 4
    # (1 - sigmoid(m))^2 = (1 / (1 + e^m))^2
    brier = sum((1 / (1 + exp(m))) ** 2 for m in (2, 0, -1, 0.5)) / 4
    assert found["brier"] == pytest.approx(brier, rel=1e-12)


def test_a_pairs_own_margin_is_subtracted_in_the_loss_and_nowhere_else():
    # margins asked for: 1, none, 0, 0.5 -> softplus of -(2 - 1), 0, 1, -(0.5 - 0.5)
    found = metrics_of(scores(FOUR, [1.0, None, 0.0, 0.5]))
    by_hand = (log(1 + exp(-1)) + log(2) + log(1 + exp(1)) + log(2)) / 4
    assert found["loss"] == pytest.approx(by_hand, rel=1e-12)
    assert found["margin"] == 0.375


def test_wilson_interval_by_hand_and_at_the_ends():
    # n = 10, p = 0.8, z^2 = 3.841459: centre (0.8 + 0.19207295) / 1.3841459 = 0.7167401,
    # half 1.959964 * sqrt(0.016 + 0.00960365) / 1.3841459 = 0.2265778
    low, high = wilson_interval(8, 10)
    assert (low, high) == (pytest.approx(0.490162, abs=1e-5), pytest.approx(0.943318, abs=1e-5))
    # none of n: from 0 to z^2 / (n + z^2)
    assert wilson_interval(0, 10) == (0.0, pytest.approx(3.841459 / 13.841459, abs=1e-6))
    assert wilson_interval(10, 10) == (pytest.approx(10 / 13.841459, abs=1e-6), 1.0)


def test_mean_interval_by_hand_and_none_for_one_value():
    # 1, 2, 3: mean 2, sample deviation 1, half 1.959964 / sqrt(3) = 1.131586
    found = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert found == (pytest.approx(0.868414, abs=1e-6), pytest.approx(3.131586, abs=1e-6))
    assert mean_interval(np.array([5.0])) is None
    assert "margin_low" not in flat(all_metrics(scores(FOUR[:1])))


def test_calibration_error_by_hand():
    # margins ln 4 (confidence 0.8), three right and one wrong: accuracy 0.75, gap 0.05 on 4 of 5
    # margin 0 (confidence 0.5), half right: gap 0
    margins = np.array([log(4), log(4), log(4), -log(4), 0.0])
    assert calibration_error(margins) == pytest.approx(0.05 * 4 / 5, rel=1e-9)


def test_sources_split_the_pairs_and_counts_add_up_to_the_whole():
    found = all_metrics(scores(FOUR))
    assert list(found["sources"]) == ["a", "b"]
    for name in ("pairs", "correct", "ties"):
        assert sum(s[name] for s in found["sources"].values()) == found["overall"][name]
    assert found["sources"]["b"]["accuracy"] == 0.5
    assert flat(found)["source.b.accuracy"] == 0.5
    assert flat(found)["accuracy_low"] == found["overall"]["accuracy_interval"][0]


rewards = st.floats(-50, 50, width=32)
rows = st.lists(
    st.tuples(st.sampled_from("abc"), rewards, rewards, st.integers(1, 9), st.integers(1, 9)),
    min_size=1,
    max_size=30,
)


@given(rows)
def test_swapping_the_sides_of_every_pair_mirrors_the_figures(pairs):
    found = metrics_of(scores(pairs))
    mirrored = metrics_of(scores([(s, r, c, rt, ct) for s, c, r, ct, rt in pairs]))
    assert found["correct"] + mirrored["correct"] + found["ties"] == len(pairs)
    assert found["accuracy_ties_half"] + mirrored["accuracy_ties_half"] == pytest.approx(1)
    assert found["length_baseline"] + mirrored["length_baseline"] == pytest.approx(1)
    assert found["margin"] == pytest.approx(-mirrored["margin"], abs=1e-9)
    assert found["mean_reward"] == pytest.approx(mirrored["mean_reward"], abs=1e-9)


@given(rows)
def test_a_share_lies_in_its_interval_and_the_interval_in_zero_to_one(pairs):
    found = metrics_of(scores(pairs))
    for name in ("accuracy", "accuracy_ties_half", "length_baseline"):
        low, high = found[f"{name}_interval"]
        assert 0 <= low <= found[name] + 1e-12
        assert found[name] - 1e-12 <= high <= 1
