"""One version per model, proved, with its alias: also when it was cut short, damaged or beaten."""

import contextlib
import errno
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE
from safetensors.torch import load_file, save_file

from tasks.artifact import Store
from tasks.errors import PipelineError, RegistrationError
from tasks.registration import current_alias, logged_model, register, still_registered
from tasks.registration.aliases import decision, judgement
from tasks.registration.aliases.history import history
from tasks.registration.aliases.locked_aliases import LockedAliases
from tasks.registration.loader import too_long
from tasks.registration.proving import proof
from tasks.registration.task import receipt
from tests.at_length import cases_at_length


def versions(place) -> list:
    return sorted(
        place.client.search_model_versions("name = 'reward-model'"), key=lambda v: int(v.version)
    )


def test_a_first_model_becomes_champion_with_all_that_is_known_of_it(defended):
    place, made = defended, defended.better
    training, evaluation, tokenization = made
    found = receipt(place.register(made))
    assert (found["name"], found["version"], found["alias"]) == ("reward-model", 1, "champion")
    client = place.client
    version = client.get_model_version("reward-model", "1")
    assert client.get_model_version_by_alias("reward-model", "champion").version == version.version
    accuracy = evaluation.report["metrics"]["accuracy"]
    assert version.tags["accuracy"] == f"{accuracy:.4f}"
    assert version.tags["stage.training"] == training.key
    assert "conversion" in "".join(version.tags)
    assert "of 20 held-out pairs" in version.description
    warnings = evaluation.report["warnings"]
    assert warnings
    listed = version.description.partition("Warnings of the evaluation:\n\n")[2]
    assert listed.splitlines()[: len(warnings) + 1] == [*(f"- {each}" for each in warnings), ""]
    run = client.get_run(found["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.note.content"] == version.description
    assert run.data.metrics["evaluation.accuracy"] == accuracy
    assert run.data.params["sources.0.name"] == "skies"
    assert [m.value for m in client.get_metric_history(found["run_id"], "training.loss")] == [
        0.6,
        pytest.approx(0.5),
    ]
    datasets = {d.dataset.name: d.dataset.digest for d in run.inputs.dataset_inputs}
    assert set(datasets) == {"pairs-train", "pairs-eval"}
    assert all(len(digest) == 36 for digest in datasets.values())
    plots = {entry.path for entry in client.list_artifacts(found["run_id"], "plots")}
    assert plots == {f"plots/{p.name}" for p in (evaluation.path / "plots").glob("*.png")} != set()
    assert str(tokenization.path) in run.inputs.dataset_inputs[0].dataset.source


def test_registering_again_returns_the_version_that_is_there(defended, tmp_path):
    place, made = defended, defended.better
    first = place.register(made)
    assert first.cached
    # the receipt is lost, the registry is not
    again = receipt(place.register(made, Store(tmp_path / "other")))
    assert again == receipt(first)
    assert len(versions(place)) == 2
    client = place.client
    run_id = again["run_id"]
    assert len(client.get_metric_history(run_id, "evaluation.accuracy")) == 1
    assert len(client.get_metric_history(run_id, "training.loss")) == 2


AFTER = [
    (register, "run_for"),
    (register, "log_facts"),
    (logged_model, "_logged_model"),
    (logged_model, "package"),
    (register, "ensure_model"),
    (register, "create_version"),
    (register, "download"),
    (register, "ensure_proof"),
    (decision, "judge"),
    (decision, "publish"),
    (decision, "_description"),
    (decision, "_write"),
    (LockedAliases, "make_champion"),
    (register, "ensure_decision"),
    (register, "published"),
]


@pytest.mark.slow
def test_a_registration_cut_short_after_any_step_is_finished_and_not_doubled(place, monkeypatch):
    made = place.evaluated(1)
    for module, name in AFTER:
        whole = getattr(module, name)

        def cut(*arguments, whole=whole, **options):
            whole(*arguments, **options)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(module, name, cut)
            place.register(made)
    found = receipt(place.register(made))
    assert (found["version"], found["alias"]) == (1, "champion")
    assert found["decision"] == "the first champion: there was none to beat"
    client = place.client
    experiment = client.get_experiment_by_name("reward-pipeline").experiment_id
    assert len(versions(place)) == 1
    assert len(client.search_runs([experiment])) == 1
    models = client.search_logged_models([experiment])
    assert [(m.model_id, str(m.status)) for m in models] == [(found["logged_model_id"], "READY")]


WRITES = (
    *("set_model_version_tag", "delete_model_version_tag", "update_model_version"),
    *("set_registered_model_tag", "set_registered_model_alias"),
)


def cut_after(patch, write: int) -> None:
    """Ends the attempt after so many writes to the registry."""
    from mlflow import MlflowClient

    left = [write]

    def counting(whole):
        def call(*arguments, **options):
            found = whole(*arguments, **options)
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return found

        return call

    for name in WRITES:
        patch.setattr(MlflowClient, name, counting(getattr(MlflowClient, name)))


@pytest.mark.slow
def test_cut_short_after_any_write_of_the_decision_it_keeps_its_reason(place, monkeypatch):
    made = place.evaluated(1)
    whole = register.ensure_proof

    def proved(*arguments):
        whole(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(register, "ensure_proof", proved)
        place.register(made)
    cuts, write, found = 0, 0, None
    decided = False
    while found is None:
        # Of the decision, one write more at a time; once it stands, each attempt makes one of the
        # alias's, and goes on where the last one ended.
        write = 1 if decided else write + 1
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            cut_after(patch, write)
            found = receipt(place.register(made))
        cuts += found is None
        decided = "decision.for" in versions(place)[0].tags
    assert cuts >= 12
    assert (found["version"], found["alias"]) == (1, "champion")
    assert found["decision"].startswith("the first champion")
    moves = history(place.client, "reward-model")
    assert [(m.alias, m.previous, m.version) for m in moves] == [("champion", None, 1)]


def test_the_better_model_takes_the_alias_and_an_old_receipt_says_so(overtaken):
    place, worse, better = overtaken, overtaken.worse, overtaken.better
    assert worse[1].report["metrics"]["correct"] < better[1].report["metrics"]["correct"]
    first = receipt(place.register(worse))
    second_artifact = place.register(better)
    second = receipt(second_artifact)
    assert (first["alias"], second["alias"]) == ("champion", "champion")
    assert second["decision"].startswith("beats version 1: accuracy")
    assert current_alias(second, place.params.tracking_uri, place.root) == "champion"
    assert current_alias(first, place.params.tracking_uri, place.root) is None
    # the champion was scored on the same pairs, as its own evaluation had scored it
    kept = pq.read_table(second_artifact.path / "champion_scores.parquet")
    assert kept.equals(pq.read_table(worse[1].path / "scores.parquet"))
    assert still_registered(first, place.params.tracking_uri, place.root) is None


def test_the_worse_model_is_only_a_challenger(defended):
    place = defended
    found = receipt(place.register(place.worse))
    assert found["alias"] == "challenger"
    assert found["decision"].startswith("does not beat version 1")
    champion = place.client.get_model_version_by_alias("reward-model", "champion")
    assert int(champion.version) == 1


@pytest.mark.slow
def test_a_champion_with_another_tokenizer_reads_the_same_conversations(
    place, tmp_path_factory, monkeypatch
):
    from tasks.model.params import ScratchParams
    from tasks.model.scratch import build_scratch

    champion = place.evaluated(1)
    place.register(champion)
    place.base = tmp_path_factory.mktemp("other-base")
    corpus = ["Colors of other skies: green, blue, say so or not. What?"] * 20
    build_scratch(ScratchParams(vocab_size=300, hidden_size=32), iter(corpus), place.base)
    other = place.evaluated(2)
    # The pairs fit the new model, whatever their length in the champion's own tokens.
    monkeypatch.setattr(too_long, "positions", lambda _: 4)
    found = place.register(other)
    kept = pq.read_table(found.path / "champion_scores.parquet")
    expected = pq.read_table(champion[1].path / "scores.parquet")
    assert kept["pair_id"].equals(expected["pair_id"])
    for side in ("reward_chosen", "reward_rejected"):
        assert kept[side].to_pylist() == pytest.approx(expected[side].to_pylist(), abs=1e-6)
    assert "version 1: accuracy" in receipt(found)["decision"]


def test_a_champion_that_cannot_be_scored_is_not_overtaken(defended):
    place = defended
    shutil.rmtree(receipt(place.register(place.better))["location"])
    place.params = place.params.model_copy(update={"min_improvement": 0.01})  # judged anew
    found = receipt(place.register(place.worse))
    assert found["alias"] == "challenger"
    assert "not compared: version 1 could not score" in found["decision"]
    assert "version 1 of 'reward-model' has no files at " in found["decision"]


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        (judgement, "champion_scores", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
        (shutil, "copyfile", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
        *cases_at_length(
            (judgement, "download", MlflowException("database is locked", TEMPORARILY_UNAVAILABLE)),
            (MlflowClient, "download_artifacts", MlflowException("[Errno 28] No space left")),
            (judgement, "read_trained_on", MlflowException("('Connection broken: Incomplete")),
        ),
    ],
)
def test_a_comparison_that_the_machine_cut_short_is_made_by_the_next_run(
    defended, monkeypatch, module, name, error
):
    """A decision is made once: this one would keep a better model from ever being champion."""

    def fails(*_, **__):
        raise error

    place = defended
    place.params = place.params.model_copy(update={"min_improvement": 0.01})  # judged anew
    with monkeypatch.context() as patch:
        patch.setattr(module, name, fails)
        with pytest.raises(PipelineError, match=r"[Nn]o space|is locked|Connection broken"):
            place.register(place.worse)
    found = receipt(place.register(place.worse))
    assert found["decision"].startswith("does not beat version 1")
    assert "on 20 frozen pairs" in found["decision"]


@pytest.mark.slow
def test_a_champion_whose_files_are_others_than_were_registered_is_not_overtaken(place):
    """Its weights still load, and would lose: nobody knows whose rewards those are."""
    place.params = place.params.model_copy(update={"min_improvement": 0.0})
    champion = receipt(place.register(place.worse))
    file = Path(champion["location"]) / "model.safetensors"
    weights = load_file(file)
    save_file(weights | {"score.weight": -weights["score.weight"]}, file, {"format": "pt"})
    found = receipt(place.register(place.better))
    assert found["alias"] == "challenger"
    assert "the files of version 1 of 'reward-model' are not those that" in found["decision"]


@pytest.mark.slow
def test_a_version_whose_bytes_differ_gets_no_alias_and_says_why_then_is_mended(place, monkeypatch):
    made = place.evaluated(1)
    whole = register.create_version

    def damages(client, params, subject, run_id, model):
        version = whole(client, params, subject, run_id, model)
        weights = Path(model.artifact_location) / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
        return version

    with monkeypatch.context() as patch:
        patch.setattr(register, "create_version", damages)
        with pytest.raises(RegistrationError, match=r"model\.safetensors .* differs"):
            place.register(made)
    version = versions(place)[0]
    assert "model.safetensors" in version.tags["refused"]
    assert place.client.get_registered_model("reward-model").aliases == {}
    found = receipt(place.register(made))
    assert (found["version"], found["alias"]) == (1, "champion")
    tags = place.client.get_model_version("reward-model", "1").tags
    assert "refused" not in tags
    # the consumer pads, the evaluation lays prompts out once: rounding may differ, rewards not
    assert "rewards for 20 pairs after download" in tags["verified"]
    assert all(float(n) < 1e-5 for n in re.findall(r"differ by ([\d.e-]+)", tags["verified"]))


@pytest.mark.slow
def test_an_evaluation_of_another_model_is_found_out(defended):
    place = defended
    training, _, tokenization = place.worse
    _, evaluation, _ = place.better
    before = place.client.get_registered_model("reward-model").aliases
    with pytest.raises(RegistrationError, match="does not score as the trained model did"):
        place.register((training, evaluation, tokenization))
    assert place.client.get_registered_model("reward-model").aliases == before
    assert "refused" in place.client.get_model_version("reward-model", "2").tags


@pytest.mark.parametrize(
    ("module", "name", "result", "said"),
    [
        (proof, "score_in_clean_process", OSError(5, "Input/output error"), "Input/output error"),
        (register, "download", MlflowException("no answer"), "no answer"),
        (subprocess, "run", subprocess.CompletedProcess([], -9, "", ""), "was killed by signal 9"),
    ],
)
def test_a_proof_that_could_not_be_made_says_nothing_about_the_version(
    defended, monkeypatch, module, name, result, said
):
    """A full disk, a server that is away, a process that the machine killed."""

    def fails(*_, **__):
        if isinstance(result, Exception):
            raise result
        return result

    place, made = defended, defended.better
    before = place.register(made)
    run_id = receipt(before)["run_id"]
    shutil.rmtree(before.path)
    place.client.delete_model_version_tag("reward-model", "1", "verified")
    with monkeypatch.context() as patch:
        patch.setattr(module, name, fails)
        with pytest.raises(RegistrationError, match=said):
            place.register(made)
    tags = place.client.get_model_version("reward-model", "1").tags
    assert not {"refused", "verified"} & tags.keys()
    assert place.client.get_run(run_id).info.status == "FAILED"  # nobody works on it any more
    assert place.client.get_registered_model("reward-model").aliases["champion"] == 1


def test_the_receipt_is_json_that_others_can_script_on(defended):
    found = defended.register(defended.better)
    registered = json.loads((found.path / "registered.json").read_bytes())
    assert registered["model_uri"] == "models:/reward-model/1"
    assert found.report["version"] == 1
    assert not (found.path / "scratch").exists()
