"""The pairs to read: the surest verdicts on both sides and the closest, each pair once."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.evaluation.report.samples import CHARACTERS, sample_table, shortened
from tests.evaluation.pieces import made_scores

CALL = {"type": "function", "function": {"name": "greet", "arguments": {}}}
TURNS = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": [{"type": "text", "text": "Hello!"}]},
    {"role": "user", "content": "And you?"},
]


SYSTEM = [{"role": "system", "content": "Greet me."}]


def write_pairs(directory: Path, count: int) -> None:
    """The pairs of conversion behind `made_scores`; the first has a prompt of several turns, the
    fourth one of a system's turn alone."""
    prompts = {0: TURNS, 3: SYSTEM}
    rows = [
        {"pair_id": f"{i:04d}", "source": "a", "file": "f", "row": i, "split": "eval"}
        | {"format": "conversational", "prompt": json.dumps(prompts.get(i, TURNS[:1]))}
        | {"chosen": json.dumps([{"role": "assistant", "content": f"yes {i}"}])}
        | {"rejected": json.dumps([{"role": "assistant", "content": f"no {i}"}])}
        for i in range(count)
    ]
    (directory / "pairs").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), directory / "pairs" / "0.parquet")


def test_each_kind_holds_its_pairs_and_no_pair_stands_twice(tmp_path):
    margins = [3.0, -0.1, 0.2, -2.0, 1.0, 0.0, 5.0]
    write_pairs(tmp_path, len(margins))
    found = sample_table(made_scores(margins), tmp_path).to_pylist()
    kinds = [(row["kind"], row["row"]) for row in found]
    assert kinds == [
        *(("right", 6), ("right", 0), ("right", 4)),
        *(("wrong", 3), ("wrong", 1)),
        *(("close", 5), ("close", 2)),
    ]
    assert found[1]["prompt"] == "[user] Hi\n\n[assistant] \n\n[tool] Hello!\n\n[user] And you?"
    assert found[3]["prompt"] == "[system] Greet me."
    assert (found[0]["prompt"], found[0]["chosen"], found[0]["rejected"]) == ("Hi", "yes 6", "no 6")


def test_a_tie_is_no_verdict_and_of_equal_margins_the_first_pairs_are_shown(tmp_path):
    margins = [1.0, 0.0, *[-1.0] * 5, 9.0]
    write_pairs(tmp_path, len(margins))
    made = made_scores(margins, preferences=[1.0] * 7 + [0.5])
    found = sample_table(made, tmp_path)
    kinds = [(row["kind"], row["rank"], row["row"]) for row in found.to_pylist()]
    assert kinds == [
        ("right", 1, 0),  # the last pair has no right side
        *(("wrong", 1, 2), ("wrong", 2, 3), ("wrong", 3, 4)),
        *(("close", 1, 1), ("close", 2, 5), ("close", 3, 6)),
    ]
    shuffled = made.take(np.array([6, 3, 0, 7, 5, 1, 4, 2]))
    assert sample_table(shuffled, tmp_path).equals(found)


def test_a_long_text_keeps_its_ends_and_says_how_much_is_left_out():
    text = "a" * CHARACTERS + "b" * 500
    short = shortened(text)
    assert short.startswith("aaa")
    assert short.endswith("bbb")
    assert "[... 500 characters ...]" in short
    assert shortened("a\nb") == "a\nb"
