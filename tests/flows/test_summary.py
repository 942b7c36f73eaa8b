"""What a terminal shows of a plan, and of a run that has finished."""

import pytest

from flows.plan import Planned
from flows.summary import print_plan, print_summary, times_line


def test_the_plan_shows_reasons_as_they_are(capsys):
    reason = "PARAMS ingestion.sources.votes.columns.margin [gap] -> [/gap]"
    waits = Planned("templating", "DEPENDS", None, ("on conversion",))
    print_plan([Planned("conversion", "RUN", "ab12", (reason,)), waits])
    lines = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["conversion", "RUN", "ab12", reason],
        ["templating", "DEPENDS", "", "on conversion"],
    ]


def test_the_summary_has_a_line_for_each_stage_and_tells_what_it_dropped(capsys):
    stage = {"key": "k1", "cached": True, "rows_in": 1200, "rows_out": 1000, "seconds": 0.06}
    model = {"key": "m2", "cached": False, "seconds": 2.5, "dropped": {}}
    model |= {"rows_in": None, "rows_out": None}
    stages = {"ingestion": stage | {"dropped": {"tie": 190, "empty": 10}}}
    print_summary({"stages": stages, "model": model, "metrics": {}, "registered": None})
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[-3:-1] == [
        ["base", "model", "m2", "built", "2.5"],
        ["ingestion", "k1", "cached", "1,200", "1,000", "200", "0.1"],
    ]
    assert " ".join(lines[-1]) == "ingestion dropped tie 190, empty 10"


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ({"began": "T1"}, "the last finished run, of T1"),
        (
            {"began": None, "params_file": "a.yaml"},
            "the last finished run, of a time unknown (a.yaml)",
        ),
        (
            {"began": "T1", "unfinished_since": ["T2", "T3"]},
            "the last finished run, of T1; 2 later ones are going or did not come to an end, the "
            "last of T3",
        ),
    ],
)
def test_which_run_is_shown_is_told_with_its_file_and_the_later_ones(summary, told):
    assert times_line({"params_file": None, "unfinished_since": []} | summary) == told


def test_a_long_line_of_the_summary_is_not_cut_in_two(capsys):
    report = f"/data/{'long/' * 60}report.html"
    summary = {"stages": {}, "model": None, "metrics": {}, "registered": None, "report": report}
    print_summary(summary)
    assert f"report: {report}" in capsys.readouterr().out.splitlines()
