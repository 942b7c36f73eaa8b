"""What is lost, changed or exchanged in the registry is found, told, and mended by the next run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.artifact import Store
from tasks.errors import RegistrationError
from tasks.evaluation import EvaluationParams
from tasks.evaluation import step as evaluation_step
from tasks.registration import still_registered, versions_standing
from tasks.registration.aliases.promotion import promote
from tasks.registration.proving.proof import prove_again
from tasks.registration.proving.seal import seal_of, write_sums
from tasks.registration.store import refusals_told
from tasks.registration.task import RECEIPT, receipt
from tests.evaluation.pieces import conversations, stored, write_tokenization


@pytest.mark.slow
def test_a_receipt_that_the_registry_does_not_bear_out_is_built_again(defended, tmp_path):
    place, made = defended, defended.better
    first = receipt(place.register(made))
    weights = Path(first["location"]) / "model.safetensors"
    shutil.rmtree(first["location"])
    found = place.register(made)
    missing = f"REGISTRY {first['location']}"
    assert (found.cached, missing in found.reason) == (False, True)
    assert _but_for_the_seal(found) == _but_for_the_seal(first)
    assert weights.is_file()
    # what was decided of it came back with the files
    assert (weights.parent / "registration" / "report.html").is_file()

    place.client.delete_model_version("reward-model", "1")
    found = place.register(made)
    assert "no longer holds version 1 of 'reward-model'" in found.reason
    assert receipt(found)["version"] == 3
    assert receipt(found)["logged_model_id"] == first["logged_model_id"]

    address = place.params.tracking_uri
    assert "no longer holds" in still_registered(receipt(found), address, tmp_path)


def test_a_changed_byte_of_a_registered_file_is_found_and_mended_by_the_next_run(defended):
    place, made = defended, defended.better
    first = receipt(place.register(made))
    assert place.register(made).cached
    weights = Path(first["location"]) / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = place.register(made)
    assert not found.cached
    assert f"REGISTRY {first['location']} holds other files than were registered" in found.reason
    assert weights.read_bytes() == whole
    assert _but_for_the_seal(found) == _but_for_the_seal(first)
    os.utime(weights)  # touched, and the same
    assert place.register(made).cached


def test_every_version_that_was_registered_is_verified_and_one_that_was_deleted_left_out(defended):
    place, made = defended, defended.better
    artifact = place.register(made)
    weights = Path(receipt(artifact)["location"]) / "model.safetensors"
    uri = receipt(artifact)["model_uri"]

    def verified(**how):
        return versions_standing([*made, artifact], place.root, **how)

    assert verified() == verified(deep=True) == {uri: None}
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    fault = (
        f"REGISTRY {weights.parent} holds other files than were registered, first {weights.name}"
    )
    assert verified() == {uri: fault}
    os.utime(artifact.path / RECEIPT)  # a bit that flips leaves no time that says so
    assert (verified(), verified(deep=True)) == ({uri: None}, {uri: fault})
    weights.unlink()
    assert verified() == {uri: f"REGISTRY {weights} is missing"}
    place.client.delete_model_version("reward-model", str(receipt(artifact)["version"]))
    assert verified() == {}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["config", "others"])
def test_damage_to_any_file_of_a_version_is_told_and_mended_by_the_next_run(
    defended, tmp_path, damage
):
    place, made = defended, defended.better
    first = receipt(place.register(made))
    files = Path(first["location"])
    config = (files / "config.json").read_bytes()
    if damage == "config":  # of the same size, and no JSON any more
        (files / "config.json").write_bytes(b"[" + config[1:])
    else:
        (files / "normalization.json").write_bytes(b"{")
        next((files / "code").glob("reward_encode_*.py")).unlink()
        (files / "code" / "nowhere.py").symlink_to(tmp_path / "nowhere")
        (files / "reward_contract.json").unlink()
        (files / "reward_contract.json").mkdir()
    version = place.client.get_model_version("reward-model", str(first["version"]))
    with pytest.raises(RegistrationError), refusals_told(place.params, place.root):
        prove_again(place.client, version, tmp_path / "before")
    found = place.register(made)
    assert not found.cached
    assert found.reason.startswith("REGISTRY ")
    version = place.client.get_model_version("reward-model", str(first["version"]))
    assert "golden sequences" in prove_again(place.client, version, tmp_path / "after").sentence
    assert (files / "config.json").read_bytes() == config
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=files, check=False, text=True,
        capture_output=True,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout) == (0, "")
    assert place.register(made).cached


def _but_for_the_seal(found):
    """A receipt without what names MLflow's own files, which hold the time of their making."""
    registered = found if isinstance(found, dict) else receipt(found)
    return {k: v for k, v in registered.items() if k != "package_digest"}


@pytest.mark.slow
def test_another_model_under_the_same_number_is_not_taken_for_ours(place):
    found = receipt(place.register(place.evaluated(1)))
    place.client.set_model_version_tag("reward-model", "1", "artifact_digest", "else")
    assert "holds another model" in still_registered(found, place.params.tracking_uri, place.root)


@pytest.mark.slow
def test_a_version_without_a_score_contract_is_promoted_by_nobody(defended):
    place = defended
    location = Path(receipt(place.register(place.worse))["location"])
    (location / "reward_contract.json").unlink()
    write_sums(location)  # as it would have been registered without one
    place.client.set_model_version_tag("reward-model", "2", "package_digest", seal_of(location))
    with pytest.raises(RegistrationError, match="version 2 of 'reward-model' has no score contr"):
        promote(place.params, place.root, 2, why="it is better", despite_gate=True)
    assert place.client.get_registered_model("reward-model").aliases["champion"] == 1


@pytest.mark.slow
def test_an_evaluation_of_other_pairs_is_told_and_says_nothing_about_the_version(
    defended, tmp_path
):
    place = defended
    training, evaluation, tokenization = place.better
    write_tokenization(tmp_path / "fewer", conversations(6), place.base)
    fewer = stored(Store(tmp_path / "data"), "tokenization", tmp_path / "fewer")
    step = evaluation_step(EvaluationParams(device="cpu"), training, fewer)
    other = Store(tmp_path / "data").obtain(step)
    says = f"the evaluation {other.key} scored 6 pairs, and the held-out split of .* holds 20, whi"
    with pytest.raises(RegistrationError, match=says):
        place.register((training, other, tokenization))
    tags = place.client.get_model_version("reward-model", "1").tags
    assert "refused" not in tags
    assert tags["evaluation_digest"] == evaluation.digest
