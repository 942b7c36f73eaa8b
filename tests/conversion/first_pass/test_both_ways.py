"""Rows by columns and rows one by one: of whatever shape they are, both ways come to the same."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.first_pass.lanes import Lanes
from tasks.conversion.first_pass.row_batches import ROW_COLUMNS
from tasks.conversion.first_pass.shard_pairs import ShardPairs
from tasks.conversion.first_pass.usual_pairs import PIECE_ROWS
from tasks.conversion.layouts import LAYOUTS
from tasks.conversion.options import CellOptions, Options
from tasks.conversion.plan import Plan
from tasks.conversion.preference.pair import TIE, Pair
from tests.at_length import at_length
from tests.conversion.first_pass.test_any_row import NESTED, ROW
from tests.conversion.row_shapes import SAID, SOUND, SOURCES, shaped


@pytest.mark.parametrize("seed", [0, 1, 2, *at_length(*range(3, 8))])
def test_rows_of_every_shape_come_to_the_same_both_ways(seed):
    draw = random.Random(seed)
    split_by = ("prompt", "opening")[seed % 2]
    for name, (layout, mapping, options) in SOURCES.items():
        given = (LAYOUTS[layout].options or Options)(**options)
        rows = [shaped(draw, layout) for _ in range(300)]
        short, long = _both_ways(Plan({name: (layout, mapping, given)}, seed, 0.5, split_by), rows)
        assert short == long
        assert len(short[0]) > 60


def test_whatever_a_pair_says_besides_comes_to_the_same_both_ways():
    """Read by no layout, since none says all of it of one pair."""
    draw = random.Random(0)

    def read(row):
        return [Pair(f"Which {row['n']}?", "this", "that", **row["says"])]

    says = {
        "margin": [None, 0.0, 2.5],
        "weight": [1.0, 0.5],
        "preference": [1.0, 0.8, TIE, 0.2],
        "comparison": [None, "c"],
        "chosen_first": [None, True, False],
        "tools": [None, None, "[]"],
    }
    rows = [{"n": n, "says": {k: draw.choice(v) for k, v in says.items()}} for n in range(400)]
    plan = Plan({"s": ("columns", {}, CellOptions())}, 0, 0.5)
    short, long = _both_ways(plan, rows, read)
    assert short == long
    assert len(short[0]) == 400


@pytest.mark.parametrize(("source", "row"), SOUND, ids=lambda value: str(value)[:60])
def test_sound_rows_of_every_shape_are_usual(source, row):
    layout, mapping, options = SOURCES[source]
    given = (LAYOUTS[layout].options or Options)(**options)
    taker = Lanes(ShardPairs(Plan({source: (layout, mapping, given)}, 0, 0.5)))
    found = taker._usual(source, _batch(source, [row, row]))
    assert found is not None
    assert found.places == [0, 1]


def test_of_many_sources_those_that_have_rows_here_are_made_ready():
    """Else a shard costs what there are sources, and so many sources the square of it."""
    layout = ("columns", {}, CellOptions())
    shard = ShardPairs(Plan({f"s{n}": layout for n in range(100)}, 0, 0.5))
    taker = Lanes(shard)
    assert taker.take(_batch("s7", [SAID] * 3)).num_rows == 3
    assert list(shard.readers) == list(taker._parts) == ["s7"]


@pytest.mark.parametrize(("every", "asked"), [(4, True), (20, False)])
def test_a_source_of_other_rows_is_not_asked_for_usual_ones_again(every, asked):
    rows = [SAID if n % every == 0 else {"chosen": [], "rejected": []} for n in range(300)]
    shard = ShardPairs(Plan({"s": ("columns", {}, CellOptions())}, 0, 0.5))
    taker = Lanes(shard)
    for start in range(0, 300, 100):  # in runs that are too short to tell it alone
        assert taker.take(_batch("s", rows[start : start + 100])).num_rows == 100 // every
    assert (taker._parts["s"] is not None) == asked


def test_rows_behind_those_that_tell_it_are_not_asked_either():
    given = []
    shard = ShardPairs(Plan({"s": ("columns", {}, CellOptions())}, 0, 0.5))
    read = shard.readers["s"]
    shard.readers["s"] = lambda row: given.append(row) or read(row)
    rows = [{"chosen": [], "rejected": []}] * (PIECE_ROWS + 90)
    pairs = Lanes(shard).take(_batch("s", rows))
    assert (pairs.num_rows, len(shard.quarantine.rows)) == (0, len(rows))
    assert len(given) == 2 * PIECE_ROWS + 90


JUNK = st.builds(lambda row, nested: row | nested, ROW, NESTED) | st.just([1]) | st.just("chosen")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(JUNK, min_size=1, max_size=8),
    st.sampled_from(sorted(name for name in LAYOUTS if not LAYOUTS[name].joins)),
)
def test_rows_of_any_values_come_to_the_same_both_ways(rows, layout):
    options = (LAYOUTS[layout].options or Options)()
    short, long = _both_ways(Plan({"s": (layout, {}, options)}, 0, 0.5), rows)
    assert short == long


def _both_ways(plan, rows, read=None):
    batch = _batch(*plan.layouts, rows)
    return [_converted(plan, batch, read, quick=quick) for quick in (True, False)]


def _batch(source, rows):
    numbers = [*range(1, len(rows) + 1)]
    raws = [json.dumps(row, ensure_ascii=n % 2 == 0) for n, row in zip(numbers, rows, strict=True)]
    columns = [source] * len(rows), ["f"] * len(rows), numbers, raws
    return pa.RecordBatch.from_pydict(dict(zip(ROW_COLUMNS, columns, strict=True)))


def _converted(plan, rows, read, *, quick):
    shard = ShardPairs(plan)
    if read:
        shard.readers = dict.fromkeys(plan.layouts, read)
    taker = Lanes(shard)
    if not quick:
        taker._parts = dict.fromkeys(plan.layouts)
    pairs = [*taker.take(rows).to_pylist(), *shard.batch().to_pylist()]
    (source,) = plan.layouts
    return (
        pairs,
        np.concatenate(shard.key_arrays).tolist(),
        np.concatenate(shard.hashes).tolist(),
        shard.ledger.to_json(),
        shard.quarantine.rows,
        dict(sorted(shard.notes.get(source, {}).items())),
    )
