"""Verdicts on pairs, held against those of a dictionary that knows every pair seen so far."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.first_pass.tables import KEYS
from tasks.conversion.second_pass import hash_tables
from tasks.conversion.second_pass.duplicates import (
    ALIKE,
    CONTRADICTION,
    DUPLICATE,
    JOINED,
    KEEP,
    OUTVOTED,
    check_no_leakage,
    judge,
)
from tasks.errors import ArtifactError

HASHES = st.integers(0, 2**64 - 1)
# Few values, so that many are equal, and few bits that differ: any of them may be told apart by.
POOLS = st.lists(HASHES | st.integers(0, 3) | st.sampled_from([2**63, 2**32]), min_size=1)


def records(pairs):
    made = np.zeros(len(pairs), KEYS)
    for number, pair in enumerate(pairs):
        for name, value in zip(("high", "low", "exact", "margin"), pair, strict=True):
            made[name][number] = value
    return made


def verdicts(pairs, contradictions):
    """The codes of all pairs, and how many duplicates have another margin."""
    sides, firsts, codes, other_margin = defaultdict(Counter), {}, [], 0
    for high, low, _, _ in pairs:
        sides[high, low >> 1][low] += 1
    for pair in pairs:
        high, low, exact, margin = pair
        _, _, first_exact, first_margin = firsts.setdefault((high, low), pair)
        repeats = firsts[high, low] is not pair
        other_margin += repeats and margin != first_margin
        code = KEEP if not repeats else DUPLICATE if exact == first_exact else ALIKE
        votes = sides[high, low >> 1]
        mine, others = votes[low], votes.total() - votes[low]
        if contradictions == "majority":
            code = OUTVOTED if mine < others else CONTRADICTION if mine == others else code
        elif others and (contradictions == "drop" or not repeats):
            code = CONTRADICTION
        codes.append(code)
    return codes, other_margin


@settings(deadline=None, max_examples=300)
@given(
    POOLS, st.data(), st.sampled_from(["drop", "keep", "majority"]), st.sampled_from([2, 16, 2**24])
)
def test_verdicts_are_those_of_a_dictionary(pool, data, contradictions, places):
    few = st.integers(0, 2)
    pair = st.tuples(st.sampled_from(pool), st.integers(0, 5), few, few).map(lambda p: [*p])
    pairs = data.draw(st.lists(pair, min_size=1, max_size=60))
    cut = data.draw(st.integers(0, len(pairs)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_tables, "MOST_PLACES", places)
        found = judge([records(pairs[:cut]), records(pairs[cut:])], contradictions)
    assert (found.codes.tolist(), found.other_margin) == verdicts(pairs, contradictions)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 40) | HASHES, max_size=80), st.lists(st.integers(0, 40) | HASHES))
def test_sets_are_those_of_numpy(one, other):
    one, other = np.array(one, np.uint64), np.array(other, np.uint64)
    repeated = {v for v in one.tolist() if (one == v).sum() > 1}
    may = hash_tables.may_repeat(one)
    assert (may.dtype, may.shape) == (np.bool_, one.shape)
    assert repeated <= {*one[may].tolist()}
    assert all((one == v).sum() == (one[may] == v).sum() for v in repeated)
    assert sorted(hash_tables.distinct(one).tolist()) == np.unique(one).tolist()
    assert (hash_tables.may_be_in(one, other) | ~np.isin(one, other)).all()
    assert hash_tables.in_both(one, other).tolist() == np.intersect1d(one, other).tolist()


def test_of_values_that_all_differ_few_are_looked_at_twice():
    values = np.random.default_rng(0).integers(0, 2**64, 100_000, np.uint64)
    assert hash_tables.may_repeat(values).sum() < 15_000
    assert hash_tables.may_be_in(values[:50_000], values[50_000:]).sum() < 5_000


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([1.0, 0.9, 0.7])), max_size=25
    )
)
def test_soft_preferences_are_the_mean_of_all_rows_that_judge_a_pair(votes):
    pairs = [(high, 8 + second, 0, 0) for high, second, _ in votes]
    given = records(pairs)
    given["preference"] = [preference for *_, preference in votes]
    found = judge([given[:9], given[9:]], "soft")
    for high in range(3):
        mine = [n for n, vote in enumerate(votes) if vote[0] == high]
        codes = [int(found.codes[n]) for n in mine]
        if len({votes[n][1] for n in mine}) < 2:
            assert codes == [KEEP, *[DUPLICATE] * (len(mine) - 1)][: len(mine)]
            continue
        for_second = np.mean(
            [p if second else 1 - p for _, second, p in map(votes.__getitem__, mine)]
        )
        if abs(for_second - 0.5) < 1e-9:
            assert codes == [CONTRADICTION] * len(mine)
            continue
        first = next(n for n in mine if votes[n][1] == (for_second > 0.5))
        assert codes == [KEEP if n == first else JOINED for n in mine]
        assert found.preferences[first] == pytest.approx(max(for_second, 1 - for_second), abs=1e-9)
        assert np.isnan(found.preferences[[n for n in mine if n != first]]).all()


def test_a_group_in_both_splits_is_a_defect():
    groups = np.array([5, 2**64 - 1, 7, 5], np.uint64)
    assert check_no_leakage(groups, np.array([False, True, True, False])) == (1, 2)
    with pytest.raises(ArtifactError, match=r"1 prompt groups .* first 0000000000000005"):
        check_no_leakage(groups, np.array([False, True, True, True]))
