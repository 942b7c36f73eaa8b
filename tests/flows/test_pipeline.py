"""The whole way in small: what scripts read, what is exported, what a second run does."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.__main__ import app
from flows.garbage_collection import collect_garbage
from flows.params import load
from flows.pipeline import Pipeline
from flows.run import run_pipeline
from flows.summary import print_summary
from tasks.artifact import Store
from tasks.artifact.inventory import by_name, committed
from tasks.artifact.refs import REGISTERING, VERSION, keep, refs
from tasks.registration import RegistrationParams
from tasks.registration.tracking import client_for

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
SMALL = [
    "model={scratch: {vocab_size: 400, hidden_size: 16, intermediate_size: 24}}",
    *(f"ingestion.sources.{i}.limit=80" for i in range(3)),
    "conversion={eval_fraction: 0.2, max_bad_fraction: 0.05}",
    "training={max_steps: 3, torch_num_threads: 1, logging_steps: 1}",
]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows", "run", "params/quickstart.yaml", *SMALL, *arguments]
    return subprocess.run(
        [*command, "--root", str(root), "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("template") / "own.jinja"
    path.write_text(TEMPLATE)
    return f"templating.chat_template_path={path}"


@pytest.fixture(scope="module")
def root(tmp_path_factory, template) -> Path:
    """A root in which the small pipeline has run once."""
    directory = tmp_path_factory.mktemp("root")
    done = run(directory, template)
    assert done.returncode == 0, done.stderr[-3000:]
    (directory / "first.json").write_text(done.stdout)
    return directory


@pytest.fixture(scope="module")
def first(root) -> dict:
    return json.loads((root / "first.json").read_text())


def test_the_object_for_scripts_has_every_stage_with_a_balanced_ledger(first):
    names = ["ingestion", "conversion", "templating", "tokenization"]
    assert list(first["stages"]) == [*names, "training", "evaluation", "registration"]
    rows = first["stages"]["ingestion"]["rows_in"]
    for name in names:
        facts = first["stages"][name]
        assert facts["rows_in"] == rows == facts["rows_out"] + sum(facts["dropped"].values())
        assert not facts["cached"]
        rows = facts["rows_out"]
    assert first["stages"]["evaluation"]["rows_out"] == first["metrics"]["pairs"] > 0
    assert first["registered"]["name"] == "reward-model"
    assert (first["registered"]["version"], first["registered"]["alias"]) == (1, "champion")


def test_pairs_have_the_canonical_columns(first):
    shards = sorted((Path(first["stages"]["conversion"]["path"]) / "pairs").glob("*.parquet"))
    names = set(pq.read_schema(shards[0]).names)
    canonical = "pair_id prompt chosen rejected tools chat_template_kwargs margin weight source row"
    assert {*canonical.split(), "group", "split"} <= names


def test_the_model_is_exported_with_the_template_that_it_was_trained_with(first):
    model = Path(first["stages"]["training"]["path"]) / "model"
    assert (model / "chat_template.jinja").read_text() == TEMPLATE


def test_the_second_run_is_cached_and_a_harmed_artifact_is_built_again(root, first, template):
    second = json.loads(run(root, template).stdout)
    assert all(facts["cached"] for facts in second["stages"].values())
    assert second["metrics"] == first["metrics"]
    assert second["registered"] == first["registered"]
    scores = Path(first["stages"]["evaluation"]["path"]) / "scores.parquet"
    scores.write_bytes(scores.read_bytes()[:-1])
    third = json.loads(run(root, template).stdout)
    evaluation = third["stages"]["evaluation"]
    assert not evaluation["cached"]
    assert "DAMAGED scores.parquet" in evaluation["reason"]
    assert evaluation["digest"] == first["stages"]["evaluation"]["digest"]
    assert third["stages"]["registration"]["cached"]
    assert third["registered"] == first["registered"]


@pytest.mark.usefixtures("first")
def test_a_cached_run_imports_nothing_heavy(root, template):
    code = (
        "import sys\n"
        "from flows.params import load\n"
        "from flows.pipeline import Pipeline\n"
        "from flows.run import run_pipeline\n"
        "from pathlib import Path\n"
        "params = load('params/quickstart.yaml', sys.argv[2:])\n"
        "summary = run_pipeline(Pipeline(params, Path(sys.argv[1])))\n"
        "assert all(facts['cached'] for facts in summary['stages'].values())\n"
        "heavy = {'torch', 'transformers', 'prefect', 'mlflow', 'pandas', 'pyarrow', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root), *SMALL, template],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_the_printed_summary_says_what_the_baseline_counts(first, capsys):
    print_summary(first)
    said = f"{first['metrics']['length_baseline']:.3f}"
    assert f"baseline: preferring the answer of more tokens gives {said}" in capsys.readouterr().out


@pytest.mark.slow
def test_too_many_bad_rows_fail_the_run_in_one_sentence(tmp_path):
    bad = ("conversion.max_bad_fraction=0.001", "ingestion.sources.1.limit=400")
    done = run(tmp_path, *bad, "--until", "conversion")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "DataError" in done.stderr
    assert "votes" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("first")
@pytest.mark.slow
def test_of_a_pair_that_the_loss_cannot_use_the_file_and_row_are_told(root, template):
    done = run(root, template, "training.loss.type=plackett_luce", "--until", "training")
    assert done.returncode == 1
    told = re.search(
        r"does not use margins.*the first is pair ([0-9a-f]{32})\).*; pair \1 is "
        r"'data/samples/votes\.csv' row (\d+) of source votes$",
        done.stderr.strip(),
    )
    assert told, done.stderr
    with Path("data/samples/votes.csv").open(newline="") as file:
        assert list(csv.DictReader(file))[int(told[2]) - 1]["gap"]


def test_run_and_show_tell_the_alias_that_the_version_has_now(root, first, template):
    client = client_for(RegistrationParams(), root)
    name, version = first["registered"]["name"], str(first["registered"]["version"])

    def told() -> list[str | None]:
        shown = CliRunner().invoke(app, ["show", "--json", "--root", str(root)]).stdout
        return [json.loads(s)["registered"]["alias"] for s in (shown, run(root, template).stdout)]

    client.delete_registered_model_alias(name, "champion")
    assert told() == [None, None]
    client.set_registered_model_alias(name, "challenger", version)
    assert told() == ["challenger", "challenger"]
    client.delete_registered_model_alias(name, "challenger")
    client.set_registered_model_alias(name, "champion", version)
    assert told() == ["champion", "champion"]
    (root / "mlruns").rename(root / "away")  # nobody to ask: what it was registered as
    shown = CliRunner().invoke(app, ["show", "--json", "--root", str(root)]).stdout
    assert json.loads(shown)["registered"]["alias"] == "champion"
    (root / "away").rename(root / "mlruns")


@pytest.mark.slow
def test_versions_of_one_name_and_number_in_two_registries_are_both_kept(root, template, tmp_path):
    store = Store(root / "data")
    before = {path: path.read_bytes() for path in refs(store, VERSION)}
    done = run(root, template, f"registration.tracking_uri=sqlite:///{tmp_path}/other.db")
    assert json.loads(done.stdout)["registered"]["version"] == 1
    assert {path: path.read_bytes() for path in before} == before
    [added] = {*refs(store, VERSION)} - {*before}
    added.unlink()


@pytest.fixture
def killed_after_registering(root, template, monkeypatch):
    """A run that is killed once its version stands, with nothing but a start in the refs."""

    def killed(_store, kind, *_more):
        if kind == VERSION:
            raise KeyboardInterrupt
        keep(_store, kind, *_more)

    for ref in refs(Store(root / "data")):
        ref.unlink()
    monkeypatch.setattr("flows.run.keep", killed)
    monkeypatch.chdir(REPOSITORY)
    given = load("params/quickstart.yaml", [*SMALL, template])
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(Pipeline(given, root))


@pytest.mark.slow
@pytest.mark.usefixtures("killed_after_registering")
def test_what_a_killed_run_had_registered_is_kept_and_another_run_takes_it_up(
    root, first, template
):
    store = Store(root / "data")
    for kind in ("run", "unfinished"):
        for number in range(2):
            keep(store, kind, f"9999010{number + 1}T000000.000000Z-1", [])
    swept = collect_garbage(root, keep_runs=1, dry_run=False)
    assert [s for s in swept if s.path.is_relative_to(root / "data" / "5_training")] == []
    assert len(refs(store, REGISTERING)) == 1
    (store.root / "refs" / "unfinished-damaged.json").write_text("")
    summary = run(root, template)
    assert summary.returncode == 0, summary.stderr
    assert json.loads(summary.stdout)["registered"]["version"] == first["registered"]["version"]
    assert (len(refs(store, VERSION)), refs(store, REGISTERING)) == (1, [])
    for ref in {*refs(store)} - {*refs(store, VERSION)}:
        ref.unlink()


def test_the_collection_keeps_what_a_version_was_made_from_until_it_is_deleted(root, first):
    store, database = Store(root / "data"), root / "mlruns" / "mlflow.db"
    keep(store, "run", "99990101T000000", [])

    def would_take_it() -> bool:
        swept = collect_garbage(root, keep_runs=1, dry_run=True)
        return first["stages"]["training"]["path"] in [str(s.path) for s in swept]

    assert not would_take_it()
    client = client_for(RegistrationParams(), root)
    name, version = first["registered"]["name"], str(first["registered"]["version"])
    client.rename_registered_model(name, "renamed")
    assert not would_take_it()
    client.rename_registered_model("renamed", name)
    client.delete_model_version(name, version)
    assert would_take_it()
    aside = database.rename(root / "aside.db")  # a registry that is not there may come back
    assert not would_take_it()
    aside.rename(database)
    client.delete_registered_model(name)
    begun = {"training": first["stages"]["training"]["key"], "tracking_uri": None}
    standing = [a for a in by_name(committed(store)).values() if a.stage == "training"]
    keep(store, REGISTERING, "99990101T000000", standing, begun)  # and came to nothing
    collect_garbage(root, keep_runs=1, dry_run=False)
    assert refs(store, REGISTERING) == []
    assert not Path(first["stages"]["training"]["path"]).exists()
    assert refs(store, VERSION) == []
