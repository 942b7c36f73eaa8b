"""What RL finds within a prompt, against arithmetic, brute force and torch."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
import torch

from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics
from tasks.evaluation.measures.readiness import best_of_n, bfloat16, readiness
from tasks.evaluation.tables.answers import answers_of, intraclass_correlation, partial_correlation
from tests.evaluation.pieces import made_scores


def ranked(rewards: list[float], group: str = "g", tokens=None) -> list[dict]:
    """All pairs of K answers, the first the best, as the rows of a comparison."""
    lengths = tokens or [5] * len(rewards)
    return [
        {
            "group": group,
            "answers": (f"{group}{a}", f"{group}{b}"),
            "rewards": (rewards[a], rewards[b]),
            "tokens": (lengths[a], lengths[b]),
        }
        for a, b in combinations(range(len(rewards)), 2)
    ]


def scores(rows: list[dict]):
    return made_scores(
        [r["rewards"][0] - r["rewards"][1] for r in rows],
        **{name: [r[name] for r in rows] for name in ("answers", "rewards", "tokens")},
        groups=[r["group"] for r in rows],
    )


def test_every_answer_of_a_comparison_stands_once_with_its_share_of_wins():
    found = answers_of(scores(ranked([3.0, 1.0, 2.0], tokens=[4, 5, 6])))
    order = np.argsort(-found.quality)
    assert found.quality[order].tolist() == [1.0, 0.5, 0.0]
    assert found.reward[order].tolist() == [3.0, 1.0, 2.0]
    assert found.tokens[order].tolist() == [4, 5, 6]
    # the same ids under two prompts are two answers
    assert len(answers_of(scores([*ranked([1.0, 0.0], "a"), *ranked([1.0, 0.0], "b")]))) == 4


def test_an_answer_of_soft_labels_has_their_mean_and_the_first_of_its_rewards():
    made = made_scores(
        [2.0, 3.0],
        answers=[("x", "y"), ("x", "z")],
        groups=["g", "g"],
        preferences=[0.75, 1.0],
        rewards=[(3.0, 1.0), (3.0 + 2**-20, 0.0)],  # another pass, another last bit
        tokens=[(7, 8), (7, 9)],
    )
    found = answers_of(made)
    assert (found.reward.tolist(), found.tokens.tolist()) == ([3.0, 1.0, 0.0], [7, 8, 9])
    # (0.75 + 1) / 2, 1 - 0.75, 1 - 1
    assert found.quality.tolist() == [0.875, 0.25, 0.0]


def test_best_of_n_equals_the_mean_over_all_draws():
    draw = np.random.default_rng(2)
    rows, groups = [], {}
    for g, k in enumerate((2, 3, 5, 5, 4)):
        rewards = draw.integers(0, 4, k).astype(float).tolist()  # with ties
        rows += ranked(rewards, f"g{g}")
        groups[g] = (rewards, [1 - i / (k - 1) for i in range(k)])  # share of wins by rank

    def picked(rewards, quality, n):
        """Mean quality of the highest reward over all draws of n; equal rewards share."""
        means = []
        for drawn in combinations(range(len(rewards)), n):
            top = max(rewards[i] for i in drawn)
            # a tied answer stands for its tie: the mean over all answers of that reward
            equal = [i for i in range(len(rewards)) if rewards[i] == top]
            means.append(np.mean([quality[i] for i in equal]))
        return np.mean(means)

    for entry in best_of_n(answers_of(scores(rows))):
        enough = [v for v in groups.values() if len(v[0]) >= entry["n"]]
        assert entry["groups"] == len(enough)
        expected = np.mean([picked(r, q, entry["n"]) for r, q in enough])
        assert entry["model"] == pytest.approx(expected, rel=1e-12)
        best = np.mean([picked(q, q, entry["n"]) for _, q in enough])
        assert entry["oracle"] == pytest.approx(best, rel=1e-12)
        assert entry["random"] == pytest.approx(0.5, rel=1e-12)


def test_the_best_of_many_has_the_rank_that_order_statistics_say():
    # the highest of n ranks drawn from 1 .. K has mean n (K + 1) / (n + 1); quality (rank - 1) / 69
    answers = answers_of(scores(ranked([-float(i) for i in range(70)])))
    found = best_of_n(answers)
    assert [entry["n"] for entry in found] == [1, 2, 3, 4, 8, 16, 32, 64]
    for entry in found:
        expected = (entry["n"] * 71 / (entry["n"] + 1) - 1) / 69
        assert entry["model"] == entry["oracle"] == pytest.approx(expected, rel=1e-12)


def test_a_prompt_with_one_answer_alone_says_nothing_of_spread():
    # both sides of a and of c are the same tokens
    alone = [{"group": g, "answers": (g, g), "rewards": (2.0, 2.0), "tokens": (5, 5)} for g in "ac"]
    assert intraclass_correlation(answers_of(scores(alone))) is None
    mixed = answers_of(scores([alone[0], *ranked([3.0, 1.0], "b"), alone[1]]))
    assert (len(mixed), mixed.sizes.tolist()) == (4, [1, 2, 1])
    several = mixed.several()
    assert (several.sizes.tolist(), sorted(several.reward.tolist())) == ([2], [1.0, 3.0])
    found = readiness(scores(alone), answers_of(scores(alone)).several())
    assert (found["groups"], found["best_of_n"]) == (None, None)


def test_of_pairs_the_best_of_two_is_the_accuracy_with_ties_as_half():
    made = made_scores([1.0, -1.0, 0.0, 2.0])
    assert [e["model"] for e in best_of_n(answers_of(made))] == [0.5, 2.5 / 4]


def test_spread_and_zero_advantage_by_hand():
    # rewards 1, 3 (deviation 1); 2, 2 (none); 256, 257 (0.5; equal in bfloat16: its step is 2)
    rows = [
        *ranked([3.0, 1.0], "a"),
        *ranked([2.0, 2.0], "b"),
        *ranked([257.0, 256.0], "c"),
    ]
    made = scores(rows)
    found = readiness(made, answers_of(made))["groups"]
    assert (found["groups"], found["answers"], found["largest"]) == (3, 6, 2)
    assert found["within_std_mean"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert found["within_std_median"] == 0.5
    assert found["zero_advantage"] == 1 / 3
    assert found["zero_advantage_bfloat16"] == 2 / 3
    warnings = all_metrics(made, how=Resampling(100))["warnings"]
    told = {warning["figure"]: warning["message"] for warning in warnings}
    assert told["readiness.groups.zero_advantage"].startswith("in 33% of the groups all answers")
    serving = readiness(made, answers_of(made))["bfloat16"]
    assert serving == {
        "tie_rate": 2 / 3,
        "tie_rate_float32": 1 / 3,
        "false_ties": 1,
        "largest_step": 2.0,
    }
    nothing = made_scores([0.0])
    assert readiness(nothing, answers_of(nothing))["bfloat16"]["largest_step"] == 0.0


def test_false_ties_are_told_out_of_the_pairs_that_they_were_counted_in():
    # 1 of 4 pairs, two of which are ties of the data: these have rewards too.
    rewards = [(1.0, 0.0), (2.0, 0.0), (257.0, 256.0), (3.0, 1.0)]
    made = made_scores([1.0, 2.0, 1.0, 2.0], rewards=rewards, preferences=[1.0, 1.0, 0.5, 0.5])
    [warning] = [
        w for w in all_metrics(made, how=Resampling(100))["warnings"] if "false_ties" in w["figure"]
    ]
    assert warning["message"].startswith("bfloat16 makes 1 of 4 pairs equal that are not")


def test_rounding_to_bfloat16_is_that_of_torch():
    values = np.random.default_rng(0).normal(0, 30, 5000).astype(np.float32).astype(np.float64)
    values[:8] = [0.0, -0.0, 256.0, 257.0, 259.0, 261.0, -259.0, -257.0]  # halves go to even
    expected = torch.tensor(values, dtype=torch.float32).bfloat16().double().numpy()
    assert (bfloat16(values) == expected).all()


def test_the_prompts_share_of_the_variance_by_hand_and_in_the_limits():
    # groups (1, 3) and (5, 7): within squares 4 on 2 degrees, between 2 * (4 + 4) = 16 on 1
    # (16 - 2) / (16 + (2 - 1) * 2) = 14 / 18
    answers = answers_of(scores([*ranked([3.0, 1.0], "a"), *ranked([7.0, 5.0], "b")]))
    assert intraclass_correlation(answers) == pytest.approx(14 / 18)
    # groups (1, 3) and (4, 6, 8): between 2 * 2.4^2 + 3 * 1.6^2 = 19.2 on 1 degree, within 10 on 3,
    # k0 = 5 - (4 + 9) / 5 = 2.4
    unequal = answers_of(scores([*ranked([3.0, 1.0], "a"), *ranked([8.0, 6.0, 4.0], "b")]))
    expected = (19.2 - 10 / 3) / (19.2 + 1.4 * 10 / 3)
    assert intraclass_correlation(unequal) == pytest.approx(expected, rel=1e-12)
    only_prompts = scores([*ranked([1.0, 1.0], "a"), *ranked([7.0, 7.0], "b")])
    assert intraclass_correlation(answers_of(only_prompts)) == pytest.approx(1)
    one_group = scores(ranked([1.0, 0.0]))
    assert intraclass_correlation(answers_of(one_group)) is None
    opposed = scores([r for g in "abcd" for r in ranked([1.0, 0.0], g)])
    assert intraclass_correlation(answers_of(opposed)) == pytest.approx(-1)
    draw = np.random.default_rng(0)
    chance = [r for g in range(400) for r in ranked(draw.normal(size=3).tolist(), f"g{g}")]
    assert abs(intraclass_correlation(answers_of(scores(chance)))) < 0.1


def test_a_length_bias_shows_within_prompts_though_prompts_hide_it():
    # within each prompt +1 reward per token; between prompts longer ones earn less
    rows = [
        *ranked([11.0, 10.0], "a", [12, 11]),
        *ranked([2.0, 0.0], "b", [103, 101]),
    ]
    assert partial_correlation(answers_of(scores(rows))) == pytest.approx(1)
    rows = [*ranked([1.0, 0.0], "a", [5, 7]), *ranked([1.0, 0.0], "b", [9, 9])]
    # demeaned rewards .5 -.5 .5 -.5, tokens -1 1 0 0: -1 / sqrt(1 * 2)
    assert partial_correlation(answers_of(scores(rows))) == pytest.approx(-1 / sqrt(2))
    assert partial_correlation(answers_of(made_scores([1.0]))) is None
