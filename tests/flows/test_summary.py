"""What a terminal shows of a plan, and of a run that has finished."""

import pytest

from flows.plan import Planned
from flows.result_lines import result_lines
from flows.summary import print_plan, print_summary, times_line


def test_the_plan_shows_reasons_as_they_are(capsys):
    reason = "PARAMS ingestion.sources.votes.columns.margin [gap] -> [/gap] :100:"
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
    summary = {"stages": stages, "model": model, "metrics": {}, "registered": None}
    print_summary(summary | {"warnings": ["time 10:100:20 is worse"]})
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert " ".join(lines.pop()) == "warning: time 10:100:20 is worse"  # no emoji of its name
    assert lines[-3:-1] == [
        ["base", "model", "m2", "built", "2.5"],
        ["ingestion", "k1", "cached", "1,200", "1,000", "200", "0.1"],
    ]
    assert " ".join(lines[-1]) == "ingestion dropped tie 190, empty 10"


METRICS = {
    "accuracy": 0.98,
    "accuracy_interval": (0.96, 0.995),
    "accuracy_ties_half": 0.985,
    "margin": 12.5,
    "loss": 0.0625,
    "pairs": 201,
    "length_baseline": 0.505,
}
REGISTERED = {
    "name": "reward-model",
    "version": 4,
    "alias": None,
    "outcome": "rejected",
    "decision": "[b] fails",
    "bounds": [
        {"name": "accuracy", "value": 0.65432149, "relation": ">=", "bound": 0.7, "note": "[c]"}
        | {"holds": False},
        {"name": "pairs", "value": 9, "relation": ">=", "bound": 20, "note": "", "holds": False},
        {"name": "margin", "value": 2.0, "relation": ">=", "bound": 1, "note": "", "holds": True},
    ],
}


def test_what_came_out_is_told_in_lines_below_the_table():
    facts = {"metrics": METRICS, "registered": REGISTERED, "warnings": ["[w] beware"]}
    assert result_lines(facts | {"report": "/d/[1]/report.html"}) == [
        "evaluation: accuracy [bold]0.980[/] (95% 0.960 to 0.995), ties as 1/2 0.985, margin "
        "12.500, loss 0.062, on 201 pairs",
        "baseline: preferring the answer of more tokens gives 0.505",
        "registered: [bold]reward-model[/] version 4 (no alias): models:/reward-model/4",
        "decision: [bold]rejected[/]: \\[b] fails",
        "  fails: accuracy 0.6543, bound >= 0.7 \\[c]",
        "  fails: pairs 9, bound >= 20",
        "warning: \\[w] beware",
        "report: /d/[1]/report.html",
    ]
    margins = METRICS | {"undecided": 1200, "loss_without_margins": 0.125}
    champion = {**REGISTERED, "alias": "champion", "outcome": "champion", "bounds": []}
    lines = result_lines({"metrics": margins, "registered": champion})
    assert lines[0].endswith(
        "loss 0.062 (0.125 without the data's margins), on 201 pairs and 1,200 without a better "
        "side"
    )
    assert "version 4 (champion)" in lines[2]
    assert result_lines({"metrics": {}, "registered": None}) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"overall": {"score": 0.25, "n": 419}}, "RM 0.250, on 419 items, not all of it"),
        (
            {"overall": {"score": 0.25, "n": 1000}, "items": 1200, "complete": True},
            "RM 0.250, on 1,000 of 1,200 items",
        ),
        ({"overall": None}, "RM has no score, on 419 items"),
        (
            {"overall": None, "item_mean": {"score": 0.5, "n": 7}},
            "RM has no score: 0.500 is the mean over 7 of 419 items, none is of a subset that it "
            "has",
        ),
    ],
)
def test_a_benchmark_is_told_with_its_score_and_how_many_items_it_is_of(fields, told):
    benchmark = {"title": "RM", "items": 419, "complete": False} | fields
    summary = {"metrics": {}, "registered": None, "benchmarks": {"rm": benchmark}}
    assert result_lines(summary) == [f"benchmark: {told}"]


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
