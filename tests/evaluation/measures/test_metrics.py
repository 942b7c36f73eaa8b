"""Figures against arithmetic that is shown, and properties that hold for every table."""

from math import exp, log, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import DataError
from tasks.evaluation.measures import intervals
from tasks.evaluation.measures.bias import Judges
from tasks.evaluation.measures.calibration import (
    calibration_bins,
    calibration_error,
    error_interval,
)
from tasks.evaluation.measures.distribution import reward_distribution
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics, flat, metrics_of
from tasks.evaluation.tables.scores import Scores, score_table, scores_of
from tasks.evaluation.tables.surface import FEATURES
from tasks.evaluation.tables.texts import Texts
from tests.evaluation.pieces import made_scores


def scores(rows: list[tuple[str, float, float, int, int]], margins=None) -> Scores:
    """Rows of (source, reward of chosen, of rejected, tokens of chosen, of rejected)."""
    pairs = pa.table(
        {
            "pair_id": [str(i) for i in range(len(rows))],
            "source": [r[0] for r in rows],
            "chosen_input_ids": [[7] * r[3] for r in rows],
            "rejected_input_ids": [[7] * r[4] for r in rows],
            "margin": pa.array(margins or [None] * len(rows), pa.float32()),
            "shared_prefix_length": [1] * len(rows),
            "preference": [1.0] * len(rows),
            "weight": [1.0] * len(rows),
            "comparison": pa.nulls(len(rows), pa.string()),
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
    plain = metrics_of(scores(FOUR))
    assert "loss_without_margins" not in plain
    for figure in ("loss", "loss_interval"):
        assert found[figure.replace("loss", "loss_without_margins")] == plain[figure]


def test_the_interval_of_the_calibration_error_is_that_of_drawing_whole_groups_anew():
    random = np.random.default_rng(5)
    margin, group = random.normal(0.5, 2, 60), np.sort(random.integers(0, 17, 60)).astype(str)
    preference = random.choice([1.0, 0.75], 60)
    how = Resampling(resamples=200, seed=3)
    names, member = np.unique(group, return_inverse=True)
    times = np.random.default_rng(3).multinomial(len(names), [1 / len(names)] * len(names), 200)
    drawn = [
        calibration_error(np.repeat(margin, t[member]), np.repeat(preference, t[member]))
        for t in times
    ]
    expected = np.quantile(drawn, [0.025, 0.975]).tolist()
    assert error_interval(margin, preference, group, how) == pytest.approx(expected, rel=1e-9)
    assert error_interval(margin, preference, np.zeros(60, int), how) is None


def test_many_groups_in_lots_give_the_interval_of_the_calibration_error_that_all_of_them_give(
    monkeypatch,
):
    random = np.random.default_rng(2)
    group = random.integers(0, 3000, 5000)
    margin = random.normal(0.5, 1.4, 5000) + random.normal(0, 0.5, 3000)[group]
    drawn = error_interval(margin, None, group, Resampling())
    monkeypatch.setattr(intervals, "BOOTSTRAP_GROUPS", 5000)
    assert error_interval(margin, None, group, Resampling()) == pytest.approx(drawn, abs=0.0015)


def test_calibration_error_by_hand():
    # margins ln 4 (confidence 0.8), three right and one wrong: accuracy 0.75, gap 0.05 on 4 of 7
    # margins ln 2 (confidence 2/3), both right: gap 1/3 the other way on 2 of 7
    # margin 0 (confidence 0.5), half right: gap 0
    margins = np.array([log(4), log(4), log(4), -log(4), log(2), log(2), 0.0])
    assert calibration_error(margins) == pytest.approx((0.05 * 4 + 1 / 3 * 2) / 7, rel=1e-9)
    confidence = np.sort(np.append(np.arange(0.51, 1, 0.05), np.arange(0.54, 1, 0.05)))
    margins = np.append(np.log(confidence / (1 - confidence)), 800.0)  # the last is 1 in floats
    assert [each["pairs"] for each in calibration_bins(margins)] == [2] * 9 + [3]


def test_sources_split_the_pairs_and_counts_add_up_to_the_whole():
    found = all_metrics(scores(FOUR))
    assert list(found["sources"]) == ["a", "b"]
    for name in ("pairs", "correct", "ties"):
        assert sum(s[name] for s in found["sources"].values()) == found["overall"][name]
    assert found["sources"]["b"]["accuracy"] == 0.5
    assert flat(found)["source.b.accuracy"] == 0.5
    assert flat(found)["readiness.bfloat16.tie_rate"] == 1 / 4
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


def test_a_single_pair_has_no_interval_of_its_mean():
    assert "margin_low" not in flat(all_metrics(scores(FOUR[:1])))


def test_intervals_of_losses_end_at_zero_and_those_of_margins_do_not():
    # two pairs, one far right and one far wrong: each normal interval reaches below 0
    found = metrics_of(scores([("a", 5.0, 0.0, 2, 2), ("a", 0.0, 4.0, 2, 2)], [1.0, None]))
    for name in ("loss", "loss_without_margins", "brier"):
        low, high = found[f"{name}_interval"]
        assert low == 0.0 < found[name] < high
    assert found["margin_interval"][0] < 0


def test_undecided_pairs_are_counted_apart_and_change_no_other_figure():
    decided = made_scores([2.0, -1.0, 0.0])
    mixed = made_scores([2.0, -1.0, 0.0, 5.0, -7.0], preferences=[1, 1, 1, 0.5, 0.5])
    found, expected = metrics_of(mixed), metrics_of(decided)
    assert found.pop("undecided") == 2
    assert expected.pop("undecided") == 0
    assert found == expected
    found, expected = reward_distribution(mixed), reward_distribution(decided)
    assert found.pop("all")["mean"] == (2 - 1 + 5 - 7) / 10  # every answer has a reward
    assert expected.pop("all")["mean"] == (2 - 1) / 6
    assert found == expected
    nothing = metrics_of(made_scores([1.0], preferences=[0.5]))
    assert (nothing["pairs"], nothing["undecided"], nothing["accuracy"]) == (0, 1, None)
    with pytest.raises(DataError, match="none of the 1 held-out pairs has a better side"):
        all_metrics(made_scores([1.0], preferences=[0.5]))


def test_loss_and_brier_of_a_soft_label_by_hand():
    # q = 0.75, margin ln 3 (sigmoid 0.75): the cross-entropy is the entropy of 0.75; Brier is 0
    found = metrics_of(made_scores([log(3)], preferences=[0.75]))
    assert found["loss"] == pytest.approx(-0.75 * log(0.75) - 0.25 * log(0.25), rel=1e-12)
    assert found["brier"] == pytest.approx(0, abs=1e-15)
    # confidence 0.75, and the side preferred is right by 0.75
    assert found["ece"] == pytest.approx(0, abs=1e-12)


def test_no_figure_depends_on_the_order_of_rows():
    draw = np.random.default_rng(0)
    n = 60
    made = made_scores(
        draw.normal(0.3, 1, n).tolist(),
        rewards=[tuple(pair) for pair in draw.normal(0, 1, (n, 2)).tolist()],
        groups=[f"g{i % 17}" for i in range(n)],
        tokens=[tuple(pair) for pair in draw.integers(3, 30, (n, 2)).tolist()],
        preferences=draw.choice([1.0, 0.5, 0.8], n).tolist(),
        sources=draw.choice(["a", "b"], n).tolist(),
    )
    expected = all_metrics(made)
    for _ in range(3):
        assert all_metrics(made.take(draw.permutation(n))) == expected


def test_texts_judges_and_columns_go_with_their_pairs_in_whatever_order():
    draw = np.random.default_rng(1)
    n = 40
    made = made_scores(draw.normal(0.3, 1, n).tolist())
    judges = Judges(3, draw.normal(0, 1, n))
    kinds = draw.choice(["math", "code"], n)
    seen = Texts(
        group=np.arange(n) // 2,
        format=draw.choice(["standard", "conversational"], n),
        language=draw.choice(["en", "de"], n),
        turns=draw.integers(1, 6, n),
        chosen=draw.integers(0, 9, (n, len(FEATURES))).astype(float),
        rejected=draw.integers(0, 9, (n, len(FEATURES))).astype(float),
        chosen_opening=draw.choice(["praise", "none"], n),
        rejected_opening=draw.choice(["praise", "none"], n),
        first=draw.choice([1.0, -1.0, 0.0], n),
    )
    how = Resampling(100)
    expected = all_metrics(made, seen, how, judges=judges, columns={"kind": kinds})
    assert expected["overall"]["groups"] == n // 2  # the prompts that texts know of
    other = draw.permutation(n)
    found = all_metrics(
        made.take(other),
        seen.take(other),
        how,
        judges=judges.take(other),
        columns={"kind": kinds[other]},
    )
    assert found == expected


def test_where_the_rewards_lie_by_hand():
    # chosen 1 2 4, rejected 0 2 1; of three values, the q-quantile lies at place 2 q, from 0
    made = made_scores([1.0, 0.0, 3.0], rewards=[(1.0, 0.0), (2.0, 2.0), (4.0, 1.0)])
    found = reward_distribution(made)
    assert found["levels"] == [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]
    assert found["chosen"] == {
        "mean": pytest.approx(7 / 3),
        "std": pytest.approx(sqrt(21 / 3 - (7 / 3) ** 2)),
        "quantiles": pytest.approx([1, 1.02, 1.1, 1.5, 2, 3, 3.8, 3.96, 4]),
    }
    assert found["rejected"]["quantiles"] == pytest.approx(
        [0, 0.02, 0.1, 0.5, 1, 1.5, 1.9, 1.98, 2]
    )
    # 0 1 1 2 2 4
    assert found["all"]["mean"] == pytest.approx(10 / 6)
    assert found["all"]["std"] == pytest.approx(sqrt(26 / 6 - (10 / 6) ** 2))
    assert found["all"]["quantiles"][4] == 1.5
    assert found["margin"]["mean"] == pytest.approx(4 / 3)
    assert found["margin"]["quantiles"][-1] == 3


def test_slices_hold_every_pair_once_and_lengths_are_of_the_answers_alone():
    # 2 shared tokens: answers of 4 and 8 (ratio 0.5), 8 and 4 (2), 6 and 6 (1), 1 and 10 (0.1)
    made = made_scores([1.0, 1.0, -1.0, 1.0], tokens=[(6, 10), (10, 6), (8, 8), (3, 12)])
    found = all_metrics(made)["slices"]
    lengths = {entry["slice"]: entry["pairs"] for entry in found["length_ratio"]}
    assert lengths == {"<0.5": 1, "0.5 to <0.8": 1, "0.8 to <1.25": 1, ">=2": 1}
    assert [entry["accuracy"] for entry in found["length_ratio"]] == [1.0, 1.0, 0.0, 1.0]
    assert {entry["slice"]: entry["pairs"] for entry in found["prompt_tokens"]} == {"<32": 4}
