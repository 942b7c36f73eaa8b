"""A base model of the hub: the files of one commit that are read here, and no others."""

import pytest
from huggingface_hub import constants

from tasks.artifact import Store
from tasks.model import ModelParams, base_model, step
from tasks.model.directory import describe
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
