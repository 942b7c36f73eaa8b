"""`inspect`: the figures of known rows, and text that can do nothing to a terminal."""

import json
from dataclasses import replace

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from flows.__main__ import app
from flows.inspection import Inspection, inspect, turns
from flows.inspection_print import _lines, print_inspection, visible
from flows.params import load
from flows.pipeline import Pipeline


def messages(*texts):
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


ROWS = [
    {"prompt": "What?", "chosen": " longer answer", "rejected": " short", "margin": 0.5},
    {"prompt": "What?", "chosen": " longer answer", "rejected": " short", "margin": 0.5},
    {"prompt": "Who?", "chosen": " me", "rejected": " somebody"},
    {"prompt": "Who?", "chosen": " somebody", "rejected": " me"},
    {"chosen": messages("Hi [bold]x[/]", "\x1b[31mred\u202e"), "rejected": messages("Hi", "")},
    {
        "prompt": messages("Hi [bold]x[/] :smile:"),
        "chosen": [{"role": "assistant", "content": "\x1b[31mfine\u202e"}],
        "rejected": [{"role": "assistant", "content": "[/red] no" + "!" * 2000}],
    },
]


@pytest.fixture
def pipeline(tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    params = tmp_path / "params.yaml"
    source = {"name": "given", "path": str(data), "layout": "trl"}
    value = {"model": {"path": "nowhere"}, "ingestion": {"sources": [source]}}
    conversion = {"eval_fraction": 0.0, "max_bad_fraction": 0.5}
    params.write_text(yaml.safe_dump(value | {"conversion": conversion}))
    return Pipeline(load(params), tmp_path)


def test_a_turn_is_shown_with_its_reasoning_and_its_calls():
    turn = {"role": "assistant", "content": "4", "tool_calls": [], "reasoning": "2 + 2"}
    calls = [{"function": {"name": "f", "arguments": {"city": "東京"}}}]
    assert [*turns([turn, {"role": "assistant", "content": None, "tool_calls": calls}])] == [
        ("assistant", "[reasoning] 2 + 2\n4"),
        ("assistant", '[{"function": {"name": "f", "arguments": {"city": "東京"}}}]'),
    ]


def test_counts_and_lengths_are_those_of_the_rows(pipeline):
    found = inspect(pipeline, pairs=9)
    given = found.ledgers["conversion"]
    assert sum(found.report["duplicates"].values()) == 1
    assert found.report["contradictions"] == 2
    assert found.report["pairs"] == len(found.pairs) == 2
    # Longer wins in the first pair and loses in the last.
    assert found.report["length_baseline"]["all"] == 0.5
    shortest, longest = (tuple(v[i] for v in found.lengths.values()) for i in (0, -1))
    assert shortest == (5, 10, 6)  # "What?", "\x1b[31mfine\u202e", " short"
    assert longest == (21, 14, 2009)
    assert "empty_response" in json.dumps(given)
    again = inspect(pipeline, pairs=1)
    assert (again.path, len(again.pairs)) == (found.path, 1)
    assert json.loads(json.dumps(found.to_json()))["report"]["pairs"] == 2


def test_the_print_shows_every_figure_and_no_row_can_write_to_the_terminal(pipeline, capsys):
    found = inspect(pipeline, pairs=2)
    print_inspection(found, width=160)
    shown = capsys.readouterr().out
    short = "training split (in prompts of under 64 bytes this is not to be seen);"
    assert short not in shown  # nothing is held out
    assert any(short in line for line in _lines({**found.report, "eval": 1}, "prompt"))
    near = {**found.report, "near_duplicates": {"looked_at": 9, "near_duplicates": 2}}
    advice = "(conversion.split_by: opening holds out together what begins alike)"
    advised = {s: any(advice in line for line in _lines(near, s)) for s in ("prompt", "opening")}
    assert advised == {"prompt": True, "opening": False}  # not what is set already
    assert found.to_json()["split_by"] == "prompt"
    for expected in ("empty_response 1", "contradictions: 2", "median", "margin 0.5"):
        assert expected in shown
    (lengths,) = (line for line in shown.splitlines() if line.startswith("│ rejected"))
    assert (lengths.split()[3], lengths.split()[-2]) == ("6", "2,009")
    assert "preferring the answer of more characters is right for 50.0% of the pairs" in shown
    assert "Hi [bold]x[/] :smile:" in shown
    assert "[assistant] \\x1b[31mfine\\u202e" in shown
    assert "[/red]" in shown
    assert "(509 characters more)" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_chosen_is_green_rejected_red_and_the_prompt_dim(pipeline):
    from flows.inspection_print import _pair

    console = Console(color_system="standard", force_terminal=True, width=100)
    with console.capture() as captured:
        console.print(_pair(inspect(pipeline, pairs=1).pairs[0], "1 of 1"))
    coloured = captured.get()
    for code, text in (("32", " longer answer"), ("31", " short"), ("2", "What?")):
        assert f"\x1b[{code}m{text}" in coloured


def test_what_is_invisible_is_written_out():
    assert visible("a\tb\nc") == "a\\tb\nc"
    assert visible("\x07\x9b\u200b\ue000\ud800") == "\\x07\\x9b\\u200b\\ue000\\ud800"
    assert visible("naïve 🦩 日本") == "naïve 🦩 日本"


def test_a_failing_conversion_says_so_and_no_pairs_are_asked_for_nothing(pipeline):
    strict = pipeline.params.conversion.model_copy(update={"max_bad_fraction": 0.0})
    refused = Pipeline(pipeline.params.model_copy(update={"conversion": strict}), pipeline.root)
    given, found = inspect(pipeline, pairs=9), inspect(refused, pairs=9)
    assert (given.failure, "empty_response (1x)" in found.failure) == (None, True)
    assert found.path != given.path
    told = replace(found, path=given.path, quarantines=given.quarantines, failure=None)
    assert told == given  # but for where, all figures of the rows that can be used
    (row,) = found.unusable["conversion"]
    assert (row["reason"], row["row"], json.loads(row["raw"])) == ("empty_response", 5, ROWS[4])
    assert isinstance(inspect(pipeline, pairs=0), Inspection)
    assert inspect(pipeline, pairs=0).pairs == ()


def test_the_command_prints_one_object_and_imports_no_torch(pipeline, tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    code = (
        "import sys; from flows.__main__ import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: assert not {'torch', 'transformers', 'prefect'} & set(sys.modules)"
    )
    params = [str(tmp_path / "params.yaml"), "--root", str(pipeline.root)]
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", *params, "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["report"]["contradictions"] == 2


@pytest.mark.parametrize(
    ("given", "shown", "hidden"),
    [
        ("conversion.max_bad_fraction=0", ["median", "a run fails (see the end)"], []),
        ("conversion.min_rows=5", ["median", "pairs: 2 (2 train, 0 eval)"], []),
        ("conversion.eval_fraction=0.001", ["median", "pairs: 2 (2 train, 0 eval)"], []),
        ("ingestion.sources.0.layout=hh_rlhf", ["bad_json 1"], ["median", "all pairs"]),
    ],
)
def test_what_a_run_fails_for_is_told_at_the_end_behind_all_that_is_known(
    pipeline, tmp_path, given, shown, hidden
):
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"chosen": \x1b[31m oops\n')
    words = [str(tmp_path / "params.yaml"), given, "--root", str(pipeline.root)]
    lenient = [] if "max_bad" in given else ["conversion.max_bad_fraction=1"]
    done = CliRunner().invoke(app, ["inspect", *words, *lenient])
    assert done.exit_code == 1
    for text in (*shown, "bad_json (1x), first ", "rows.jsonl row 7", '{"chosen": \\x1b[31m oops'):
        assert text in done.stdout.replace("\n", " ")
    assert not any(text in done.stdout for text in hidden)
    assert done.stderr.rpartition("\n")[0].rpartition("\n")[2].startswith("DataError: ")
    told = CliRunner().invoke(app, ["inspect", *words, *lenient, "--json"])
    assert (told.exit_code, json.loads(told.stdout)["failure"] in done.stderr) == (1, True)
    planned = CliRunner().invoke(app, ["plan", *words, *lenient, "model={scratch: {}}", "--json"])
    reasons = {line["stage"]: line["reason"] for line in json.loads(planned.stdout)}
    told_again = reasons["conversion"].partition("failed last time: ")[2].partition("; resumes")[0]
    assert told_again.startswith("DataError: ")
    assert done.stderr.splitlines()[-1].startswith(told_again.partition("…")[0])


def test_params_that_cannot_be_used_are_refused_before_any_row_is_read(pipeline, tmp_path):
    given = ["inspect", str(tmp_path / "params.yaml"), "ingestion.sources.0.columns={prompts: q}"]
    done = CliRunner().invoke(app, [*given, "--root", str(pipeline.root)])
    assert (done.exit_code, "prompts is unknown to layout" in done.stderr) == (1, True)
    assert not (pipeline.root / "data").exists()
