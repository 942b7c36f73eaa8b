"""Several ratings of one answer are one answer, worth their mean."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.conversion.options import LabelOptions, RankingOptions
from tasks.conversion.preference.answers import Answer, joined
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.repeated import AVERAGED

RATINGS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), min_size=1, max_size=12)


def made(ratings, rules=None):
    answers = [
        Answer("q", text, score if isinstance(score, bool) else Decimal(score))
        for text, score in ratings
    ]
    return joined(answers, rules or RankingOptions())


@given(RATINGS)
def test_pairs_and_margins_are_those_of_each_answer_s_mean(ratings):
    means = {}
    for text, score in ratings:
        means.setdefault(text, []).append(Fraction(score))
    means = {text: mean(scores) for text, scores in means.items()}
    expected, ties = {}, 0
    for one, other in combinations(sorted(means), 2):
        better, worse = sorted((one, other), key=lambda text: -means[text])
        if means[better] == means[worse]:
            ties += 1
        else:
            expected[better, worse] = float(means[better] - means[worse])
    items = [item for item, _ in made(ratings)]
    pairs = {(p.chosen, p.rejected): p.margin for p in items if isinstance(p, Pair)}
    assert pairs == pytest.approx(expected, abs=1e-12)
    assert sum(i.pairs for i in items if not isinstance(i, Pair) and i.reason == "tie") == ties


@given(RATINGS, st.randoms())
def test_the_order_of_the_ratings_changes_nothing(ratings, random):
    shuffled = random.sample(ratings, len(ratings))
    assert {i for i, _ in made(ratings) if isinstance(i, Pair)} == {
        i for i, _ in made(shuffled) if isinstance(i, Pair)
    }


def test_a_pair_of_several_ratings_says_so_and_names_the_first_row_of_the_better_answer():
    ((pair, row),) = made([("worse", 1), ("good", 2), ("good", 5)])
    assert (pair.chosen, pair.margin, pair.notes, row) == ("good", 2.5, (AVERAGED,), 1)
    ((pair, _),) = made([("worse", 1), ("good", 2)])
    assert pair.notes == ()


def test_of_labels_the_majority_counts_and_half_is_no_choice():
    ratings = [("a", True), ("a", False), ("a", True), ("b", False), ("c", True), ("c", False)]
    (pair, _), (left_out, row) = made(ratings, LabelOptions())
    assert (pair.chosen, pair.rejected, pair.margin) == ("a", "b", None)
    assert (left_out.reason, row) == ("tie", 4)
    assert "2 labels of this answer, half of them good" in left_out.message
