"""Every benchmark runs, small, and its contestants compute the same: as who reruns them does it."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = "300"
PAIRS = ("--pairs", "uf", "--batch", "2", "--max-length", "256", "--threads", "1")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_data")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What benchmarks make once of the shared data and use again: a model, files of rows."""
    return tmp_path_factory.mktemp("benchmarks")


def report(root: Path, name: str, *contestants: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the benchmark wrote, after one turn of each contestant."""
    file = root / f"{name}.json"
    command = ["-m", "tests.benchmarks", name, "--root", str(root), "--json", str(file), *more]
    contestants = ("--contestants", *contestants, "--repeats", "1")
    done = subprocess.run(
        [sys.executable, *command, *contestants], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


def test_preparation_by_either_encoder_comes_to_the_same_ids(root: Path) -> None:
    found = report(root, "prep", "ours", "ours_tokenizers", more=("--rows", ROWS))
    assert found["equal"] == {"ours_tokenizers": True}
    assert {*found["stages"]["ours"]} >= {"ingestion", "conversion", "templating", "tokenization"}


def test_what_is_appended_is_prepared_as_if_from_scratch(root: Path) -> None:
    found = report(root, "append", "ours", more=("--rows", ROWS))
    assert found["share_percent"]["ours"]["median"] > 0


def test_memory_is_told_for_each_number_of_rows(root: Path) -> None:
    found = report(root, "memory", ROWS, "600")
    assert {*found["memory_mb"]} == {ROWS, "600"}


@pytest.mark.parametrize(("name", "most"), [("train", 1e-5), ("evaluate", 1e-5)])
def test_layouts_compute_the_same(root: Path, name: str, most: float) -> None:
    found = report(root, name, "padded", "ours", more=(*PAIRS, "--steps", "4"))
    assert found["equal"]["ours"] < most
    assert found["computed_tokens"]["ours"]["median"] < found["computed_tokens"]["padded"]["median"]


def test_scores_of_four_answers_are_those_of_transformers(root: Path) -> None:
    found = report(root, "score", "peer", "ours", more=("--pairs", "ranked_hh", *PAIRS[2:]))
    assert found["equal"]["ours"] < 1e-5


def test_a_second_run_finds_everything(root: Path) -> None:
    assert {*report(root, "rerun", "help", "run")["seconds"]} == {"help", "run"}


def test_a_server_answers_as_many_requests_as_are_made(root: Path) -> None:
    found = report(root, "serve", "loader", "ours", more=("--requests", "8", "--clients", "2"))
    assert found["requests_per_second"]["ours"]["median"] > 0


def test_the_script_for_gpus_runs_on_a_processor(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="trl, which the script compares with, is not installed")
    out = tmp_path / "gpu.json"
    names = ["peer_default", "peer_best", "peer_sorted", "ours", "ours_compiled"]
    names.append("ours_checkpointed")
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--sizes", "tiny", "--lengths", "hh"]
    command += ["--steps", "5", "--repeats", "1", "--max-length", "128", "--json", str(out)]
    subprocess.run([*command, "--contestants", *names], check=True, capture_output=True, cwd=ROOT)
    runs = {run["who"]: run for run in json.loads(out.read_text())["runs"]}
    assert [*runs] == names
    for run in runs.values():
        assert "failed" not in run
        assert math.isfinite(run["pairs_per_second"])
        assert run["computed_tokens_per_second"] > 0
    for who in names[3:]:
        assert runs[who]["reward_difference"] < 0.01  # of bfloat16
        assert runs[who]["loss"] == pytest.approx(runs["ours"]["loss"], rel=0.01)
