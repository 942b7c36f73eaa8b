"""Intervals against hand computation, against a plain loop, and against how often they hold."""

import numpy as np
import pytest

from tasks.evaluation.measures.intervals import (
    Resampling,
    cluster_bootstrap,
    intervals_of,
    mean_interval,
    ratio_interval,
    wilson_interval,
)


def test_wilson_interval_by_hand_and_at_the_ends():
    # n = 10, p = 0.8, z^2 = 3.841459: centre (0.8 + 0.19207295) / 1.3841459 = 0.7167401,
    # half 1.959964 * sqrt(0.016 + 0.00960365) / 1.3841459 = 0.2265778
    low, high = wilson_interval(8, 10)
    assert (low, high) == (pytest.approx(0.490162, abs=1e-5), pytest.approx(0.943318, abs=1e-5))
    # none of n: from 0 to z^2 / (n + z^2)
    assert wilson_interval(0, 10) == (0.0, pytest.approx(3.841459 / 13.841459, abs=1e-6))
    assert wilson_interval(10, 10) == (pytest.approx(10 / 13.841459, abs=1e-6), 1.0)
    # p = 0.1: centre (0.1 + 0.19207295) / 1.3841459 = 0.2110131, half 0.1931359
    low, high = wilson_interval(1, 10)
    assert (low, high) == (pytest.approx(0.017877, abs=1e-5), pytest.approx(0.404149, abs=1e-5))
    assert wilson_interval(9, 10) == (pytest.approx(1 - high), pytest.approx(1 - low))
    # of any number: exactly 0 and 1 at the ends, and nowhere else
    for n in range(1, 200):
        assert (wilson_interval(0, n)[0], wilson_interval(n, n)[1]) == (0, 1)
        assert 0 < wilson_interval(1, n)[0] < wilson_interval(n - 0.5, n)[1] < 1


def test_mean_interval_by_hand_and_none_for_one_value():
    # 1, 2, 3: mean 2, sample deviation 1, half 1.959964 / sqrt(3) = 1.131586
    found = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert found == (pytest.approx(0.868414, abs=1e-6), pytest.approx(3.131586, abs=1e-6))
    assert mean_interval(np.array([5.0])) is None


def test_pairs_of_different_prompts_get_wilson_and_those_of_one_prompt_the_bootstrap():
    hits = np.array([1.0, 0.0, 1.0, 1.0])
    alone = intervals_of({"a": hits}, {"m": hits}, np.array(list("abcd")), Resampling())
    assert alone == {"a": wilson_interval(3, 4), "m": mean_interval(hits)}
    together = intervals_of({"a": hits}, {}, np.array(list("aabb")), Resampling())["a"]
    # two groups of means 1/2 and 1: a draw is both from one group, or one of each
    assert together == (0.5, 1.0)


def test_draws_of_the_bootstrap_are_those_of_a_plain_loop_over_groups():
    draw = np.random.default_rng(5)
    member = draw.integers(0, 6, 40)
    values = draw.normal(size=(40, 2))
    found = cluster_bootstrap(values, member, Resampling(200, 3))
    random = np.random.default_rng(3)
    for row in found:
        times = random.multinomial(6, np.full(6, 1 / 6))
        drawn = np.repeat(np.arange(40), times[member])
        assert row == pytest.approx(values[drawn].mean(axis=0), rel=1e-12)


def test_memory_at_a_time_does_not_change_the_draws(monkeypatch):
    from tasks.evaluation.measures import intervals

    values, member = np.arange(12.0)[:, None], np.arange(12) // 2
    whole = cluster_bootstrap(values, member, Resampling(100, 1))
    monkeypatch.setattr(intervals, "DRAWS_AT_ONCE", 13)
    assert (cluster_bootstrap(values, member, Resampling(100, 1)) == whole).all()


def test_copies_of_a_pair_make_the_interval_no_narrower():
    # 50 prompts with 8 pairs each that all stand or fall together: 50 facts, not 400
    draw = np.random.default_rng(1)
    hits = (draw.random(50) < 0.7).astype(float)
    group = np.repeat([f"{i:02d}" for i in range(50)], 8)
    low, high = intervals_of({"a": np.repeat(hits, 8)}, {}, group, Resampling())["a"]
    one_each = wilson_interval(hits.sum(), 50)
    assert high - low == pytest.approx(one_each[1] - one_each[0], rel=0.15)


def test_a_share_without_spread_keeps_an_interval_as_wide_as_its_groups_allow():
    group = np.array(list("aabb"))
    found = intervals_of({"a": np.ones(4), "h": np.full(4, 0.5)}, {}, group, Resampling())
    assert found["a"] == wilson_interval(2, 2)
    single = intervals_of({"a": np.ones(2)}, {"m": np.ones(2)}, np.array(["a", "a"]), Resampling())
    assert single == {"a": (0.0, 1.0), "m": None}


def test_the_bootstrap_holds_the_truth_about_as_often_as_it_says():
    # 60 prompts of 1 to 4 pairs with a shared chance each; the expected share is 0.6
    held, trials = 0, 150
    for seed in range(trials):
        draw = np.random.default_rng(seed)
        member = np.repeat(np.arange(60), draw.integers(1, 5, 60))
        chance = draw.beta(3, 2, 60)[member]
        hits = (draw.random(len(member)) < chance).astype(float)
        found = intervals_of({"a": hits}, {}, member.astype(str), Resampling(300, seed))["a"]
        held += found[0] <= 0.6 <= found[1]
    assert 0.89 <= held / trials <= 0.99


def test_many_groups_get_the_normal_interval_that_the_bootstrap_comes_to(monkeypatch):
    from tasks.evaluation.measures import intervals

    draw = np.random.default_rng(4)
    member = np.repeat(np.arange(900), draw.integers(1, 5, 900))
    hits = (draw.random(len(member)) < draw.beta(3, 2, 900)[member]).astype(float)
    drawn = intervals_of({"a": hits}, {}, member.astype(str), Resampling(2000))["a"]
    assert ratio_interval(hits, member) == pytest.approx(drawn, abs=0.003)
    monkeypatch.setattr(intervals, "BOOTSTRAP_GROUPS", 899)
    found = intervals_of({"a": hits}, {}, member.astype(str), Resampling())["a"]
    assert found == pytest.approx(ratio_interval(hits, member), rel=1e-12)
    first = np.zeros(len(hits))
    first[0] = 1
    ends = intervals_of({"one": first, "but one": 1 - first}, {}, member.astype(str), Resampling())
    assert (ends["one"][0], ends["but one"][1]) == (0.0, 1.0)
    # groups of one pair: the normal interval of a mean
    assert ratio_interval(hits, np.arange(len(hits))) == pytest.approx(mean_interval(hits))


@pytest.mark.parametrize("groups", [30, 2500])
@pytest.mark.parametrize("value", [0.0, 1 / 3, 0.5, 1.0])
def test_a_share_that_is_the_same_in_every_pair_gets_wilson_over_the_groups(groups, value):
    # every pair a tie, or every answer as long as the other: no draw differs, and little is known
    names = np.repeat(np.arange(groups), 2).astype(str)
    found = intervals_of({"a": np.full(2 * groups, value)}, {}, names, Resampling(50))
    assert found["a"] == pytest.approx(wilson_interval(value * groups, groups))
    alone = intervals_of({"a": np.full(groups, value)}, {}, names[::2], Resampling(50))
    assert found["a"] == pytest.approx(alone["a"])
