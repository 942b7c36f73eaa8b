"""A base model of the hub: the files of one commit that are read here, and no others."""

import pytest
from huggingface_hub import constants

from tasks.artifact import Store
from tasks.errors import DataError, ModelError
from tasks.ingestion.places.hub import resolve_commit
from tasks.model import ModelParams, base_model, step
from tasks.model.directory import BaseModel, describe
from tests.ingestion.places.servers import Hub, serving

FIRST, SECOND = "a" * 40, "b" * 40
NOT_READ = (
    *("pytorch_model.bin", "modeling_own.py", "training_args.bin", "README.md"),
    *("consolidated.00.safetensors", "original/params.json", "onnx/config.json"),
)


@pytest.fixture
def hub(tiny_model_directory, tmp_path, monkeypatch):
    """Two commits of the tiny model, the second with another chat template; `main` is the first."""
    files = {path.name: path.read_bytes() for path in tiny_model_directory.iterdir()}
    files |= dict.fromkeys(NOT_READ, b"{}")
    commits = {FIRST: files, SECOND: files | {"chat_template.jinja": b"{{ messages }}"}}
    made = Hub("me/it", commits, {"main": FIRST, FIRST: FIRST, SECOND: SECOND}, kind="models")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(made.answer) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield made


def test_a_model_of_the_hub_is_the_directory_that_its_commit_holds(
    hub, tmp_path, tiny_model_directory
):
    store, params = Store(tmp_path / "data"), ModelParams(hub="me/it")
    first = store.obtain(step(params, None))
    model, local = base_model(first), describe(tiny_model_directory, {})
    assert model.name == f"me/it@{FIRST}"
    assert first.report["hub"] == "me/it"
    assert model.tokenizer_digest == local.tokenizer_digest
    assert model.weights_digest == local.weights_digest
    assert {path.name for path in model.path.rglob("*")} == {
        path.name for path in tiny_model_directory.iterdir()
    }
    assert not [request for request in hub.requests if request.endswith(NOT_READ)]
    # What is there is not fetched again, and a branch that has moved is another model.
    fetched = [request for request in hub.requests if "/resolve/" in request]
    assert store.obtain(step(params, None)).cached
    assert [request for request in hub.requests if "/resolve/" in request] == fetched
    hub.branches["main"] = SECOND
    second = store.obtain(step(params, None))
    assert second.key != first.key
    assert base_model(second).tokenizer_digest != model.tokenizer_digest
    assert base_model(second).weights_digest == model.weights_digest
    pinned = ModelParams(hub="me/it", revision=FIRST)
    assert step(pinned, None).key == first.key


KINDS = [("dataset", DataError), ("model", ModelError)]


@pytest.mark.parametrize(("kind", "failed"), KINDS)
def test_a_commit_needs_no_network_and_a_branch_that_cannot_be_asked_for_says_what_to_do(
    kind, failed, monkeypatch
):
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert resolve_commit(kind, "owner/name", commit, failed) == commit
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    says = rf"{kind} owner/name@main: HF_HUB_OFFLINE is set: unset it.* or give `path` with a local"
    with pytest.raises(failed, match=says):
        resolve_commit(kind, "owner/name", "main", failed)


@pytest.mark.parametrize(("kind", "failed"), KINDS)
def test_datasets_and_models_are_resolved_alike_and_fail_with_a_class_of_their_own(
    kind, failed, monkeypatch
):
    hub = Hub("me/it", {"a" * 40: {}}, {"main": "a" * 40}, kind=f"{kind}s")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(hub.answer) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert resolve_commit(kind, "me/it", "main", failed) == "a" * 40
        for repository, revision, says in [
            ("me/it", "v9", "it has no such revision: correct `revision`"),
            ("me/other", "main", "there is none, or it is private: correct `hub`, or set HF_TOKEN"),
        ]:
            with pytest.raises(failed, match=f"{kind} {repository}@{revision}: {says}"):
                resolve_commit(kind, repository, revision, failed)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(failed, match=r"set HF_ENDPOINT to a mirror \(now http://127\.0\.0\.1:1\)"):
        resolve_commit(kind, "me/it", "main", failed)


def test_a_model_of_the_hub_is_called_by_its_repository_and_commit(tmp_path):
    place = tmp_path / "models--me--it/snapshots" / ("a" * 40)
    model = BaseModel(place, "", "", {"hub": "me/it", "commit": "a" * 40})
    assert model.name == f"me/it@{'a' * 40}"
