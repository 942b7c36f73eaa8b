"""Liger's kernels: for reward models, on a GPU, and only those that leave the model what it is."""

from importlib.util import find_spec

import pytest

from tasks.errors import ParamsError
from tasks.training import RewardConfig
from tasks.training.model import kernels
from tasks.training.model.kernels import liger_settings, tell_of_liger


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package of liger's name, where there is none: it is looked for here, never imported."""
    if find_spec("liger_kernel") is None:
        (tmp_path / "liger_kernel").mkdir()
        (tmp_path / "liger_kernel" / "__init__.py").write_text("raise ImportError\n")
        monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_gpu_gets_every_kernel_but_those_of_language_models():
    off = {"fused_linear_cross_entropy": False, "cross_entropy": False}
    assert liger_settings(None, on_gpu=True) == off
    assert liger_settings({"rope": False}, on_gpu=True) == {"rope": False, **off}
    with pytest.raises(ParamsError, match="fused_linear_cross_entropy, which puts a language"):
        liger_settings({"fused_linear_cross_entropy": True}, on_gpu=True)


@pytest.mark.usefixtures("installed")
def test_on_a_cpu_they_are_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(ParamsError, match="use_liger_kernel needs a GPU, and training runs on a"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, use_liger_kernel=True)


def test_a_family_without_kernels_is_told(caplog):
    tell_of_liger("qwen3", {"qwen3", "llama"})
    assert not caplog.text
    tell_of_liger("gpt2", {"qwen3", "llama"})
    assert "changes nothing: liger-kernel has no kernels for the family gpt2" in caplog.text
    assert kernels.OF_LANGUAGE_MODELS[0] == "fused_linear_cross_entropy"
