"""The pairs behind a tokenization, and which prompts a version was trained on."""

import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store
from tasks.artifact.record import read_artifact
from tasks.errors import RegistrationError
from tasks.registration.lineage import conversion_directory, prompts_of, write_trained_on
from tests.evaluation.pieces import conversations, stored, write_conversion


@pytest.fixture
def made(tmp_path):
    """A store with conversion, templating and tokenization, each made from the one before."""
    store = Store(tmp_path / "data")
    write_conversion(tmp_path / "conversion", conversations(3))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note.txt").write_text("rendered")
    conversion = stored(store, "conversion", tmp_path / "conversion")
    templating = stored(store, "templating", tmp_path / "other", {"conversion": conversion})
    tokenization = stored(store, "tokenization", tmp_path / "other", {"templating": templating})
    return store, conversion, templating, tokenization


def test_the_prompts_of_a_split_are_those_of_conversion_also_in_a_store_that_was_moved(
    made, tmp_path
):
    _, conversion, _, tokenization = made
    file = conversion.path / "pairs" / "00000.parquet"
    rows = pq.read_table(file).to_pylist()
    twice = [row | {"pair_id": f"again {row['pair_id']}", "group": "same"} for row in rows[:2]]
    only = {"split": "eval", "pair_id": "held out", "group": "its own"}
    pq.write_table(pa.Table.from_pylist([*rows, *twice, rows[0] | only]), file)
    moved = shutil.move(tmp_path / "data", tmp_path / "moved" / "data")
    found = read_artifact(moved / tokenization.path.relative_to(tmp_path / "data"))
    assert prompts_of(found, "eval") == {
        **{row["pair_id"]: row["group"] for row in rows if row["split"] == "eval"},
        "held out": "its own",
    }
    trained_on = write_trained_on(found, tmp_path / "lineage")
    groups = sorted({"same", *(row["group"] for row in rows if row["split"] == "train")})
    assert pq.read_table(trained_on).to_pydict() == {"group": groups}


@pytest.mark.parametrize("stage", ["templating", "conversion"])
def test_pairs_that_no_record_leads_to_any_more_are_told_with_the_record(made, tmp_path, stage):
    store, _, templating, tokenization = made
    if stage == "conversion":  # the directory between was collected as garbage
        shutil.rmtree(templating.path)
        record = templating.path / "record.json"
    else:
        tokenization = stored(store, "tokenization", tmp_path / "other")
        record = tokenization.path / "record.json"
    says = f"{record} names no {stage}, whose pairs are needed to compare with the champion; run"
    with pytest.raises(RegistrationError, match=re.escape(says)):
        conversion_directory(tokenization)
