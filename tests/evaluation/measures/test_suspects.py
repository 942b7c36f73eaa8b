"""Which labels are held against the model, and that the table can go through a spreadsheet."""

import csv

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.evaluation.measures.suspects import (
    contradiction,
    excerpt,
    harmless,
    suspect_figures,
    suspect_table,
    write_csv,
)
from tests.evaluation.pieces import made_scores, write_conversion


def canonical(i: int, chosen: str = "yes", rejected: str = "no") -> dict:
    sides = {
        name: [{"role": "assistant", "content": text}]
        for name, text in (("chosen", chosen), ("rejected", rejected))
    }
    prompt = [{"role": "user", "content": f"Is it {i}?"}]
    return {"pair_id": f"{i:04d}", "source": "a", "prompt": prompt, **sides}


def test_pairs_are_ranked_by_how_far_label_and_model_are_apart(tmp_path):
    write_conversion(tmp_path, [canonical(i) for i in range(6)])
    made = made_scores(
        [1.0, -3.0, -1.0, -5.0, -9.0, -3.0], preferences=[1.0, 1.0, 1.0, 0.6, 0.5, 1.0]
    )
    # 1 - sigmoid(-3) = .953 twice, then 1 - sigmoid(-1) = .731, then .6 - sigmoid(-5) = .593
    found = suspect_table(made, tmp_path, 100)
    assert found["pair_id"].to_pylist() == ["0001", "0005", "0002", "0003"]
    assert found["rank"].to_pylist() == [1, 2, 3, 4]
    assert found["confidence"][0].as_py() == pytest.approx(1 / (1 + np.exp(-3)))
    assert (found["file"][1].as_py(), found["row"][1].as_py()) == ("sky.jsonl", 6)
    assert set(found["action"].to_pylist()) == {""}
    shuffled = made.take(np.array([3, 1, 0, 5, 4, 2]))
    assert suspect_table(shuffled, tmp_path, 100).equals(found)
    assert suspect_table(made, tmp_path, 2).equals(found.slice(0, 2))
    far = suspect_table(made_scores([-800.0, -900.0, 1.0, -900.0]), tmp_path, 9)
    assert far["pair_id"].to_pylist() == ["0001", "0003", "0000"]  # all are 1 apart
    assert suspect_table(made_scores([1.0]), tmp_path, 9).equals(found.slice(0, 0))
    # a model that agrees contradicts nothing, however unsure it is; nor does a tie
    assert contradiction(made_scores([0.5, 0.0, -0.5])).tolist() == [
        *(0, 0, pytest.approx(1 / (1 + np.exp(-0.5))))
    ]
    figures = suspect_figures(made)
    assert (figures["contradicted"], figures["confident"]) == (4, 3)
    assert contradiction(made)[4] == 0
    two = made_scores([-3.0, -3.0, 1.0, -3.0], sources=list("abbb"))
    assert suspect_figures(two)["confident_by_source"] == {"a": 1, "b": 2}


def test_text_that_a_spreadsheet_would_run_is_made_harmless_and_ids_stay(tmp_path):
    evil = '=HYPERLINK("http://x","y")'
    write_conversion(tmp_path, [canonical(0, evil, "+1\n=2"), canonical(1, '@a, "b"', "-c")])
    table = suspect_table(made_scores([-1.0, -2.0]), tmp_path, 9)
    assert table["chosen"].to_pylist() == ['@a, "b"', evil]
    write_csv(table, tmp_path / "suspects.csv")
    with (tmp_path / "suspects.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["pair_id"] for row in rows] == ["0001", "0000"]
    assert [row["chosen"] for row in rows] == ['\'@a, "b"', f"'{evil}"]
    assert [row["rejected"] for row in rows] == ["'-c", "'+1 =2"]
    assert all("Is it" in row["prompt"][:-1] and row["prompt"][0] != "'" for row in rows)
    assert [float(row["margin"]) for row in rows] == [-2.0, -1.0]


@given(st.text(max_size=900))
@example("the beginning of " * 20 + "and the end of it" * 20)
def test_an_excerpt_is_one_short_line_with_both_ends_of_the_text(text):
    line = excerpt(text)
    assert len(line) <= 400
    assert "\n" not in line
    words = " ".join(text.split())
    assert line == words or (words[:190] == line[:190] and words[-190:] == line[-190:])
    assert not harmless(line).startswith(("=", "+", "-", "@"))
