"""What a run shows in Prefect, and that a server which is away costs nothing but the show."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, create_autospec

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from prefect.exceptions import TerminationSignal
from prefect.utilities.callables import parameter_schema

from flows import observation
from flows.findings import decision_line
from flows.markdown import LONGEST_TEXT, bullets, flattened, literal, table
from flows.pages import headline, stage_headline, stage_page, state_message, summary_page
from flows.pipeline import ORDER, _closing
from flows.result_lines import result_lines
from flows.reward_pipeline import reward_pipeline
from flows.summary import summary_of
from tasks.artifact import Artifact, Quarantine, Workspace
from tasks.errors import Interrupted, TrainingError
from tasks.registration.metrics_sink import MetricsSink
from tasks.registration.params import RegistrationParams
from tasks.registration.task import SHOWN
from tasks.registration.tracking import client_for, run_for

REPOSITORY = Path(__file__).parents[2]
HOSTILE = "a|b\n| c | <img src=x> **bold** `code` ![i](http://x.example) www.x.example \\| $m$ # h"


def artifact(path: Path, cached: bool = False) -> Artifact:
    ledger = {
        "helpful": {"rows_in": 1200, "added": 0, "rows_out": 1000, "dropped": {"duplicate": 200}},
        "votes": {"rows_in": 10, "added": 5, "rows_out": 15, "dropped": {}},
    }
    record = {
        "report": {"ledger": ledger, "margin": 0.123456, "loss": {"train": [1, 2.5]}},
        "seconds": 3.0,
        "created": "2030-01-01T00:00:00+00:00",
        "git_commit": None,
    }
    reason = "cached: 3 files as recorded" if cached else "PARAMS conversion.seed 0 -> 1"
    return Artifact("conversion", "k" * 16, path, "d" * 64, record, cached, reason, 1.5)


@given(st.text())
@example("👩\u200d👧 می\u200cخواهم")
def test_escaped_text_is_one_line_without_markup_and_reads_as_it_was(text):
    escaped = literal(text, limit=10**6)
    assert re.sub("[\u2060\u200c\u200d]", "", escaped).isprintable()
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<>`*_\[\]&$#!~]", escaped)
    read = re.sub(r"\\([\\`*_{}\[\]<>()#!|&~$])", r"\1", escaped).replace("\u2060", "")
    shown = [
        c if c.isprintable() or c in "\u200c\u200d" else "\ufffd" for c in " ".join(text.split())
    ]
    assert read == "".join(shown)


def test_a_long_text_is_cut_to_its_limit():
    assert literal("é" * LONGEST_TEXT) == "é" * LONGEST_TEXT
    assert literal("é" * LONGEST_TEXT + "é") == "é" * (LONGEST_TEXT - 1) + "…"


@pytest.mark.parametrize(
    "text", ["- a", "+ a", "1. a", "2) a", "---", "1.5 rows", "-0.3", "\u200d"]
)
def test_a_point_of_a_list_shows_what_it_is(text):
    shown = MarkdownIt().render(bullets([text])).strip()
    assert shown == f"<ul>\n<li>{text}</li>\n</ul>"


def test_hostile_text_stays_in_its_cell():
    lines = table(("message", "rows"), [(HOSTILE, 3)], numbers=1).split("\n")
    assert lines[:2] == ["| message | rows |", "| --- | --: |"]
    assert len(lines) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", lines[2])) == 3
    assert "://" not in lines[2]  # an invisible joiner stands within: no link is made of it


def test_a_stage_page_holds_ledger_quarantine_plots_and_numbers(tmp_path):
    quarantine = Quarantine("conversion")
    for row in range(7):
        quarantine.add("helpful", "a|b.jsonl", row, "empty_response", "chosen", HOSTILE, "{}")
    workspace = Workspace(tmp_path, lock_fd=-1)
    with workspace.writing("quarantine.parquet") as path:
        quarantine.write(path)
    with workspace.writing("plots/margins.png") as path:
        path.write_bytes(b"png")
    page = stage_page(artifact(tmp_path))
    assert "**Built**: PARAMS conversion.seed 0 -\\> 1" in page
    assert "| helpful | 1,200 | 0 | 200 | 1,000 |" in page
    assert "| all sources | 1,210 | 5 | 200 | 1,015 |" in page
    assert "| helpful | duplicate | 200 |" in page
    assert "In quarantine: 7 rows, the first:" in page
    assert page.count("a\\|b.jsonl:") == 5
    assert "![margins](data:image/png;base64,cG5n)" in page
    assert "| margin | 0.12346 |" in page
    assert "| commit | none |" in page
    assert "| loss.train | 1, 2.5 |" in page
    assert "**Cached**: 3 files as recorded" in stage_page(artifact(tmp_path, cached=True))
    with workspace.writing("quarantine.parquet") as path:
        Quarantine("conversion").write(path)
    assert "In quarantine" not in stage_page(artifact(tmp_path))


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ({}, ""),
        ({"metrics": {"accuracy": 0.98, "margin": 12.0715}}, "accuracy 0.980, margin 12.072"),
        (
            {"last": {"step": 1590, "loss": 9.85e-5, "accuracy": 1.0}},
            "step 1,590: loss 9.85e-05, accuracy 1 on its last pairs",
        ),
        ({"last": {"step": 2, "eval_loss": 0.1}}, "step 2"),
        ({"outcome": "rejected", "decision": "no"}, "rejected: no"),
    ],
)
def test_what_came_out_of_a_stage_is_told_in_one_line_before_the_reason(tmp_path, report, found):
    of_rows = artifact(tmp_path)
    assert state_message(of_rows) == "1,015 of 1,215 rows (PARAMS conversion.seed 0 -> 1)"
    other = replace(of_rows, record=of_rows.record | {"report": report})
    assert stage_headline(other) == found
    assert state_message(other) == (f"{found} ({other.reason})" if found else other.reason)


def test_the_form_of_a_run_explains_its_parameters_and_offers_every_stage():
    form = parameter_schema(reward_pipeline).model_dump()["properties"]
    assert all(field["description"] for field in form.values())
    one, many = (form[name]["anyOf"][0] for name in ("until", "force"))
    assert one["enum"] == many["items"]["enum"] == [*ORDER]


def test_a_summary_page_tells_of_a_run_that_stopped_early_too():
    facts = {"key": "k", "rows_in": 5, "rows_out": 3, "dropped": {"tie": 2}, "seconds": 0.1}
    early = {
        "stages": {"ingestion": {**facts, "cached": True}},
        "model": None,
        "metrics": {},
        "registered": None,
    }
    assert headline(early) == "1 of 1 stages cached"
    assert "| ingestion | k | Cached | 5 | 3 | 2 | 0.1 |" in summary_page(early)
    nothing = dict.fromkeys(("rows_in", "rows_out"))  # a base model has no rows
    of_model = early | {"model": {**facts, "dropped": {}, "cached": False} | nothing}
    assert "| base model | k | Built |  |  |  | 0.1 |\n| ingestion |" in summary_page(of_model)
    late = early | {"metrics": {"accuracy": 0.9, "margin": 1.25}, "registered": DECIDED}
    assert headline(late) == (
        "1 of 1 stages cached; accuracy 0.900, margin 1.250; registered reward-model version 4 "
        "(challenger); challenger: does not beat version 3"
    )


DECIDED = {
    "name": "reward-model",
    "version": 4,
    "alias": "challenger",
    "outcome": "challenger",
    "decision": "does not beat version 3",
    "bounds": [
        {"name": "min_accuracy", "value": 0.7, "relation": ">=", "bound": 0.5}
        | {"holds": True, "otherwise": "rejected", "note": ""}
    ],
    "run_id": "r",
    "model_uri": "models:/reward-model/4",
    "report_uri": "runs:/r/registration/report.html",
}
BENCHMARKS = {
    "rewardbench": {
        "title": "RewardBench",
        "complete": False,
        "items": 419,
        "overall": {"score": 0.25, "score_interval": [0.2, 0.3], "n": 419},
        "sections": {"Chat Hard": {"score": 0.25, "score_interval": None, "n": 419}},
    },
    "judgebench": {
        "title": "JudgeBench",
        "complete": False,
        "items": 2,
        "overall": None,
        "sections": {},
    },
}


def test_the_summary_tells_the_decision_its_warnings_the_benchmarks_and_where_the_report_lies():
    page = summary_page(
        {
            "stages": {},
            "model": None,
            "metrics": {},
            "warnings": [HOSTILE],
            "benchmarks": BENCHMARKS,
            "report": "/d/report.html",
            "registered": DECIDED,
        }
    )
    assert "**challenger: does not beat version 3**" in page
    assert "| min\\_accuracy | 0.7 | \\>= 0.5 | holds |  |" in page
    assert f"### Warnings\n\n- {literal(HOSTILE)}\n" in page
    overall = "| RewardBench | overall, of what is there | 25.0 % | 20.0 to 30.0 % | 419 |"
    assert overall in page
    assert "| RewardBench | Chat Hard | 25.0 % |  | 419 |" in page
    assert "| JudgeBench | overall, of what is there | none |  | 2 |" in page
    assert "| file | /d/report.html |" in page
    assert "| MLflow | runs:/r/registration/report.html |" in page
    assert page.index("### Decision") < page.index("### Warnings") < page.index("### Report")


def test_the_pages_of_evaluation_and_registration_tell_the_same(tmp_path):
    (tmp_path / "report.html").write_text("page")
    record = {"seconds": 1.0, "created": "now", "git_commit": None}
    evaluated = {"rows": 9, "warnings": ["beware"], "benchmarks": BENCHMARKS}
    for stage, report in (("evaluation", evaluated), ("registration", DECIDED)):
        page = stage_page(Artifact(stage, "k", tmp_path, "d", record | {"report": report}))
        assert f"| file | {literal(tmp_path)}/report.html |" in page
        assert ("- beware" in page, "Chat Hard" in page) == (stage == "evaluation",) * 2
        assert ("### Decision" in page) == (stage == "registration")


def test_the_summary_tells_once_what_evaluation_warns_of_and_registration_repeats(tmp_path):
    record = {"seconds": 1.0, "created": "now", "git_commit": None}
    evaluated = {"rows": 9, "warnings": ["beware"], "metrics": {}}
    decided = dict.fromkeys(SHOWN) | DECIDED | {"rows": 9, "warnings": ["beware"]}
    artifacts = {
        stage: Artifact(stage, "k", tmp_path, "d", record | {"report": report})
        for stage, report in (("evaluation", evaluated), ("registration", decided))
    }
    assert summary_of(artifacts)["warnings"] == ["beware"]
    assert "- beware" in stage_page(artifacts["registration"])


def test_an_alias_that_has_moved_since_is_told_beside_what_was_decision_line(tmp_path):
    moved = DECIDED | {"alias": None}
    told = "when registered: challenger: does not beat version 3; now no alias"
    assert decision_line(moved) == told
    assert decision_line(moved | {"alias": "champion"}).endswith("; now champion")
    assert decision_line(moved | {"outcome": "rejected"}) == "rejected: does not beat version 3"
    summary = {"stages": {}, "model": None, "metrics": {}, "registered": moved}
    assert f"**{told}**" in summary_page(summary)
    assert headline(summary).endswith(f"; registered reward-model version 4; {told}")
    [line] = [line for line in result_lines(summary) if line.startswith("decision")]
    assert line == f"decision: {told.replace('challenger', '[bold]challenger[/]')}"
    record = {"seconds": 1.0, "created": "now", "git_commit": None, "report": DECIDED}
    page = stage_page(Artifact("registration", "k", tmp_path, "d", record))
    assert "| alias when registered | challenger |" in page


def test_nested_facts_become_dotted_names():
    assert list(flattened({"a": {"b": 1000, "c": True}, "d": None})) == [
        ("a.b", "1,000"),
        ("a.c", "True"),
        ("d", "None"),
    ]


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (TrainingError("the loss is NaN"), "FAILED"),
        (RuntimeError("unforeseen"), "FAILED"),
        (Interrupted("stopped"), "KILLED"),
        (KeyboardInterrupt(), "KILLED"),
        (TerminationSignal(signal=signal.SIGTERM), "KILLED"),  # a run cancelled in Prefect
    ],
)
def test_the_mlflow_run_tells_a_stopped_training_from_a_failed_one(tmp_path, end, status):
    sink = create_autospec(MetricsSink, instance=True)
    build = _closing(sink, Mock(side_effect=end))
    with pytest.raises(type(end)):
        build(Workspace(tmp_path, 0))
    sink.close.assert_called_once_with(status)


def test_the_mlflow_run_of_a_training_that_nothing_comes_behind_is_finished(tmp_path):
    params = RegistrationParams()
    sink = MetricsSink(params, tmp_path, "abc")
    _closing(sink, lambda _: sink({"global_step": 10, "loss": 0.5}))(Workspace(tmp_path, 0))
    client = client_for(params, tmp_path)
    assert client.get_run(sink.run_id).info.status == "FINISHED"
    assert client.get_run(sink.run_id).data.metrics == {"training.loss": 0.5}
    assert run_for(client, params, tmp_path, "abc") == sink.run_id  # as registration does
    assert client.get_run(sink.run_id).info.status == "RUNNING"


def test_a_server_that_is_away_costs_the_progress_and_not_the_training(tmp_path):
    code = (
        "import logging\n"
        "from flows.observation import TrainingProgress\n"
        "logging.basicConfig(format='%(message)s')\n"
        "TrainingProgress()({'step': 1, 'max_steps': 2, 'loss': 0.5})\n"
        "print('went on')\n"
    )
    nobody = {"PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **nobody, "PREFECT_CLIENT_MAX_RETRIES": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "went on\n", done.stderr
    assert "the progress could not be shown in Prefect" in done.stderr


def test_a_server_that_is_away_takes_a_tenth_of_the_training_s_time_at_most(monkeypatch):
    seconds, asked = 0.0, []

    def away(*_):
        nonlocal seconds
        asked.append(seconds)
        seconds += 60.0  # the client tries again, and again
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(observation, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(observation, "create_progress_artifact", away)
    progress = observation.TrainingProgress()
    for step in range(1, 361):
        seconds += 10.0
        progress({"step": step, "max_steps": 1000})
    # The first hour: 60 seconds of asking, 600 of rest, and up to 10 until the next record.
    assert len(asked) == 6
    assert all(later - sooner >= 660 for sooner, later in pairwise(asked))
    progress({"step": 1000, "max_steps": 1000})
    assert len(asked) == 7  # the last is shown whenever it comes


def test_an_automation_without_a_server_is_one_sentence(tmp_path):
    nobody = {"PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.automation"],
        cwd=REPOSITORY,
        env={**os.environ, **nobody},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("the server at http://127.0.0.1:9/api was asked for the automation")
    assert "Connection refused; start it with `prefect server start`" in sentence
