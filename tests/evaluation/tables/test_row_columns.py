"""Held-out pairs by what the columns of their own rows say: found by file and row, told apart."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store
from tasks.errors import DataError
from tasks.evaluation import EvaluationParams, step
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics, flat, metrics_of
from tasks.evaluation.measures.slices import MOST_LABELS, slices_of_labels
from tasks.evaluation.tables.row_columns import label_of
from tasks.evaluation.tables.scores import numbered, read_scores
from tests.evaluation.pieces import conversations, everything, made_scores, stored

KINDS = ("math", "code", None)


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model_directory):
    """The artifacts behind an evaluation, those of ingestion last: rows of the other file and of
    another source under the same numbers stand among them."""
    root = tmp_path_factory.mktemp("rows")
    store = Store(root / "data")
    pairs = conversations(20)
    upstream = everything(store, root / "sources", tiny_model_directory, 1, pairs)
    rows = [
        {"source": pair["source"], "file": "sky.jsonl", "row": i + 1, "raw": _raw(i)}
        for i, pair in enumerate(pairs)
    ]
    wrong = json.dumps({"category": "wrong"})
    rows += [row | {"file": "other.jsonl", "raw": wrong} for row in rows]
    rows += [row | {"source": "third", "raw": wrong} for row in rows[:20]]
    (root / "ingested" / "rows").mkdir(parents=True)
    for n, part in enumerate((rows[:9], rows[9:])):
        shard = root / "ingested" / "rows" / f"{n:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(part), shard)
    return store, *upstream, stored(store, "ingestion", root / "ingested")


def _raw(i: int) -> str:
    who = {"who": {"name": "ann" if i % 2 else "bob"}} if i % 5 else {}
    return json.dumps({"category": KINDS[i % 3], "meta": who, "score": float("nan")})


def test_every_value_has_the_figures_of_its_pairs_alone(made):
    store, *artifacts = made
    params = EvaluationParams(slice_by=("category", "meta.who.name"))
    found = store.obtain(step(params, *artifacts))
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    scores = read_scores(found.path / "scores.parquet")
    texts = pq.read_table(found.path / "texts.parquet")
    scores = replace(scores, group=numbered(texts["group"].to_pylist()))
    table = pq.read_table(found.path / "row_columns.parquet")
    assert table["pair_id"].equals(texts["pair_id"])
    numbers = [row - 1 for row in texts["row"].to_pylist()]
    kinds = [KINDS[n % 3] or "(none)" for n in numbers]
    names = ["(none)" if n % 5 == 0 else "ann" if n % 2 else "bob" for n in numbers]
    assert table["row.category"].to_pylist() == kinds
    assert table["row.meta.who.name"].to_pylist() == names
    assert list(metrics["columns"]) == ["category", "meta.who.name"]
    for column, labels in (("category", kinds), ("meta.who.name", names)):
        figures = metrics["columns"][column]
        assert [each["slice"] for each in figures] == sorted(set(labels))
        for each in figures:
            alone = scores.take(np.asarray([label == each["slice"] for label in labels]))
            expected = {"slice": each["slice"], **metrics_of(alone.take(alone.order()))}
            assert json.loads(json.dumps(expected)) == each
    told = [each["message"] for each in metrics["warnings"] if each["figure"] == "columns.category"]
    wrong = [
        each["slice"]
        for each in metrics["columns"]["category"]
        if each["accuracy_ties_half_interval"][1] < 0.5
    ]
    assert wrong == ["code"]
    (message,) = told
    assert "rows have category = code the model gets 0% right (95% 0% to 35%), worse" in message
    page = (found.path / "report.html").read_text("utf-8")
    assert "By category" in page
    assert "By meta.who.name" in page
    assert not any("category" in name for name in flat(metrics))


def test_another_list_is_another_evaluation_and_none_reads_no_rows(made):
    _, training, tokenization, conversion, ingestion = made
    behind = (training, tokenization, conversion)
    asked = step(EvaluationParams(slice_by=("category",)), *behind, ingestion)
    assert asked.inputs["ingestion"] is ingestion
    assert asked.key != step(EvaluationParams(slice_by=("meta",)), *behind, ingestion).key
    plain = EvaluationParams()
    assert step(plain, *behind, ingestion).key == step(plain, *behind).key


def test_a_column_that_no_row_has_is_told_with_those_that_they_have(made):
    store, *artifacts = made
    says = (
        r"evaluation.slice_by: no row of a held-out pair has 'catgory'; found the columns "
        r"category, meta, score; did you mean 'category'\?"
    )
    with pytest.raises(DataError, match=says):
        store.obtain(step(EvaluationParams(slice_by=("meta", "catgory")), *artifacts))


def test_labels_are_one_short_line():
    given = ["a\n b", " ", None, True, 2.5, {"a": ["ü"]}, "x" * 60]
    labels = ["a b", "(empty)", "(none)", "true", "2.5", '{"a": ["ü"]}', "x" * 60]
    assert [label_of(value) for value in given] == labels


def test_long_values_that_begin_alike_have_labels_of_their_own():
    system = "You are a helpful assistant, asked by somebody who wants "
    values = [f"{system}to {aim} the text that follows." for aim in ("shorten", "translate")]
    labels = [label_of(value) for value in values]
    assert [len(label) for label in labels] == [60, 60]
    assert all(label.startswith(f"{system[:50]}… ") for label in labels)
    slices = slices_of_labels(np.asarray([*labels, label_of(values[0].replace(" ", "\n"))]))
    assert {label: rows.tolist() for label, rows in slices} == {
        labels[0]: [True, False, True],
        labels[1]: [False, True, False],
    }


def test_numbers_are_in_their_order_and_rare_labels_together():
    few = np.asarray(["10", "9", "b", "a", "9"])
    assert [(label, rows.tolist()) for label, rows in slices_of_labels(few)] == [
        ("9", [False, True, False, False, True]),
        ("10", [True, False, False, False, False]),
        ("a", [False, False, False, True, False]),
        ("b", [False, False, True, False, False]),
    ]
    many = np.asarray([f"{n:02d}" for n in range(MOST_LABELS + 1)] * 2 + ["07", "30"])
    slices = dict(slices_of_labels(many))
    assert len(slices) == MOST_LABELS
    assert slices["(2 other values)"].sum() == 4
    assert "28" not in slices
    assert slices["07"].sum() == slices["30"].sum() == 3
    exactly = slices_of_labels(many[:MOST_LABELS])
    assert [label for label, _ in exactly] == many[:MOST_LABELS].tolist()


def test_numbers_that_hardly_repeat_are_cut_into_fifths():
    numbers = np.arange(99, -1, -1) / 4
    labels = np.asarray([label_of(float(number)) for number in numbers] + ["(none)"] * 3)
    slices = slices_of_labels(labels)
    assert [(label, int(rows.sum())) for label, rows in slices] == [
        ("<5", 20),
        ("5 to <10", 20),
        ("10 to <14.75", 19),
        ("14.75 to <19.75", 20),
        (">=19.75", 21),
        ("(none)", 3),
    ]
    assert (np.sum([rows for _, rows in slices], axis=0) == 1).all()


def test_texts_that_hardly_repeat_are_one_slice_which_is_told():
    labels = np.asarray([f"title {n}" for n in range(60)] + ["news"] * 3 + ["(none)"] * 2)
    slices = [(label, int(rows.sum())) for label, rows in slices_of_labels(labels)]
    assert slices == [("(none)", 2), ("news", 3), ("(60 other values)", 60)]
    made = made_scores([1.0] * 64 + [2.0], preferences=[1.0] * 64 + [0.5])
    how = Resampling(100)
    [told] = [
        warning["message"]
        for warning in all_metrics(made, how=how, columns={"title": labels})["warnings"]
        if warning["figure"] == "columns.title"
    ]
    assert told.startswith("60 of 65 pairs have a value of title that hardly repeats, and are in")
    few = all_metrics(made, how=how, columns={"title": np.repeat(["a", "b"], [64, 1])})
    assert not any(warning["figure"] == "columns.title" for warning in few["warnings"])
