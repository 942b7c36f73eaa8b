"""The evaluation as a step in a real store: its files, its report, and what it promises."""

import json
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store, Workspace
from tasks.errors import DataError
from tasks.evaluation import EvaluationParams, step
from tasks.evaluation.measures.metrics import all_metrics, flat
from tasks.evaluation.report.curves import draw_all
from tasks.evaluation.report.plots import plot_margins, plot_rewards
from tasks.evaluation.tables.scores import SCHEMA, read_scores
from tests.evaluation.pieces import (
    conversations,
    everything,
    made_scores,
    stored,
    upstream,
    write_arrow,
)


@pytest.fixture
def made(tmp_path, tiny_model_directory):
    store = Store(tmp_path / "data")
    return store, *upstream(store, tmp_path / "sources", tiny_model_directory, seed=1)


def test_the_artifact_holds_scores_metrics_and_plots_that_agree(made):
    store, training, tokenization = made
    found = store.obtain(step(EvaluationParams(batch_size=4), training, tokenization))
    table = pq.read_table(found.path / "scores.parquet")
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    assert table.schema.equals(SCHEMA)
    assert metrics["overall"]["pairs"] == found.report["rows"] == len(table) == 20
    assert metrics["overall"]["correct"] == sum(table["correct"].to_pylist())
    assert set(metrics["sources"]) == {"skies", "others"}
    assert found.report["metrics"]["accuracy"] == metrics["overall"]["accuracy"]
    for name in ("rewards", "margins", "calibration", "length_ratio", "dark/rewards"):
        assert (found.path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (found.path / "scratch").exists()


@pytest.fixture
def whole(tmp_path, tiny_model_directory):
    """With conversion: three pairs of one prompt among them."""
    rows = conversations(20)
    for row in rows[1:3]:
        row["prompt"] = rows[0]["prompt"]
    store = Store(tmp_path / "data")
    return store, *everything(store, tmp_path / "sources", tiny_model_directory, 1, rows)


def test_with_texts_every_family_of_figures_is_there_and_each_table_is_aligned(whole):
    store, *artifacts = whole
    found = store.obtain(step(EvaluationParams(first_tokens=3, probe_prompts=2), *artifacts))
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    families = {"format", "overall", "sources", "slices", "calibration", "rewards", "bias"}
    assert set(metrics) == families | {"readiness", "suspects", "warnings"}
    assert metrics["overall"]["groups"] == 18
    probed = pq.read_table(found.path / "probes.parquet")["pair_id"].unique().to_pylist()
    assert probed == [f"{row:032x}" for row in (0, 3)]  # 1 and 2 ask the same as 0
    assert set(metrics["slices"]) == {
        "length_ratio",
        "prompt_tokens",
        "language",
        "turns",
        "format",
    }
    assert {"model", "longer_tokens", "more_bold", "surface", "first_tokens"} <= set(
        metrics["bias"]["null_models"]
    )
    assert metrics["readiness"]["groups"]["groups"] == 18
    assert metrics["readiness"]["probes"]["empty"]["prompts"] == 2
    ids = pq.read_table(found.path / "scores.parquet")["pair_id"]
    for name in ("texts", "truncated"):
        assert pq.read_table(found.path / f"{name}.parquet")["pair_id"].equals(ids)
    suspects = pq.read_table(found.path / "suspects.parquet")
    assert len(suspects) == metrics["suspects"]["contradicted"] > 0
    assert set(suspects["file"].to_pylist()) == {"sky.jsonl"}
    assert (found.path / "suspects.csv").is_file()
    numbers = flat(metrics)
    assert numbers["accuracy"] == metrics["overall"]["accuracy"]
    assert "bias.length.chosen_shorter.accuracy" in numbers
    assert all(isinstance(value, int | float) for value in numbers.values())


def test_what_is_switched_off_leaves_no_table_and_no_figure(whole):
    store, *artifacts = whole
    off = EvaluationParams(first_tokens=None, probe_prompts=0, suspects=0, null_model_pairs=0)
    found = store.obtain(step(off, *artifacts))
    names = {path.name for path in found.path.glob("*.*")}
    always = {"metrics.json", "record.json", "report.html", "samples.parquet", "scores.parquet"}
    assert names == always | {"texts.parquet"}
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    assert metrics["readiness"]["probes"] is None
    assert not {"first_tokens", "surface"} & set(metrics["bias"]["null_models"])


def test_a_split_without_a_better_side_in_any_pair_is_an_error(whole, tmp_path):
    store, training, _, _ = whole
    rows = [
        {"pair_id": "0", "source": "a", "chosen_ids": [7, 8], "rejected_ids": [9]}
        | {"preference": 0.5, "comparison": "c"}
    ]
    write_arrow(tmp_path / "ties" / "eval" / "0.arrow", rows)
    ties = stored(store, "tokenization", tmp_path / "ties")
    with pytest.raises(DataError, match="none of the 1 held-out pairs has a better side"):
        store.obtain(step(EvaluationParams(), training, ties))


def test_soft_labels_and_comparisons_reach_the_table(whole, tmp_path):
    store, training, _, _ = whole
    pair = {"source": "a", "chosen_ids": [7, 8], "rejected_ids": [9], "comparison": "c"}
    rows = [
        pair | {"pair_id": "0", "preference": 0.75},
        pair | {"pair_id": "1", "preference": 0.5, "chosen_ids": [7, 9]},
    ]
    write_arrow(tmp_path / "soft" / "eval" / "0.arrow", rows)
    soft = stored(store, "tokenization", tmp_path / "soft")
    found = store.obtain(step(EvaluationParams(), training, soft))
    table = pq.read_table(found.path / "scores.parquet")
    assert table["preference"].to_pylist() == [0.75, 0.5]
    assert table["correct"].to_pylist()[1] is None
    assert table["rejected_id"][0] == table["rejected_id"][1]
    scores = read_scores(found.path / "scores.parquet")
    assert scores.group.tolist() == [0, 0]


def test_equal_work_gives_equal_bytes_and_the_batch_size_is_not_in_the_key(made, tmp_path):
    store, training, tokenization = made
    params = EvaluationParams(batch_size=4)
    first = store.obtain(step(params, training, tokenization))
    again = Store(tmp_path / "other").obtain(step(params, training, tokenization))
    assert first.digest == again.digest
    assert step(EvaluationParams(batch_size=5), training, tokenization).key == first.key
    assert step(EvaluationParams(histogram_bins=9), training, tokenization).key != first.key


def test_an_interrupted_evaluation_keeps_its_finished_windows(made, monkeypatch):
    from tasks.evaluation.scoring import score, windows

    store, training, tokenization = made
    monkeypatch.setattr(windows.read_windows, "__defaults__", (6,))
    calls = []
    whole = score.score_window

    def dies_at_the_third(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(score, "score_window", dies_at_the_third)
    work = step(EvaluationParams(), training, tokenization)
    with pytest.raises(KeyboardInterrupt):
        store.obtain(work)
    found = store.obtain(work)
    assert len(calls) == 3 + 2  # windows of 6, 6, 6 and 2 pairs: the first two are not repeated
    assert len(pq.read_table(found.path / "scores.parquet")) == 20


def test_an_empty_held_out_split_is_an_error_that_says_what_to_do(made, tmp_path):
    store, training, _ = made
    write_arrow(tmp_path / "empty" / "eval" / "0.arrow", [])
    empty = stored(store, "tokenization", tmp_path / "empty")
    with pytest.raises(DataError, match=r"holds no pair.*eval_fraction"):
        store.obtain(step(EvaluationParams(), training, empty))


@pytest.mark.slow
def test_plots_survive_equal_rewards_and_give_the_same_bytes_twice(made, tmp_path):
    store, training, tokenization = made
    found = store.obtain(step(EvaluationParams(), training, tokenization))
    scores = read_scores(found.path / "scores.parquet")
    for plot in (plot_rewards, plot_margins):
        plot(scores, tmp_path / "a.png", 40)
        plot(scores, tmp_path / "b.png", 40)
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    nothing = scores.margin * 0
    equal = replace(scores, chosen=nothing, rejected=nothing, margin=nothing)
    plot_rewards(equal, tmp_path / "a.png", 5)
    plot_margins(equal, tmp_path / "b.png", 5)


def test_pairs_without_a_better_side_are_in_no_plot(tmp_path):
    drawn = []
    for margins, preferences in (([2.0, -1.0], None), ([2.0, -1.0, 9.0], [1, 1, 0.5])):
        scores = made_scores(margins, preferences=preferences)
        place = tmp_path / f"{len(margins)}"
        draw_all(scores, all_metrics(scores), 10, Workspace(place, -1))
        names = ("rewards", "margins", "calibration", "length_ratio", "dark/margins")
        drawn.append([(place / f"plots/{name}.png").read_bytes() for name in names])
    assert drawn[0] == drawn[1]


def test_deciding_the_step_imports_no_torch():
    code = (
        "import sys; import tasks.evaluation.task, tasks.registration.task; "
        "from tasks.evaluation import EvaluationParams; "
        "from tasks.registration import RegistrationParams, still_registered; "
        "heavy = {'torch', 'transformers', 'mlflow', 'matplotlib', 'pyarrow', 'numpy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
