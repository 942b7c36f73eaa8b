"""The evaluation as a step in a real store: its files, its report, and what it promises."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store
from tasks.errors import DataError
from tasks.evaluation import EvaluationParams, step
from tasks.evaluation.plots import plot_margins, plot_rewards
from tasks.evaluation.table import SCHEMA, read_scores
from tests.evaluation.pieces import stored, upstream, write_arrow


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
    for name in ("rewards", "margins"):
        assert (found.path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (found.path / "scratch").exists()


def test_equal_work_gives_equal_bytes_and_the_batch_size_is_not_in_the_key(made, tmp_path):
    store, training, tokenization = made
    params = EvaluationParams(batch_size=4)
    first = store.obtain(step(params, training, tokenization))
    again = Store(tmp_path / "other").obtain(step(params, training, tokenization))
    assert first.digest == again.digest
    assert step(EvaluationParams(batch_size=5), training, tokenization).key == first.key
    assert step(EvaluationParams(histogram_bins=9), training, tokenization).key != first.key


def test_an_interrupted_evaluation_keeps_its_finished_windows(made, monkeypatch):
    from tasks.evaluation import score

    store, training, tokenization = made
    monkeypatch.setattr(score.read_windows, "__defaults__", (6,))
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


def test_plots_survive_equal_rewards_and_give_the_same_bytes_twice(made, tmp_path):
    store, training, tokenization = made
    found = store.obtain(step(EvaluationParams(), training, tokenization))
    scores = read_scores(found.path / "scores.parquet")
    for plot in (plot_rewards, plot_margins):
        plot(scores, tmp_path / "a.png", 40)
        plot(scores, tmp_path / "b.png", 40)
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    equal = scores.__class__(
        scores.source,
        *(scores.chosen * 0,) * 2,
        *(scores.margin * 0,) * 2,
        scores.chosen_tokens,
        scores.rejected_tokens,
    )
    plot_rewards(equal, tmp_path / "a.png", 5)
    plot_margins(equal, tmp_path / "b.png", 5)


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
