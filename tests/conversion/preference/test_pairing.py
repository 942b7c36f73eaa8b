"""Which answers are paired, by hand and by property; and the way back to preferences."""

from collections import Counter
from decimal import Decimal
from itertools import combinations
from math import comb

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.conversion import (
    best_of_n_to_preference,
    preferences_of,
    ranked_to_preference,
    scored_to_preference,
    unpair_preference_dataset,
    unpaired_to_preference,
)
from tasks.conversion.preference.pairing import pair_up
from tasks.errors import DataError

RULES = ("all", "best_worst", "adjacent")


def numbers(*values):
    return [Decimal(value) for value in values]


def names(count):
    return [bytes([i]) for i in range(count)]


def test_rules_on_the_worked_example():
    scores = numbers(3, 1, 2, 2)
    every = pair_up(scores, names(4), "all")
    assert (every.pairs, every.ties, every.capped) == (
        [(0, 2), (0, 3), (0, 1), (2, 1), (3, 1)], 1, 0,
    )  # fmt: skip
    assert pair_up(scores, names(4), "best_worst").pairs == [(0, 1)]
    neighbours = pair_up(scores, names(4), "adjacent")
    assert (neighbours.pairs, neighbours.ties) == ([(0, 2), (3, 1)], 1)


def test_fewer_than_two_answers_and_equal_ones_make_no_pair():
    for rule in RULES:
        assert pair_up([], [], rule).pairs == pair_up(numbers(1), names(1), rule).pairs == []
        tied = pair_up(numbers(1, "1.0"), names(2), rule)
        assert (tied.pairs, tied.ties) == ([], 1)


SCORES = st.lists(st.integers(0, 4), max_size=12)


@given(SCORES, st.sampled_from(RULES), st.integers(1, 40))
def test_pairs_ties_and_capped_add_up_and_better_scores_higher(values, rule, most):
    scores = numbers(*values)
    up = pair_up(scores, names(len(scores)), rule, most)
    n = len(scores)
    asked = {"all": comb(n, 2), "best_worst": int(n > 1), "adjacent": max(n - 1, 0)}[rule]
    assert len(up.pairs) + up.ties + up.capped == asked
    assert len(set(up.pairs)) == len(up.pairs) <= most
    assert all(scores[i] > scores[j] for i, j in up.pairs)
    if rule == "all" and not up.capped:
        strict = {frozenset(p) for p in combinations(range(n), 2) if scores[p[0]] != scores[p[1]]}
        assert {frozenset(pair) for pair in up.pairs} == strict


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=2, max_size=2)), unique=True),
       st.sampled_from(RULES), st.integers(1, 9), st.data())  # fmt: skip
def test_pairs_do_not_depend_on_the_order_of_the_answers(answers, rule, most, data):
    def paired(ordered):
        up = pair_up([Decimal(s) for s, _ in ordered], [n for _, n in ordered], rule, most)
        return {(ordered[i], ordered[j]) for i, j in up.pairs}, up.ties, up.capped

    assert paired(answers) == paired(data.draw(st.permutations(answers)))


@pytest.mark.parametrize(("good", "bad"), [(1000, 1000), (36, 36), (3, 720), (720, 3), (1, 500)])
def test_a_cap_uses_both_sides_evenly_and_does_not_build_what_it_leaves_out(good, bad):
    scores = numbers(*[1] * good, *[0] * bad)
    up = pair_up(scores, [i.to_bytes(3, "big") for i in range(good + bad)], "all", 36)
    assert len(up.pairs) == 36
    assert up.capped == good * bad - 36
    for side, size in ((0, good), (1, bad)):
        used = Counter(pair[side] for pair in up.pairs)
        assert max(used.values()) <= -(-36 // size) + 1


ROWS = [
    {"prompt": "1+1", "completion": "2", "label": True},
    {"prompt": "1+2", "completion": "3", "label": True},
    {"prompt": "1+1", "completion": "3", "label": False},
    {"prompt": "1+1", "completion": "two", "label": True},
]
PAIRS = [
    {"prompt": "1+1", "chosen": "2", "rejected": "3"},
    {"prompt": "1+1", "chosen": "two", "rejected": "3"},
]


def in_any_order(rows):
    return sorted(rows, key=repr)


def test_good_completions_of_a_prompt_are_paired_with_its_bad_ones():
    assert in_any_order(unpaired_to_preference(ROWS)) == PAIRS
    made = unpaired_to_preference(datasets.Dataset.from_list(ROWS))
    assert in_any_order(made.to_list()) == PAIRS
    assert len(unpaired_to_preference(ROWS, pairs="best_worst")) == 1
    counted = preferences_of(ROWS, max_pairs=1)
    assert (len(counted.rows), counted.capped, counted.alone, counted.ties) == (1, 1, 1, 0)


def test_unpairing_and_pairing_again_is_the_same_preference():
    rows = [{"prompt": "1+1", "chosen": "2", "rejected": "3"},
            {"prompt": "1+2", "chosen": "3", "rejected": "12"}]  # fmt: skip
    assert unpaired_to_preference(unpair_preference_dataset(rows)) == rows


def test_scores_give_exact_margins_and_ties_are_counted():
    rows = [{"prompt": "p", "completion": c, "score": s}
            for c, s in (("a", "0.3"), ("b", 0.1), ("c", 0.1))]  # fmt: skip
    made = preferences_of(rows, "score")
    assert in_any_order(made.rows) == [
        {"prompt": "p", "chosen": "a", "rejected": "b", "margin": 0.2},
        {"prompt": "p", "chosen": "a", "rejected": "c", "margin": 0.2},
    ]
    assert (made.ties, made.alone) == (1, 0)
    assert scored_to_preference(rows, pairs="best_worst")[0]["chosen"] == "a"
    assert preferences_of(rows[1:] + rows[1:2], "score").ties == 1
    same = [rows[0], rows[0] | {"score": 1}]
    assert preferences_of(same, "score").alone == 2


def test_a_ranked_row_and_a_best_of_n():
    row = {"prompt": "p", "completions": ["a", "b", "c"], "scores": [2, 1, 3]}
    ranked = ranked_to_preference(row, pairs="adjacent", lower_is_better=True)
    assert [(r["chosen"], r["rejected"], r["margin"]) for r in ranked.rows] == [
        ("b", "a", 1.0), ("a", "c", 1.0),
    ]  # fmt: skip
    best = best_of_n_to_preference({"prompt": "p", "completions": ["a", "b", "c"], "best": 1})
    assert in_any_order(best.rows) == [
        {"prompt": "p", "chosen": "b", "rejected": "a"},
        {"prompt": "p", "chosen": "b", "rejected": "c"},
    ]
    assert (best.ties, best.alone) == (0, 0)


def test_bad_judgements_are_answered_with_the_row():
    with pytest.raises(DataError, match=r"row 2: bad_label: label: found the text 'good'"):
        preferences_of([ROWS[0], ROWS[0] | {"label": "good"}])
    with pytest.raises(DataError, match=r"row 1: bad_score.*'N/A'"):
        preferences_of([{"prompt": "p", "completion": "a", "score": "N/A"}], "score")
    with pytest.raises(DataError, match="found 1 for 2 completions"):
        ranked_to_preference({"prompt": "p", "completions": ["a", "b"], "scores": [1]})
    for best in (2, True, -1):
        with pytest.raises(DataError, match=rf"found {best}.*, expected a position from 0 to 1"):
            best_of_n_to_preference({"prompt": "p", "completions": ["a", "b"], "best": best})
