"""A model's files in MLflow's store, where an earlier attempt has left some."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import RegistrationError
from tasks.registration import still_registered
from tasks.registration.proving.package import shipped_sources
from tasks.registration.task import receipt

NAME = "reward-model"


def register_over_another_release(place, made, tmp_path):
    """Registers what one release has refused: its modules lie beside what is uploaded."""
    found = receipt(place.register(made))
    shutil.rmtree(place.register(made).path)
    other = tmp_path / "code" / "reward_inference_000000000000.py"
    other.parent.mkdir()
    other.write_text("")
    place.client.log_model_artifacts(found["logged_model_id"], str(tmp_path))
    place.client.set_model_version_tag(NAME, str(found["version"]), "refused", "a defect")
    assert receipt(place.register(made))["version"] == found["version"]
    code = place.client.list_logged_model_artifacts(found["logged_model_id"], "code")
    modules = sorted(Path(entry.path).name for entry in code)
    assert modules == sorted(f"{name}.py" for name in shipped_sources())


@pytest.mark.slow
def test_modules_of_an_earlier_release_make_room_for_those_that_are_uploaded(defended, tmp_path):
    """A version that one release refused, or whose files were lost, is mended by the next one."""
    register_over_another_release(defended, defended.better, tmp_path)


@pytest.mark.slow
def test_a_version_has_its_own_files_whatever_experiment_a_later_run_is_in(place):
    made = place.evaluated(1)
    first = receipt(place.register(made))
    params = place.params.model_copy(update={"experiment_name": "later"})
    later = replace(place, params=params)
    second = receipt(later.register(made))
    assert second["run_id"] != first["run_id"]
    for name in ("version", "logged_model_id", "location"):
        assert second[name] == first[name]
    shutil.rmtree(second["location"])
    assert "is missing" in str(still_registered(second, params.tracking_uri, place.root))
    later.register(made)
    uri = place.client.get_model_version_download_uri("reward-model", "1")
    assert Path(uri.removeprefix("file://"), "MLmodel").is_file()


@pytest.mark.slow
def test_a_copied_registry_writes_nothing_into_the_versions_of_the_first(defended, tmp_path):
    made, root = defended.better, defended.root
    copy = replace(defended, root=Path(shutil.copytree(root, tmp_path / "copy")))

    def files():
        found = {path: path.stat() for path in (root / "mlruns").rglob("*") if path.is_file()}
        return {path: (status.st_mtime_ns, status.st_size) for path, status in found.items()}

    before = files()

    def registered(**names):
        asked = {"min_improvement": 0.5, **names}
        return replace(copy, params=copy.params.model_copy(update=asked)).register(made)

    with pytest.raises(RegistrationError, match=r"experiment_name and .*model_name to new names"):
        registered()
    with pytest.raises(
        RegistrationError, match=r"version 1 of 'reward-model' .* is a copy of that"
    ):
        registered(experiment_name="copied")
    own = receipt(registered(experiment_name="copied", model_name="copied-model"))
    assert Path(own["location"]).is_relative_to(copy.root / "mlruns")
    assert (own["version"], own["alias"]) == (1, "champion")
    assert files() == before


@pytest.mark.slow
def test_a_version_whose_logged_model_was_deleted_is_to_be_deleted_too(place):
    made = place.evaluated(1)
    first = receipt(place.register(made))
    place.client.delete_logged_model(first["logged_model_id"])
    shutil.rmtree(first["location"])
    with pytest.raises(RegistrationError, match=r"was deleted in MLflow; delete the version, too"):
        place.register(made)
    place.client.delete_model_version("reward-model", "1")
    second = receipt(place.register(made))
    assert (second["version"], second["alias"]) == (2, "champion")
    assert second["logged_model_id"] != first["logged_model_id"]
