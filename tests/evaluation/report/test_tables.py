"""The tables of the page, each cell the figure that its row and heading name."""

from tasks.evaluation.report.benchmark_tables import benchmarks
from tasks.evaluation.report.readiness_tables import readiness
from tasks.evaluation.report.registration_tables import bounds, champion, facts
from tasks.evaluation.report.tables import bias, calibration


def test_the_champions_table_tells_agreement_drift_and_both_maps():
    scale = {"new_to_old": {"slope": 2.0, "intercept": -1.0, "r2": 0.81}}
    against = {
        "agreement": {"pairs": 1234, "same_verdict": 0.75, "tau_margins": 0.5, "tau_rewards": None},
        "drift": {"mean": -0.25, "std": 1.5},
        "scale": scale | {"matched": {"slope": 3.0, "intercept": 12.34}},
    }
    [table] = champion(against)
    assert [figure for _, figure in table.rows] == [
        *("75.0 %", "0.500", "–", "−0.250", "1.500"),  # agreement, then drift
        *("3.000", "12.3"),  # to the old mean and deviation
        *("2.000", "−1.000", "0.810"),  # least squares
    ]
    assert table.note.startswith("1,234 pairs. ")
    [without] = champion(against | {"scale": scale | {"matched": None}})
    assert [figure for _, figure in without.rows[5:7]] == ["–", "–"]


def test_the_gates_table_names_each_bound_its_verdict_and_what_was_asked():
    def bound(name, value, relation, asked, *, holds, otherwise="rejected", note=""):
        told = {"name": name, "value": value, "relation": relation, "bound": asked}
        return told | {"holds": holds, "otherwise": otherwise, "note": note}

    decision = {
        "bounds": [
            bound("min_accuracy", 0.75, ">=", 0.5, holds=True),
            bound("min_lead_over_null", 0.04975, ">=", 0.05, holds=False),
            bound(
                *("max_source_drop.votes_a", 0.125, "<=", 0.0),
                holds=False,
                otherwise="challenger",
                note="8 pairs",
            ),
            bound("contract", 1200, ">=", 1, holds=True),
            bound("max_prompt_share", None, "<=", 0.9, holds=False),
        ]
    }
    table = bounds(decision)
    assert table.rows == [
        ["min accuracy", "holds", "0.75", ">= 0.5"],
        ["min lead over null", "fails: rejected", "0.04975", ">= 0.05"],  # not 0.050
        ["max source drop, votes_a (8 pairs)", "fails: challenger", "0.125", "<= 0"],
        ["contract", "holds", "1,200", ">= 1"],
        ["max prompt share", "fails: rejected", "not computable", "<= 0.9"],
    ]
    assert table.strong == {1, 2, 4}
    assert bounds({"bounds": []}) is None


def test_facts_stand_one_a_row_under_their_dotted_names():
    found = {"a": {"b": [1234567, 0.1234567]}, "c": None, "d": True, "e": "text"}
    rows = [["a.b.0", "1,234,567"], ["a.b.1", "0.123457"], ["c", "–"], ["d", "True"], ["e", "text"]]
    assert facts("Version", found).rows == rows


def test_the_tables_for_rl_leave_out_what_no_prompt_and_no_probe_gave():
    serving = {"tie_rate_float32": 0.25, "tie_rate": 0.5}
    groups = {"groups": 1234, "within_std_mean": 0.75, "zero_advantage": 0.1}
    best = {"n": 4, "groups": 30, "model": 0.8, "oracle": 0.9, "random": 0.5}
    probe = {"mean_reward": -1.5, "z": -2.0, "above_median": 0.25, "beats_chosen": 0.125}
    found = {
        "bfloat16": serving,
        "groups": groups | {"zero_advantage_bfloat16": 0.2},
        "best_of_n": [best],
        "probes": {"very_long": probe},
    }
    spread, curve, extreme = readiness({"readiness": found})
    cells = ["25.0 %", "50.0 %", "1,234", "0.750", "10.0 %", "20.0 %"]
    assert [figure for _, figure in spread.rows] == cells
    assert curve.rows == [["4", "30", "0.800", "0.900", "0.500"]]
    assert extreme.rows == [["very long", "−1.500", "−2.000", "25.0 %", "12.5 %"]]
    nothing = {"bfloat16": serving, "groups": None, "best_of_n": None, "probes": None}
    [alone] = readiness({"readiness": nothing})
    assert [figure for _, figure in alone.rows] == cells[:2]


def test_the_panel_of_bias_puts_the_best_judge_first_and_says_why_one_cannot_judge():
    def judge(accuracy):
        low_high = None if accuracy is None else (accuracy - 0.1, accuracy + 0.1)
        return {"decides": 0.5, "accuracy": accuracy, "accuracy_interval": low_high}

    judges = {"model": judge(0.7), "longer_tokens": judge(0.8)}
    judges["position"] = judge(None) | {"note": "no row has an order"}
    leaning = {"pairs": 12, "data": 0.75, "model": 0.25}
    part = {"pairs": 1234, "accuracy": 0.6}
    kinds = dict.fromkeys(("matched", "chosen_longer", "chosen_shorter"), part)
    length = kinds | {"balanced_accuracy": 0.55, "partial_correlation": -0.4}
    found = {"null_models": judges, "leanings": {"first": leaning, "bold": leaning}}
    found |= {"length": length, "prompt": {"share_of_variance": 0.3}}
    panel, leanings, explained = bias({"bias": found})
    assert panel.rows == [
        ["longer tokens", "50.0 %", "80.0 %", "70.0 to 90.0 %"],
        ["model", "50.0 %", "70.0 %", "60.0 to 80.0 %"],
        ["position", "50.0 %", "–", "–"],
    ]
    assert panel.strong == {1}
    assert panel.note.endswith("of an answer. Position: no row has an order.")
    named = [row[0] for row in leanings.rows]
    assert named == ["the first place in its row", "more bold"]
    assert leanings.rows[1][1:] == ["12", "75.0 %", "25.0 %"]
    assert explained.rows[0] == ["accuracy, matched (1,234 pairs)", "60.0 %"]
    assert [figure for _, figure in explained.rows[3:]] == ["55.0 %", "−0.400", "30.0 %"]


def test_calibration_and_quantiles_stand_under_their_levels():
    spread = {"mean": 0.5, "std": 2.0, "quantiles": [-1.0, 0.25, 3.0]}
    rewards = {"levels": [0.0, 0.05, 1.0]} | dict.fromkeys(("chosen", "rejected", "margin"), spread)
    bins = [{"confidence": 0.55, "accuracy": 0.6, "pairs": 1234}]
    found = calibration({"calibration": bins, "rewards": rewards | {"all": spread | {"std": 3.0}}})
    assert found[0].rows == [["55.0 %", "60.0 %", "1,234"]]
    assert found[1].headings == ("", "mean", "deviation", "0 %", "5 %", "100 %")
    cells = ["−1.000", "0.250", "3.000"]
    assert found[1].rows == [
        *([name, "0.500", "2.000", *cells] for name in ("chosen", "rejected")),
        ["all", "0.500", "3.000", *cells],
        ["margin", "0.500", "2.000", *cells],
    ]


def test_a_benchmarks_table_says_how_much_of_it_there_is_and_what_to_know_of_it():
    def figure(score, n=10, **more):
        return {"score": score, "score_interval": (score - 0.1, score + 0.1), "n": n} | more

    found = {
        "title": "RM-Bench",
        "complete": False,
        "overall": figure(0.5, 30),
        "details": {"easy": 0.6, "normal": 0.5, "hard": 0.4, "ties": {"margin": 0.25, "n": 3}},
        "sections": {"Chat": figure(0.7, easy=0.8, normal=0.7, hard=0.6)},
        "subsets": {"chat": figure(0.3, easy=0.4, normal=0.3, hard=0.2)},
        "items": 1234,
        "answers": 7404,
        "max_length": 2048,
        "truncated": 5,
        "special_tokens_in_text": 2,
        "unscored": 1,
        "contamination": {"shared": 4},
        "missing": ["code"],
        "unknown": ["law"],
    }
    [table] = benchmarks({"benchmarks": {"rm": found}})
    assert table.headings == ("", "score", "95 % interval", "easy", "normal", "hard", "items")
    levels = ["60.0 %", "50.0 %", "40.0 %"]
    assert table.rows == [
        ["overall, of what is there", "50.0 %", "40.0 to 60.0 %", *levels, "30"],
        ["section Chat", "70.0 %", "60.0 to 80.0 %", "80.0 %", "70.0 %", "60.0 %", "10"],
        ["chat", "30.0 %", "20.0 to 40.0 %", "40.0 %", "30.0 %", "20.0 %", "10"],
    ]
    assert table.strong == {0, 1}
    assert table.note == (
        "1,234 items, 7,404 answers; 5 cut to their last 2,048 tokens; 2 with special tokens as "
        "plain text; 1 items could not be scored; 4 items share a training prompt; not in the "
        "files: code; no part of it, and not in the overall score: law; ties: margin 0.250."
    )
    own = found | {"overall": None, "item_mean": figure(0.25), "details": {}, "sections": {}}
    own |= {"subsets": {}, "complete": True}
    [table] = benchmarks({"benchmarks": {"own": own}})
    assert table.rows == [["mean over items", "25.0 %", "15.0 to 35.0 %", "10"]]
    [table] = benchmarks({"benchmarks": {"rm": found | {"complete": True}}})
    assert table.rows[0][0] == "overall"
    assert benchmarks({}) == []
