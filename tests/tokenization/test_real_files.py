"""Every real file, raw rows to token ids: no row is lost on the way."""

import pytest

from tests.tokenization.real_runs import REAL, check_ledgers, pipeline, run

JOINING = {"unpaired_messages", "stepwise"}
"""Rows that make pairs with one another lie far apart: these files are read whole."""
LARGE = {"scored", "unpaired", "one_row_each"}
"""The same, and too large for every day: only the slow test reads them."""
LIMIT = 60


def test_every_real_file_has_an_example(shared_data):
    from flows.params import load

    shown = {
        file.resolve()
        for path in REAL
        for source in load(path).ingestion.sources
        for file in shared_data.glob(source.path.split("shared/data/")[1])
    }
    there = {
        file.resolve() for file in shared_data.rglob("*") if file.is_file() and file.suffix != ".md"
    }
    assert there == shown


@pytest.mark.parametrize(
    "path", [path for path in REAL if path.stem not in LARGE], ids=lambda path: path.stem
)
def test_no_row_is_lost_on_the_way_to_token_ids(path, shared_data, tmp_path):
    limit = None if path.stem in JOINING else LIMIT
    ledgers = check_ledgers(run(pipeline(path, shared_data, tmp_path, limit)))
    assert ledgers["templating"].rows_out > 0


@pytest.mark.slow
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_no_row_of_the_whole_file_is_lost_on_the_way_to_token_ids(path, shared_data, tmp_path):
    check_ledgers(run(pipeline(path, shared_data, tmp_path, None)))
