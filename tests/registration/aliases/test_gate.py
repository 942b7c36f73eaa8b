"""The gate: bounds by hand-made figures, tests by hand-counted tosses, and what follows."""

from math import comb
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from flows.findings import decision_section
from flows.pages import headline, stage_page, state_message
from tasks.artifact import Artifact
from tasks.evaluation.measures import intervals
from tasks.registration.aliases.comparison import beaten, compare, mcnemar, p_value, source_bounds
from tasks.registration.aliases.frozen import frozen_pairs
from tasks.registration.aliases.gate import Bound, decide, decision_of, fitness
from tasks.registration.params import GateParams, RegistrationParams
from tests.evaluation.pieces import made_scores


def figures(**changes):
    """What `metrics.json` holds, as far as the gate reads it."""
    probes = {
        "empty": {"degenerate": True, "mean_reward": 0.5},
        "repeated": {"degenerate": True, "mean_reward": -2.0},
        "real": {"degenerate": False, "mean_reward": 3.0},
    }
    return {
        "overall": {"accuracy": 0.7, "accuracy_interval": [0.6, 0.8]},
        "bias": {
            "null_models": {
                "model": {"accuracy": 0.7},
                "longer_tokens": {"accuracy": 0.66},
                "first_tokens": {"accuracy": 0.72},
            },
            "length": {"partial_correlation": -0.4},
            "prompt": {"share_of_variance": None},
        },
        "readiness": {"bfloat16": {"tie_rate": 0.02}, "probes": probes},
        "rewards": {"all": {"quantiles": [-3.0] * 4 + [0.0] + [3.0] * 4}},
    } | changes


ALL = {
    "min_accuracy": 0.7,
    "min_accuracy_low": 0.61,
    "min_lead_over_null": 0.05,
    "max_length_correlation": 0.4,
    "max_prompt_share": 0.9,
    "max_tie_rate": 0.01,
    "max_degenerate": 0,
}


def test_every_bound_names_its_figure_and_one_that_cannot_be_computed_fails():
    found = {b.name: b for b in fitness(figures(), GateParams(**ALL))}
    assert {name: b.holds for name, b in found.items()} == {
        "min_accuracy": True,  # 0.7 >= 0.7
        "min_accuracy_low": False,  # 0.6
        "min_lead_over_null": False,  # 0.70 - 0.66; the model's own first tokens are no null model
        "max_length_correlation": True,  # |-0.4|
        "max_prompt_share": False,  # no prompt has two answers: not computable
        "max_tie_rate": False,
        "max_degenerate": False,  # an empty answer earns more than the median, 0
    }
    assert str(found["min_lead_over_null"]) == (
        "min_lead_over_null 0.04, bound >= 0.05: fails (over longer_tokens)"
    )
    assert str(found["max_prompt_share"]).startswith("max_prompt_share not computable, bound <=")
    assert found["max_length_correlation"].note == "is -0.400"
    assert found["max_degenerate"].note == "empty"
    unknown = figures(readiness={"bfloat16": {"tie_rate": 0.0}, "probes": None})
    unknown["bias"]["length"]["partial_correlation"] = None
    unknown["bias"]["null_models"] = {"model": {"accuracy": 0.7}, "first_tokens": {"accuracy": 0}}
    asked = GateParams(min_lead_over_null=-1, max_length_correlation=1, max_degenerate=99)
    told = [str(b) for b in fitness(unknown, asked) if b.value is None]
    assert told == [
        "min_lead_over_null not computable, bound >= -1: fails (over none)",
        "max_length_correlation not computable, bound <= 1: fails",
        "max_degenerate not computable, bound <= 99: fails",
    ]


@pytest.mark.catalogue(119)
def test_by_default_only_a_coin_and_a_collapsed_reward_are_rejected():
    names = [b.name for b in fitness(figures(), GateParams())]
    assert names == ["min_accuracy", "max_tie_rate"]
    assert GateParams().max_source_drop == 0.0
    off = GateParams(min_accuracy=None, max_tie_rate=None)
    assert fitness(figures(), off) == ()
    with pytest.raises(ValidationError, match="min_accuracy"):
        RegistrationParams(gate={"min_accuracy": 1.5})


def test_an_unfit_model_is_rejected_and_a_worse_source_makes_it_a_challenger():
    unfit = Bound("min_accuracy", 0.4, ">=", 0.5, False)
    worse = Bound("max_source_drop.a", 0.2, "<=", 0.0, False, "challenger")
    holds = Bound("max_tie_rate", 0.0, "<=", 0.5, True)
    assert decide((holds,), True, "beats").outcome == "champion"
    assert decide((holds,), False, "does not beat").outcome == "challenger"
    found = decide((holds, worse), True, "beats version 1")
    assert found.outcome == "challenger"
    assert found.reason == "max_source_drop.a 0.2, bound <= 0: fails; beats version 1"
    found = decide((unfit, worse), True, "beats version 1")
    assert found.outcome == "rejected"
    assert found.reason == "unfit: min_accuracy 0.4, bound >= 0.5: fails"
    assert decision_of(found.to_json()) == found
    assert decide((unfit,) * 10, True, "").reason.endswith("bound >= 0.5: fails")
    assert decide((unfit,) * 11, True, "").reason.endswith("bound >= 0.5: fails; 1 more fails")


def test_accuracy_decides_then_loss_and_an_improvement_must_be_as_large_as_asked():
    low, high = made_scores([1.0, 1.0, -1.0, -1.0]), made_scores([1.0, 1.0, 1.0, -1.0])
    assert beaten(high, low, "1", 0.0)[0]
    assert not beaten(low, high, "1", 0.0)[0]
    assert beaten(high, low, "1", 0.24)[0]
    figures = "accuracy 0.7500 against 0.5000"
    assert beaten(high, low, "1", 0.25) == (
        False,
        f"does not beat version 1: {figures}, by more than 0.25 needed",
    )
    assert not beaten(high, high, "1", 0.0)[0]
    sharper = made_scores([2.0, 2.0, 2.0, -1.0])
    beats, figures = beaten(sharper, high, "1", 0.0)
    assert (beats, "loss" in figures) == (True, True)
    assert not beaten(sharper, high, "1", 0.001)[0]


def test_mcnemar_counts_fair_tosses():
    # Of 10 pairs on which they disagree, the champion alone is right on 9 or 10: 11 of 1024.
    assert mcnemar(9, 1) == pytest.approx((comb(10, 9) + comb(10, 10)) / 2**10)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == pytest.approx(0.5 + comb(10, 5) / 2**11)
    exact = sum(comb(3000, k) for k in range(1550, 3001)) / 2**3000
    assert mcnemar(1550, 1450) == pytest.approx(exact, rel=0.01)


def test_a_source_must_be_worse_beyond_chance_and_the_reason_says_which_by_which_test():
    # Source a: lost on 12 pairs, won on 1; p = (C(13,12) + 1) / 2^13 = 0.0017. b: 3 lost, p 1/8.
    old = made_scores([1.0] * 12 + [-1.0] + [1.0] * 3, sources=["a"] * 13 + ["b"] * 3)
    new = made_scores([-1.0] * 12 + [1.0] + [-1.0] * 3, sources=["a"] * 13 + ["b"] * 3)
    a, b = source_bounds(new, old, "7", GateParams())
    assert (a.name, a.holds, a.otherwise) == ("max_source_drop.a", False, "challenger")
    assert a.value == pytest.approx(11 / 13)
    assert "13 pairs against version 7, McNemar p 0.00171 at level 0.025, beyond chance" in a.note
    assert (b.value, b.holds) == (1.0, True)
    assert "within chance" in b.note
    found = compare(new, old, "7", 0.0, GateParams())
    assert (found.beats, len(found.bounds)) == (False, 2)
    assert source_bounds(new, old, "7", GateParams(max_source_drop=None)) == ()
    better = source_bounds(old, new, "7", GateParams())
    assert all(bound.holds for bound in better)


def test_pairs_on_which_both_agree_toss_nothing_and_a_tie_is_no_right_answer():
    # The champion alone is right on 6, two of which tie now, the model alone on 1; both are right
    # on 20 and wrong on 5. Of 9 pairs neither side is the better one.
    old = [1.0] * 20 + [-1.0] * 5 + [1.0] * 6 + [-1.0] + [1.0] * 9
    new = [1.0] * 20 + [-1.0] * 5 + [-1.0] * 4 + [0.0] * 2 + [1.0] + [-1.0] * 9
    preferences = [1.0] * 32 + [0.5] * 9
    model, champion = (made_scores(each, preferences=preferences) for each in (new, old))
    (bound,) = source_bounds(model, champion, "7", GateParams())
    assert (bound.value, bound.holds) == (pytest.approx((6 - 1) / 32), True)
    # C(7, 6) + C(7, 7) of 2^7
    assert bound.note == (
        "32 pairs against version 7, McNemar p 0.0625 at level 0.05, within chance"
    )
    (bound,) = source_bounds(model, champion, "7", GateParams(significance=0.07))
    assert not bound.holds
    (bound,) = source_bounds(model, champion, "7", GateParams(max_source_drop=5 / 32))
    assert bound.holds
    assert "bootstrap" in bound.note
    assert "chance" not in bound.note


def test_pairs_of_one_prompt_count_as_one_and_an_allowed_drop_is_allowed():
    lost = np.array([1.0] * 12)
    one_prompt_each = made_scores([-1.0] * 12)
    p, test = p_value(lost, one_prompt_each, 0.0)
    assert (test, p) == ("McNemar", 2.0**-12)
    # Twelve pairs of two prompts, one of which the model wins: two tosses tell nothing.
    two = made_scores([-1.0] * 12, groups=["x"] * 6 + ["y"] * 6)
    p, test = p_value(np.array([1.0] * 6 + [-1.0] * 6), two, 0.0)
    assert test == "bootstrap"
    assert p > 0.5
    # A drop of 1/10 where 1/10 is allowed: within it in about half of the draws.
    some = made_scores([1.0] * 200)
    dropped = np.array([1.0] * 20 + [0.0] * 180)
    assert 0.4 < p_value(dropped, some, 0.1)[0] < 0.7
    assert p_value(dropped, some, 0.02)[0] < 0.01


def test_a_few_prompts_of_many_pairs_are_not_beyond_chance():
    # All draws of one prompt are alike: it is one toss, lost, however many pairs it has.
    one = made_scores([-1.0] * 6, groups=["x"] * 6)
    assert p_value(np.array([1.0] * 6), one, 0.0) == (0.5, "bootstrap")
    (bound,) = source_bounds(one, made_scores([1.0] * 6, groups=["x"] * 6), "7", GateParams())
    assert (bound.value, bound.holds) == (1.0, True)
    assert "bootstrap p 0.5 at level 0.05, within chance" in bound.note
    # Two prompts are two tosses, a third on which the models agree is none; six are 1 of 64.
    three = made_scores([1.0] * 6, groups=["x", "x", "y", "y", "z", "z"])
    assert p_value(np.array([1.0] * 4 + [0.0] * 2), three, 0.0)[0] == 0.25
    six = made_scores([1.0] * 12, groups=[name for name in "uvwxyz" for _ in "ab"])
    assert p_value(np.array([1.0] * 12), six, 0.0)[0] == 2.0**-6
    # With a drop of 1/5 allowed, a prompt may be lost in 3 cases of 5 and won in 2.
    assert p_value(np.array([1.0] * 6), one, 0.2)[0] == pytest.approx(0.6)


def test_prompts_that_the_champion_was_trained_on_are_left_out_of_the_comparison():
    scores = made_scores([1.0, 1.0, -1.0])
    groups = {pair_id: f"p{i}" for i, pair_id in enumerate(scores.pair_id.tolist())}
    found = frozen_pairs(scores, groups, {"p1", "p9"})
    assert found.rows.tolist() == [True, False, True]
    assert found.note == "2 frozen pairs, 1 left out that the champion was trained on"
    assert frozen_pairs(scores, groups, set()).note == "3 frozen pairs"
    unknown = frozen_pairs(scores, groups, None)
    assert unknown.rows.all()
    assert "is not known" in unknown.note


def test_frozen_pairs_without_a_better_side_are_told_since_no_figure_counts_them():
    scores = made_scores([1.0, 1.0, -1.0, 2.0], preferences=[0.5, 0.5, 1.0, 0.7])
    groups = {pair_id: f"p{i}" for i, pair_id in enumerate(scores.pair_id.tolist())}
    found = frozen_pairs(scores, groups, {"p1"}).note
    assert found == (
        "3 frozen pairs, 1 of them without a better side, 1 left out that the champion was "
        "trained on"
    )
    unknown = frozen_pairs(scores, groups, None).note
    assert unknown.startswith("4 held-out pairs, 2 of them without a better side (which prompts")


def test_the_decision_stands_in_the_state_message_the_pages_and_the_summary():
    bounds = fitness(figures(), GateParams(min_accuracy=0.75, max_prompt_share=0.9))
    found = decide(bounds, True, "beats version 3").to_json()
    registered = {
        "name": "reward-model",
        "version": 4,
        "alias": None,
        "outcome": found["outcome"],
        "decision": found["reason"],
        "bounds": found["bounds"],
    }
    record = {"report": registered, "seconds": 1.0, "created": "now", "git_commit": None}
    artifact = Artifact("registration", "k", Path("/nowhere"), "d", record, reason="NEVER BUILT")
    reason = "rejected: unfit: min_accuracy 0.7, bound >= 0.75: fails; max_prompt_share not"
    assert state_message(artifact).startswith(reason)
    assert state_message(artifact).endswith("(NEVER BUILT)")
    page = stage_page(artifact)
    assert "### Decision" in page
    assert "| min\\_accuracy | 0.7 | \\>= 0.75 | fails: at most rejected |" in page
    assert "holds" in "".join(decision_section(registered))
    summary = {"stages": {}, "model": None, "metrics": {}, "registered": registered}
    assert headline(summary).split("; ")[1:3] == [
        "registered reward-model version 4",
        "rejected: unfit: min_accuracy 0.7, bound >= 0.75: fails",
    ]


def test_of_many_prompts_lots_are_drawn_with_the_p_value_that_all_of_them_give(monkeypatch):
    random = np.random.default_rng(5)
    groups = random.integers(0, 600, 800)
    lost = random.choice([-1.0, 0.0, 1.0], 800, p=[0.09, 0.8, 0.11])
    scores = made_scores(lost, groups=groups.tolist())
    monkeypatch.setattr(intervals, "BOOTSTRAP_GROUPS", 400)
    drawn, _ = p_value(lost, scores, 0.015)
    monkeypatch.setattr(intervals, "BOOTSTRAP_GROUPS", 600)
    assert p_value(lost, scores, 0.015)[0] == pytest.approx(drawn, abs=0.02)
