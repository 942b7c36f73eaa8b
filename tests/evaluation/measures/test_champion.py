"""Agreement, drift and the map between two models' scales."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import DataError
from tasks.evaluation.measures.champion import (
    affine_map,
    against_champion,
    kendall_tau,
    matched_map,
)
from tests.evaluation.pieces import made_scores


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=40))
def test_tau_is_the_share_of_concordant_pairs_with_kendalls_correction_for_ties(points):
    x, y = (np.array(column, float) for column in zip(*points, strict=True))
    agree, tied_x, tied_y, n = 0, 0, 0, len(points)
    for i in range(n):
        for j in range(i):
            dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
            agree += dx * dy
            tied_x, tied_y = tied_x + (dx == 0), tied_y + (dy == 0)
    every = n * (n - 1) / 2
    scale = np.sqrt((every - tied_x) * (every - tied_y))
    assert kendall_tau(x, y) == (pytest.approx(agree / scale, abs=1e-12) if scale else None)


def test_tau_of_many_values_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(0)
    x = draw.normal(size=3000)
    y = np.round(x + draw.normal(size=3000), 1)
    assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


def test_an_affine_change_of_scale_is_found_and_undone():
    draw = np.random.default_rng(0)
    rewards = draw.normal(size=(50, 2))
    new = made_scores((rewards[:, 0] - rewards[:, 1]).tolist(), rewards=rewards.tolist())
    scaled = 4.0 * rewards - 7.0
    old = made_scores((scaled[:, 0] - scaled[:, 1]).tolist(), rewards=scaled.tolist())
    found = against_champion(new, old.take(draw.permutation(50)))
    there = found["scale"]["new_to_old"]
    assert (there["slope"], there["intercept"]) == (pytest.approx(4), pytest.approx(-7))
    assert there["r2"] == pytest.approx(1)
    assert there["residual_std"] == pytest.approx(0, abs=1e-12)
    assert found["scale"]["matched"] == pytest.approx({"slope": 4, "intercept": -7})
    assert found["scale"]["old_to_new"]["slope"] == pytest.approx(1 / 4)
    assert found["agreement"]["tau_margins"] == pytest.approx(1)
    assert found["agreement"]["same_verdict"] == 1
    assert found["drift"]["mean"] == pytest.approx(rewards.mean() - scaled.mean())
    assert found["drift"]["std"] == pytest.approx(-3 * rewards.std())
    # new less old, at each level: q - (4 q - 7)
    levels = found["drift"]["levels"]
    shift = [7 - 3 * np.quantile(rewards, level) for level in levels]
    assert found["drift"]["quantiles"] == pytest.approx(shift)
    assert (levels[0], levels[4], levels[-1]) == (0, 0.5, 1)


def test_least_squares_by_hand():
    # x 0 1 2, y 0 1 5: slope 5/2, intercept 2 - 5/2 = -1/2; residuals 1/2 -1 1/2
    found = affine_map(np.array([0.0, 1, 2]), np.array([0.0, 1, 5]))
    assert (found["slope"], found["intercept"]) == (pytest.approx(2.5), pytest.approx(-0.5))
    # 1 - 1.5 / 14
    assert found["r2"] == pytest.approx(1 - 1.5 / 14)
    assert found["residual_std"] == pytest.approx(np.sqrt(1.5 / 3))
    assert affine_map(np.zeros(3), np.array([0.0, 1, 5]))["slope"] == 0


def test_the_matched_map_keeps_mean_and_deviation_and_turns_nothing_round():
    draw = np.random.default_rng(0)
    x = draw.normal(size=200)
    y = 3 * x + 2 * draw.normal(size=200) + 1
    found = matched_map(x, y)
    carried = found["slope"] * x + found["intercept"]
    assert (carried.mean(), carried.std()) == (pytest.approx(y.mean()), pytest.approx(y.std()))
    # least squares shrinks by the correlation
    assert affine_map(x, y)["slope"] == pytest.approx(found["slope"] * np.corrcoef(x, y)[0, 1])
    assert matched_map(x / 1e4, y)["slope"] == pytest.approx(1e4 * found["slope"])
    assert matched_map(x, -y) is None
    assert matched_map(x, np.ones(200)) is None
    assert matched_map(np.ones(200), y) is None


def test_tables_of_other_pairs_are_refused():
    with pytest.raises(DataError, match="not the same ones"):
        against_champion(made_scores([1.0, 2.0]), made_scores([1.0]))
