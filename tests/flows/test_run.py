"""A run that does not come to its end: what it has built is there for the next one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from flows.__main__ import app
from flows.params import check
from flows.pipeline import Pipeline
from flows.plan import plan
from flows.run import run_pipeline
from tasks.artifact import Workspace
from tasks.artifact.collection import collect
from tasks.artifact.refs import RUN, UNFINISHED, keep, refs
from tasks.errors import DataError, ParamsError, PipelineError, RegistrationError
from tasks.registration import RegistrationParams
from tasks.registration.address import check_store
from tasks.training.checkpoints.checkpoint import MANIFEST

REPOSITORY = Path(__file__).parents[2]
UP_TO_TOKENIZATION = {"1_ingestion", "2_conversion", "3_templating", "4_tokenization"}


@pytest.fixture
def pipeline(tmp_path) -> Pipeline:
    columns = {"prompt": "question", "chosen": "better", "rejected": "worse"}
    path = str(REPOSITORY / "data/samples/votes.csv")
    source = {"name": "votes", "path": path, "columns": columns, "limit": 60}
    model = {"scratch": {"vocab_size": 300, "hidden_size": 8, "intermediate_size": 8}}
    return Pipeline(check({"model": model, "ingestion": {"sources": [source]}}, "test"), tmp_path)


def shelves(pipeline) -> set[str]:
    """The stages that have an artifact."""
    return {path.name for path in (pipeline.root / "data").glob("[0-9]_*")}


def stops_at(pipeline, stage):
    """Obtains what comes before a stage, whose build is killed."""

    def obtain(step):
        if step.stage != stage:
            return pipeline.store.obtain(step)
        pipeline.store.work(step).mkdir(parents=True)
        raise KeyboardInterrupt

    return obtain


def test_what_a_stopped_run_has_built_is_kept_until_another_has_finished(pipeline):
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(pipeline, until="conversion", obtain=stops_at(pipeline, "conversion"))
    assert collect(pipeline.store) == []
    summary = run_pipeline(pipeline, until="conversion")
    found = summary["stages"]
    assert (found["ingestion"]["cached"], found["conversion"]["cached"]) == (True, False)
    assert (len(refs(pipeline.store, RUN)), refs(pipeline.store, UNFINISHED)) == (1, [])
    assert collect(pipeline.store) == []


def test_the_inputs_of_work_that_was_begun_are_kept_though_all_of_them_were_cached(pipeline):
    run_pipeline(pipeline, until="model")
    (ref,) = refs(pipeline.store, RUN)
    ref.unlink()
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(pipeline, until="conversion", obtain=stops_at(pipeline, "conversion"))
    assert collect(pipeline.store) == []


def test_a_later_run_that_was_stopped_is_told_with_what_it_left_to_go_on_from(
    pipeline, monkeypatch
):
    def dies(*finished):
        finish(*finished)
        raise KeyboardInterrupt

    run_pipeline(pipeline, until="ingestion")
    finish = Workspace.finish
    monkeypatch.setattr(Workspace, "finish", dies)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(pipeline, until="conversion")
    monkeypatch.undo()
    for step in (9, 10):  # as a training would have left them
        (work,) = (pipeline.store.root / ".work").glob("conversion-*")
        checkpoint = work / "scratch" / "checkpoints" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / MANIFEST).write_text("{}")
    (reason,) = (line.reason for line in plan(pipeline) if line.stage == "conversion")
    assert reason.endswith("; resumes: 1 finished units; resumes: checkpoint-10")
    words = ["show", "--root", str(pipeline.root)]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    (later,) = told["unfinished_since"]
    assert told["began"] <= later
    line = CliRunner().invoke(app, words).stdout.splitlines()[0]
    assert line == (
        f"the last finished run, of {told['began']}; a later one is going or did not come to an "
        f"end, the last of {later}"
    )
    run_pipeline(pipeline, until="conversion")
    assert json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["unfinished_since"] == []


def test_of_stopped_runs_too_only_the_newest_are_kept(pipeline):
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(pipeline, until="conversion", obtain=stops_at(pipeline, "conversion"))
    (ref,) = refs(pipeline.store, UNFINISHED)
    ref.with_name("unfinished-99990101T000000.json").write_text('{"keeps": []}')
    assert {s.path.parent.name for s in collect(pipeline.store, keep_runs=1)} == {
        "1_ingestion",
        "model",
    }
    assert not ref.exists()


def test_a_run_in_which_all_is_cached_leaves_no_trace_of_being_unfinished(pipeline, monkeypatch):
    run_pipeline(pipeline, until="ingestion")
    written = []
    monkeypatch.setattr("flows.run.keep", lambda _store, kind, *_more: written.append(kind))
    run_pipeline(pipeline, until="ingestion")
    assert written == [RUN]


def test_a_root_that_was_moved_shows_where_its_artifacts_are_now(pipeline, tmp_path):
    run_pipeline(pipeline, until="templating")
    there = tmp_path.with_name("moved")
    shutil.move(tmp_path, there)
    shown = CliRunner().invoke(app, ["show", "--json", "--root", str(there)])
    summary = json.loads(shown.stdout)
    paths = [facts["path"] for facts in (*summary["stages"].values(), summary["model"])]
    assert len(paths) == 4
    assert all((Path(path) / "record.json").is_file() for path in paths)
    in_words = CliRunner().invoke(app, ["show", "--root", str(there)]).stdout
    assert all(path in in_words for path in paths[:3])
    assert f"{tmp_path}/" not in in_words + shown.stdout


def test_a_run_that_ends_while_another_is_shown_does_not_lend_it_its_time(pipeline, monkeypatch):
    from flows import summary

    run_pipeline(pipeline, until="ingestion")
    at = summary.summary_at

    def shown_meanwhile(*asked):
        keep(pipeline.store, RUN, "29991231T235959.999999Z-1", [])
        return at(*asked)

    monkeypatch.setattr(summary, "summary_at", shown_meanwhile)
    words = ["show", "--json", "--root", str(pipeline.root)]
    assert json.loads(CliRunner().invoke(app, words).stdout)["began"] < "2999"


@pytest.mark.parametrize(
    ("section", "field", "message"),
    [
        ("conversion", "overrides", "conversion.overrides: nowhere.jsonl is no file"),
        ("templating", "chat_template_path", "chat_template_path: nowhere.jsonl is no file"),
    ],
)
def test_a_file_that_is_not_there_is_told_before_any_work(pipeline, section, field, message):
    given = pipeline.params.model_dump(exclude_unset=True)
    given[section] = {field: "nowhere.jsonl"}
    absent = Pipeline(check(given, "test"), pipeline.root)
    for told in (run_pipeline, plan):
        with pytest.raises(PipelineError, match=message):
            told(absent)
    assert not (pipeline.root / "data").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_evaluation_cannot_use_is_told_before_the_training(pipeline):
    given = pipeline.params.model_dump(exclude_unset=True)
    given |= {"evaluation": {"device": "cuda:3"}, "conversion": {"eval_fraction": 0.2}}
    with pytest.raises(ParamsError, match=r"evaluation.device: device is 'cuda:3', but torch fin"):
        run_pipeline(Pipeline(check(given, "test"), pipeline.root))
    assert shelves(pipeline) == UP_TO_TOKENIZATION


def test_held_out_pairs_that_are_all_ties_are_told_before_the_training(pipeline, tmp_path):
    given = pipeline.params.model_dump(exclude_unset=True)
    ties = tmp_path / "ties.csv"
    ties.write_text("q,a,b,sure\nHow?,So.,Thus.,0.5\nWhy?,For that.,For this.,0.5\n")
    columns = {"prompt": "q", "chosen": "a", "rejected": "b", "preference": "sure"}
    held_out = {"name": "ties", "path": str(ties), "columns": columns, "use": "eval"}
    (votes,) = given["ingestion"]["sources"]
    given["ingestion"] = {"sources": [votes | {"use": "train"}, held_out]}
    given["conversion"] = {"ties": "keep"}
    with pytest.raises(DataError, match="none of the 2 held-out pairs has a better side"):
        run_pipeline(Pipeline(check(given, "test"), pipeline.root))
    assert shelves(pipeline) == UP_TO_TOKENIZATION


def test_the_last_run_s_ref_that_is_damaged_is_told_in_one_sentence(pipeline, tmp_path):
    run_pipeline(pipeline, until="ingestion")
    (ref,) = refs(pipeline.store, RUN)
    ref.write_bytes(ref.read_bytes()[:40])
    shown = CliRunner().invoke(app, ["show", "--root", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"ArtifactError: {ref} is damaged" in shown.stderr


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b"])
def test_a_root_that_mlflow_would_read_as_an_address_is_refused_before_any_work(pipeline, name):
    odd = Pipeline(pipeline.params, pipeline.root / name)
    with pytest.raises(ParamsError, match=r"mlflow\.db has '.*' in its path, which MLflow takes"):
        run_pipeline(odd)
    assert not odd.root.exists()
    assert run_pipeline(odd, until="conversion")["registered"] is None
    check_store(RegistrationParams(tracking_uri="http://127.0.0.1:5000"), odd.root)


@pytest.mark.parametrize(
    ("registry", "said"),
    [
        ("http://127.0.0.1:9", r"store http://127.0.0.1:9 refuses: no answer: \[Errno 111\] Conn"),
        (
            "postgresql+psycopg2://me:word@127.0.0.1:9/a",
            r"/\*{3}@127.0.0.1:9/a refuses: no answer: ",
        ),
        ("sqlite:///taken/mlflow.db", "refuses: .*/taken is no directory; see that it is there"),
        ("sqlite:///no.db", "refuses: file is not a database; see that it is there"),
    ],
)
def test_a_registry_that_cannot_be_used_is_told_before_any_work(pipeline, registry, said):
    for name in ("taken", "no.db"):
        (pipeline.root / name).write_text("no database, and no directory")
    given = pipeline.params.model_dump(exclude_unset=True)
    given["registration"] = {"tracking_uri": registry}
    away = Pipeline(check(given, "test"), pipeline.root)
    with pytest.raises(RegistrationError, match=said) as caught:
        run_pipeline(away)
    assert "or stop before it with --until evaluation" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (pipeline.root / "data" / "1_ingestion").exists()
    run_pipeline(away, until="ingestion")
    run_pipeline(away, until="conversion")


def test_a_registry_that_nothing_is_to_be_written_into_may_be_read_only(pipeline, monkeypatch):
    run_pipeline(pipeline, until="ingestion")
    monkeypatch.setattr("flows.pipeline.ORDER", ("ingestion",))  # the rest is cached, too
    monkeypatch.setattr("flows.run.summary_of", lambda _: {"registered": None})
    (pipeline.root / "mlruns").mkdir()
    monkeypatch.setattr("os.access", lambda path, _mode: "mlruns" not in str(path))
    run_pipeline(pipeline)
    with pytest.raises(RegistrationError, match=r"/mlruns cannot be written; see that it is there"):
        run_pipeline(pipeline, force=["ingestion"])


@pytest.mark.parametrize("place", ["artifacts", "artifacts/models"])
def test_files_of_a_registry_that_somebody_else_may_write_alone_are_told_before_any_work(
    pipeline, monkeypatch, place
):
    """Made by one user without umask 002, they would end another's run at registration."""
    from tasks.registration.experiment import experiment_for
    from tasks.registration.tracking import client_for

    params, root = pipeline.params.registration, pipeline.root
    experiment_for(client_for(params, root), params, root)
    (root / "mlruns" / "artifacts" / "models").mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda path, _mode: not str(path).endswith(f"/mlruns/{place}"))
    with pytest.raises(RegistrationError, match=f"/mlruns/{place} cannot be written; see that it"):
        run_pipeline(pipeline)
    assert not (root / "data" / "1_ingestion").exists()


def test_a_registry_that_was_copied_is_told_before_any_work(pipeline, tmp_path):
    from tasks.registration.experiment import experiment_for
    from tasks.registration.tracking import client_for

    params = pipeline.params.registration
    experiment_for(client_for(params, tmp_path), params, tmp_path)
    (tmp_path / "mlruns" / "artifacts").mkdir(exist_ok=True)
    copy = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy")))
    with pytest.raises(RegistrationError, match=r"copy/mlruns/mlflow\.db, is a copy of that: set "):
        run_pipeline(Pipeline(pipeline.params, copy))
    assert not (copy / "data" / "1_ingestion").exists()
