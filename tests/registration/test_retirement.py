"""Old versions go with their files, and nothing that serves or could serve goes with them."""

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

from tasks.errors import ParamsError, RegistrationError
from tasks.registration.aliases.by_hand import locked_model
from tasks.registration.aliases.locked_aliases import Reason
from tasks.registration.experiment import experiment_for
from tasks.registration.logged_model import model_of
from tasks.registration.proving.download import local_path
from tasks.registration.registry import ARTIFACT_DIGEST
from tasks.registration.retirement import retire
from tasks.registration.tags import ROLLED_BACK

NAME = "reward-model"


@pytest.fixture
def four(place, tmp_path):
    """Version 2 is champion, as version 1 was before; 3 and 4 have no alias."""
    client = place.client
    client.create_registered_model(NAME)
    experiment = experiment_for(client, place.params, place.root)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    for number in "1234":
        model = client.create_logged_model(experiment, tags={ARTIFACT_DIGEST: number})
        client.log_model_artifacts(model.model_id, str(tmp_path))
        client.finalize_logged_model(model.model_id, "READY")
        source = f"models:/{model.model_id}"
        tags = {ARTIFACT_DIGEST: number}
        client.create_model_version(NAME, source, tags=tags, model_id=model.model_id)
    with locked_model(place.params, place.root) as aliases:
        for number in (1, 2):
            aliases.make_champion(aliases.version(number), Reason("register", "better"))
    return place


def files_of(client, version):
    model = client.get_logged_model(model_of(client.get_model_version(NAME, version)))
    return local_path(model.artifact_location)


def standing(client):
    return sorted(int(v.version) for v in client.search_model_versions(f"name = '{NAME}'"))


def test_what_serves_and_what_a_rollback_needs_outlives_its_age(four, monkeypatch):
    client, params = four.client, four.params
    for none in (0, -1):
        with pytest.raises(ParamsError, match=f"keep is {none}, expected 1 or more"):
            retire(params, four.root, keep=none)
    files = files_of(client, "3")
    assert [r.version for r in retire(params, four.root, keep=1, dry_run=True)] == [3]
    assert standing(client) == [1, 2, 3, 4]

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "delete_model_version", dies)
        with pytest.raises(KeyboardInterrupt):
            retire(params, four.root, keep=1)
    [retired] = retire(params, four.root, keep=1)
    assert (retired.version, standing(client), files.exists()) == (3, [1, 2, 4], False)
    assert retire(params, four.root, keep=1) == []
    client.set_model_version_tag(NAME, "1", ROLLED_BACK, "it likes lists")  # no reserve any more
    assert [r.version for r in retire(params, four.root, keep=1)] == [1]


def test_a_store_that_is_busy_amid_a_retirement_loses_no_version_whose_files_would_stay(
    four, monkeypatch
):
    def busy(*_):
        raise MlflowException("database is locked", TEMPORARILY_UNAVAILABLE)

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "get_logged_model", busy)
        with pytest.raises(RegistrationError, match="database is locked"):
            retire(four.params, four.root, keep=1)
    assert standing(four.client) == [1, 2, 3, 4]
    assert files_of(four.client, "3").is_dir()


def test_files_that_serve_another_name_stay_and_other_programs_versions_too(four):
    client, params = four.client, four.params
    model = model_of(client.get_model_version(NAME, "3"))
    files = files_of(client, "3")
    client.create_registered_model("other")
    client.create_model_version("other", f"models:/{model}", model_id=model)
    [retired] = retire(params, four.root, keep=1)
    assert (retired.version, retired.bytes) == (3, 0)
    foreign = client.create_model_version(NAME, str(files))
    assert files.is_dir()
    [retired] = retire(params, four.root, keep=1)
    assert (retired.version, retired.bytes) == (4, len(b"weights"))
    assert standing(client) == [1, 2, int(foreign.version)]


def test_the_version_that_a_rollback_comes_to_past_the_present_champion_stays(four):
    """Champions 1, 2, 3, then 2 again by hand; 3 cannot serve: a rollback goes to 1."""
    client, params = four.client, four.params
    with locked_model(params, four.root) as aliases:
        for number in (3, 2):
            aliases.make_champion(aliases.version(number), Reason("promote", "better"))
    client.delete_model_version(NAME, "3")
    assert retire(params, four.root, keep=1) == []
    assert standing(client) == [1, 2, 4]


def test_files_that_two_old_versions_share_go_with_the_last_of_them(four):
    client, params = four.client, four.params
    files = files_of(client, "3")
    model = model_of(client.get_model_version(NAME, "3"))
    for _ in ("5", "6"):
        tags = {ARTIFACT_DIGEST: "3"}
        client.create_model_version(NAME, f"models:/{model}", tags=tags, model_id=model)
    client.create_model_version(NAME, str(files))
    expected = [(3, 0), (4, len(b"weights")), (5, 0), (6, len(b"weights"))]
    for dry_run in (True, False):
        assert files.is_dir()
        retired = retire(params, four.root, keep=1, dry_run=dry_run)
        assert [(r.version, r.bytes) for r in retired] == expected
    assert (standing(client), files.exists()) == ([1, 2, 7], False)
