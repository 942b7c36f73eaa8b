"""A model's files in MLflow's store, where an earlier attempt has left some."""

import shutil
from pathlib import Path

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


def test_modules_of_an_earlier_release_make_room_for_those_that_are_uploaded(defended, tmp_path):
    """A version that one release refused, or whose files were lost, is mended by the next one."""
    register_over_another_release(defended, defended.better, tmp_path)
