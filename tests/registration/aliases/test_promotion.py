"""Aliases move forward by themselves, and back by hand: proved first, and written down."""

import errno
import json
import logging
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from typer.testing import CliRunner

from flows.__main__ import app
from tasks.artifact import Store
from tasks.errors import RegistrationError
from tasks.evaluation import EvaluationParams
from tasks.evaluation import step as evaluation_step
from tasks.registration.aliases.decision import _forward_only
from tasks.registration.aliases.gate import decide
from tasks.registration.aliases.history import entries, former_champions, history
from tasks.registration.aliases.locked_aliases import LockedAliases, Reason
from tasks.registration.aliases.promotion import promote
from tasks.registration.aliases.rollback import rollback
from tasks.registration.params import GateParams
from tasks.registration.store import refusals_told
from tasks.registration.tags import REFUSED, ROLLED_BACK
from tasks.registration.task import receipt
from tasks.registration.tracking import run_for
from tests.registration.conftest import Place

NAME = "reward-model"


@pytest.fixture
def command():
    return CliRunner()


def aliases(place) -> dict[str, int]:
    found = place.client.get_registered_model(NAME).aliases
    return {alias: int(version) for alias, version in found.items()}


def unlocked(client) -> LockedAliases:
    """Of a registry that nobody else uses."""
    return LockedAliases(client, NAME, check_lock=lambda: None)


def made_moves(place) -> list[tuple]:
    return [(m.alias, m.previous, m.version, m.how) for m in history(place.client, NAME)]


@pytest.mark.slow
def test_a_champion_is_rolled_back_and_promoted_again_each_proved_and_written_down(
    overtaken, command
):
    place = overtaken
    first = receipt(place.register(place.worse))
    root = ["--root", str(place.root)]
    done = command.invoke(app, ["rollback", NAME, "--why", "loves lists", *root])
    assert done.exit_code == 0, done.output
    assert "champion is version 1 (before: version 2)" in done.stdout
    assert "golden sequences as in training" in done.stdout
    tags = place.client.get_model_version(NAME, "2").tags
    assert tags["rolled_back"] == "loves lists"
    assert aliases(place) == {"champion": 1}
    done = command.invoke(app, ["rollback", NAME, "--why", "again", *root])  # one rollback, not two
    assert "champion is version 1 already (before: version 2)" in done.stdout
    assert "loves lists; --from 1 goes one further back" in done.stdout
    done = command.invoke(app, ["rollback", NAME, "--why", "again", "--from", "1", *root])
    assert (done.exit_code, "had no champion before version 1" in done.stderr) == (1, True)
    with pytest.raises(RegistrationError, match="is version 1, not 7: somebody moved it"):
        rollback(place.params, place.root, why="again", from_version=7)

    moved = promote(place.params, place.root, 2, why="it was the data")
    assert (moved.previous, moved.version, aliases(place)) == (1, 2, {"champion": 2})
    assert "rolled_back" not in place.client.get_model_version(NAME, "2").tags
    done = command.invoke(app, ["promote", NAME, "2", "--why", "once more", *root])
    assert "champion was version 2 already: nothing was moved" in done.stdout
    assert made_moves(place) == [
        ("champion", None, 1, "register"),
        ("champion", 1, 2, "register"),
        ("champion", 2, 1, "rollback"),
        ("champion", 1, 2, "promote"),
    ]
    shown = command.invoke(app, ["alias-history", NAME, "--json", *root])
    told = json.loads(shown.stdout)
    assert [move["why"] for move in told[2:]] == ["loves lists", "it was the data"]
    assert all("@" in move["who"] and move["when"].endswith("+00:00") for move in told)

    # What is damaged, unknown or without a reason does not move.
    weights = Path(first["location"]) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RegistrationError, match="not those that were registered"):
        rollback(place.params, place.root, why="once more")
    promote_first = ["promote", NAME, "1", "--why", "x", "--alias"]  # refused before its proof
    for arguments, told in (
        ([*promote_first, "v1"], "ParamsError: alias is 'v1', which MLflow keeps"),
        ([*promote_first, "Latest"], "ParamsError: alias is 'Latest', which MLflow keeps"),
        ([*promote_first, "bad alias!"], "ParamsError: alias is 'bad alias!', expected"),
        (["promote", NAME, "9", "--why", "x"], "has no version 9"),
        (["promote", NAME, "1", "--why", " "], "needs a reason"),
        (["rollback", "other", "--why", "x"], "no registered model 'other'"),
        (["rollback", "O/o", "--why", "x"], "ParamsError: model_name"),
    ):
        done = command.invoke(app, [*arguments, *root])
        assert (done.exit_code, told in done.stderr) == (1, True), done.stderr
    assert aliases(place) == {"champion": 2}
    assert len(entries(place.client.get_registered_model(NAME).tags)) == 4


def test_a_move_that_the_registry_refuses_is_not_written_down_as_made(place):
    client = place.client
    client.create_registered_model(NAME)
    with pytest.raises(RegistrationError, match="alias 'bad alias!' of 'reward-model' was not set"):
        unlocked(client).move("bad alias!", 1, Reason("promote", "x"))
    assert entries(client.get_registered_model(NAME).tags) == {}


@pytest.mark.parametrize(
    ("refused", "advice"),
    [
        ("attempt to write", "see that it is there, runs and can be written"),
        ("database is locked", "another program has been writing to it"),
        ("database or disk is full", "make room there, and run again."),
    ],
)
def test_a_database_that_cannot_be_written_is_told_in_one_sentence(place, caplog, refused, advice):
    with pytest.raises(RegistrationError) as caught, refusals_told(place.params, place.root):  # noqa: PT012
        logging.getLogger("mlflow.store.db.utils").error("two tracebacks")
        raise MlflowException(f"(sqlite3.OperationalError) {refused}\n[SQL: INSERT INTO x]")
    assert f"refuses: (sqlite3.OperationalError) {refused}; {advice}" in str(caught.value)
    assert caplog.text == ""


def test_the_history_tells_of_every_alias(place, command, tmp_path):
    client = place.client
    client.create_registered_model(NAME)
    for _ in range(2):
        client.create_model_version(NAME, str(tmp_path))
    for alias, version in (("staging", 1), ("champion", 1), ("staging", 2)):
        unlocked(client).move(alias, version, Reason("promote", f"{alias} is {version}"))
    told = [("staging", None, 1), ("champion", None, 1), ("staging", 1, 2)]
    assert made_moves(place) == [(*move, "promote") for move in told]
    root = ["--root", str(place.root)]
    shown = command.invoke(app, ["alias-history", NAME, "--json", *root])
    found = [(m["alias"], m["previous"], m["version"]) for m in json.loads(shown.stdout)]
    assert found == told
    shown = command.invoke(app, ["alias-history", NAME, *root])
    assert "staging: 1 -> 2  promote" in shown.stdout.splitlines()[-1]


def test_a_long_reason_in_any_script_fits_into_the_tables_of_every_database(place, tmp_path):
    client = place.client
    client.create_registered_model(NAME)
    client.create_model_version(NAME, str(tmp_path))
    unlocked(client).move("staging", 1, Reason("promote", "\U0001f600" * 6000))
    (entry,) = (v for n, v in client.get_registered_model(NAME).tags.items() if n[:5] == "move.")
    assert len(entry) <= 5000  # what SQLite takes and Postgres does not
    assert [move.why for move in history(client, NAME)] == ["\U0001f600" * 1000]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:9", r"refuses: API request to \S* failed: \[Errno 111\] \w+ refused;"),
        ("other://store", "refuses: .* unsupported URI"),
        ("sqlite:///{root}/no.db", "refuses: file is not a database"),
        ("sqlite:///{root}/absent/mlflow.db", "does not exist: no model is registered"),
    ],
)
def test_a_store_that_cannot_be_asked_is_told_in_one_sentence(
    place, command, monkeypatch, address, said
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (place.root / "no.db").write_text("no database")
    address = address.format(root=place.root)
    asked = ["--tracking-uri", address, "--root", str(place.root)]
    for words in (["promote", NAME, "1", "--why", "x"], ["alias-history", NAME]):
        done = command.invoke(app, [*words, *asked])
        assert done.exit_code == 1, done.output
        assert re.match(rf"RegistrationError: .*{said}", done.stderr)
        assert len(done.stderr.splitlines()) == 1
    params = place.params.model_copy(update={"tracking_uri": address})
    if "absent" not in address:  # there a registration makes a new one
        with pytest.raises(RegistrationError, match=said):
            replace(place, params=params).register(place.evaluated(1))
    assert not (place.root / "absent").exists()  # asking for a model makes no database


def test_a_registry_that_cannot_be_written_to_is_told_in_one_sentence(place, command, monkeypatch):
    place.client.create_registered_model(NAME)

    def read_only(*_args, **_more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tasks.registration.aliases.lock.locked", read_only)
    done = command.invoke(app, ["promote", NAME, "1", "--why", "x", "--root", str(place.root)])
    assert done.exit_code == 1
    assert re.fullmatch(
        r"ArtifactError: cannot write below \S+/mlruns: Read-only file.*\n", done.stderr
    )


@pytest.mark.slow
def test_a_run_that_began_before_the_champions_does_not_overtake_it(place):
    worse, better = place.worse, place.better
    run_for(place.client, place.params, place.root, better[0].key)  # begins first, ends last
    place.register(worse)
    found = receipt(place.register(better))
    assert (found["outcome"], found["alias"]) == ("challenger", "challenger")
    assert found["decision"].startswith("beats version 1")
    assert (
        "began before that of a champion (place 1, version 2, against 2, version 1)"
        in (found["decision"])
    )
    assert aliases(place) == {"champion": 1, "challenger": 2}
    promote(place.params, place.root, 2, why="it is better all the same")
    assert aliases(place) == {"champion": 2}  # no challenger any more


@pytest.mark.slow
def test_a_rejected_version_stands_without_an_alias_until_the_gate_or_a_person_says_so(place):
    made = place.evaluated(1)
    accuracy = made[1].report["metrics"]["accuracy"]
    place.params = place.params.model_copy(update={"gate": GateParams(min_accuracy=0.99)})
    found = receipt(place.register(made))
    assert (found["outcome"], found["alias"], found["version"]) == ("rejected", None, 1)
    wanted = f"min_accuracy {accuracy:.4g}, bound >= 0.99: fails"
    assert found["decision"] == f"unfit: {wanted}"
    assert {b["name"]: b["holds"] for b in found["bounds"]} == {
        "contract": True,
        "min_accuracy": False,
        "max_tie_rate": True,
    }
    version = place.client.get_model_version(NAME, "1")
    assert version.tags["outcome"] == "rejected"
    assert version.tags["gate.min_accuracy"] == wanted
    assert wanted in version.description
    assert aliases(place) == {}
    with pytest.raises(RegistrationError, match="rejected by the gate: unfit: min_accuracy"):
        promote(place.params, place.root, 1, why="x")
    promote(place.params, place.root, 1, why="only to try RL", despite_gate=True, alias="trial")
    assert aliases(place) == {"trial": 1}

    place.params = place.params.model_copy(update={"gate": GateParams(min_accuracy=0.1)})
    found = receipt(place.register(made))
    assert (found["outcome"], found["version"]) == ("champion", 1)
    assert "gate.min_accuracy" in place.client.get_model_version(NAME, "1").tags
    assert aliases(place) == {"trial": 1, "champion": 1}


@pytest.mark.slow
def test_a_new_evaluation_of_one_model_makes_no_new_version(place, tmp_path):
    training, evaluation, tokenization = place.evaluated(1)
    first = receipt(place.register((training, evaluation, tokenization)))
    step = evaluation_step(
        EvaluationParams(device="cpu", histogram_bins=20), training, tokenization
    )
    other = Store(tmp_path / "other").obtain(step)
    assert other.digest != evaluation.digest
    again = receipt(place.register((training, other, tokenization)))
    assert (again["version"], again["alias"]) == (first["version"], "champion")
    assert again["decision"] == "the champion already, judged anew"
    tags = place.client.get_model_version(NAME, "1").tags
    assert tags["evaluation_digest"] == other.digest
    assert len(place.client.search_model_versions(f"name = '{NAME}'")) == 1
    assert made_moves(place) == [("champion", None, 1, "register")]


@pytest.mark.slow
@pytest.mark.parametrize("setter", ["set_registered_model_tag", "set_registered_model_alias"])
def test_a_rollback_cut_short_is_finished_and_not_doubled(overtaken, monkeypatch, setter):
    place = overtaken
    whole = getattr(MlflowClient, setter)

    def cut(*arguments):
        whole(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(MlflowClient, setter, cut)
        rollback(place.params, place.root, why="first try")
    if setter == "set_registered_model_tag":  # written down, and not made yet
        assert made_moves(place)[-1] == ("champion", 1, 2, "register")
    found = rollback(place.params, place.root, why="second try")
    assert (found.previous, found.version) == (2, 1)
    assert "rollback to champion" in place.client.get_model_version(NAME, "1").tags["by_hand"]
    assert aliases(place) == {"champion": 1}
    assert made_moves(place)[2:] == [("champion", 2, 1, "rollback")]
    assert len(entries(place.client.get_registered_model(NAME).tags)) == 3
    for weights in (place.root / "mlruns").rglob("model.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(RegistrationError, match="not those that were registered"):
        rollback(place.params, place.root, why="third try")


def test_what_was_refused_rolled_back_or_made_elsewhere_serves_only_as_a_person_says(
    place, tmp_path, monkeypatch
):
    client = place.client
    client.create_registered_model(NAME)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    for _ in range(3):
        client.create_model_version(NAME, str(tmp_path))
    held = unlocked(client)

    def told(sentence, move, *arguments):
        with pytest.raises(RegistrationError, match=sentence):
            move(place.params, place.root, *arguments, why="x")

    told("has no champion to roll back", rollback)
    for number in (1, 2):
        held.make_champion(held.version(number), Reason("register", "better"))
    client.set_model_version_tag(NAME, "1", REFUSED, "other bytes")
    refused = r"version 1 of 'reward-model' was refused: other bytes; run the pipeline"
    told(refused, promote, 1)
    told(f"no champion before version 2 that could take its place; {refused}", rollback)
    told("version 3 of 'reward-model' was not registered by this pipeline", promote, 3)

    client.set_model_version_tag(NAME, "3", ROLLED_BACK, "loves lists")
    found = _forward_only(held, held.version(3), decide((), True, "beats version 2"))
    assert (found.outcome, found.reason.partition("; but ")[2]) == (
        "challenger",
        "was rolled back (loves lists): only promote makes it champion",
    )
    found = _forward_only(held, held.version(2), decide((), False, "does not beat version 1"))
    assert found.outcome == "champion"
    assert found.reason.startswith("keeps the alias champion until somebody runs promote")

    whole = MlflowClient.set_registered_model_alias
    monkeypatch.setattr(MlflowClient, whole.__name__, lambda *given: whole(*given[:-1], "1"))
    with pytest.raises(RegistrationError, match="the registry holds 1: somebody else moved it"):
        held.move("staging", 2, Reason("promote", "x"))


def test_former_champions_are_those_that_were_not_rolled_back():
    from tasks.registration.aliases.history import Move

    def told(*steps):
        other = Move("challenger", None, 9, "register", "", "", "")
        return [other, *(Move("champion", None, v, how, "", "", "") for v, how in steps)]

    one, two, three = (1, "register"), (2, "register"), (3, "promote")
    assert former_champions(told(one)) == []
    assert former_champions(told(one, two, three)) == [2, 1]
    assert former_champions(told(one, two, three, (2, "rollback"))) == [1]
    assert former_champions(told(one, two, (1, "rollback"), three)) == [1]


@pytest.mark.slow
def test_a_registry_that_was_moved_is_not_sent_to_a_run_which_could_not_register(
    new_place, tmp_path
):
    place = new_place("moving")
    place.register(place.better)
    moved = place.root.rename(tmp_path / "moved")
    database = moved / "mlruns" / "mlflow.db"
    told = rf"has no files at .*moving.* now {database}, was made where .* move its directory back"
    with pytest.raises(RegistrationError, match=told):
        promote(place.params, moved, 1, why="better", alias="staging")
    with pytest.raises(RegistrationError, match="The directory was moved"):
        Place(moved, place.base, place.workshop).register(place.worse)
    anew = place.params.model_copy(update={"experiment_name": "anew"})
    for _ in range(2):  # nor does a second attempt call registered what nobody can load
        with pytest.raises(RegistrationError, match=told):
            Place(moved, place.base, place.workshop, anew).register(place.better)


def test_no_room_for_a_copy_of_a_version_is_one_sentence(overtaken, monkeypatch):
    def full(_source, destination, **_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(destination))

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(RegistrationError) as caught:
        promote(overtaken.params, overtaken.root, 1, why="better", alias="staging")
    assert "no space is left for a copy of version 1 of 'reward-model' below " in str(caught.value)
    assert "TMPDIR" in str(caught.value)
    assert "\n" not in str(caught.value)
