"""A setting whose package is not installed is refused by its name, before anything is loaded."""

import sys
from importlib.util import find_spec

import pytest
from transformers import GPTQConfig

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.adapter import lora_config
from tasks.training.model.quantized import with_quantization
from tasks.training.params import LoraParams
from tasks.training.settings import checks
from tests.training.tiny import make_tokenizer


@pytest.mark.parametrize("way", ["argument", "model_init_kwargs"])
def test_quantization_without_its_package_is_refused_before_anything_is_loaded(
    tmp_path, way, monkeypatch
):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # as if it were not installed
    wanted = {"load_in_4bit": True}
    inside = {"quantization_config": wanted} if way == "model_init_kwargs" else None
    with pytest.raises(ParamsError, match="needs the package bitsandbytes, which is not installed"):
        RewardTrainer(
            str(tmp_path / "no such model"),
            RewardConfig(output_dir=str(tmp_path), use_cpu=True, model_init_kwargs=inside),
            processing_class=make_tokenizer(),
            peft_config=lora_config(LoraParams(r=4, target_modules=["q_proj", "down_proj"])),
            quantization_config=wanted if way == "argument" else None,
        )


def test_quantization_by_another_package_is_asked_for_once_and_needs_its_own(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    other = {"quant_method": "gptq", "bits": 4}
    for config in (other, GPTQConfig(bits=4)):
        options = {"dtype": "float32", "quantization_config": config}
        assert with_quantization({"dtype": "float32"}, config) == options
        assert with_quantization(options, None) == options
        with pytest.raises(ParamsError, match="given twice, as an argument and in model_init_kw"):
            with_quantization(options, config)
    assert with_quantization({"quantization_config": None}, None) == {"quantization_config": None}


@pytest.mark.parametrize(
    ("setting", "value", "package"),
    [
        ("use_liger_kernel", True, "liger-kernel"),
        ("deepspeed", {"zero_optimization": {}}, "deepspeed"),
    ],
)
def test_a_setting_whose_package_is_absent_is_refused_by_its_name(
    tmp_path, setting, value, package
):
    if find_spec(package.replace("-", "_")):
        pytest.skip(f"{package} is installed")
    with pytest.raises(ParamsError, match=f"{setting} needs the package {package}, which is not"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, **{setting: value})


@pytest.mark.parametrize(("launched", "fields"), [(True, {}), (False, {"deepspeed": {"a": 1}})])
def test_deepspeed_on_a_cpu_is_refused_rather_than_left_out_by_half(
    tmp_path, monkeypatch, launched, fields
):
    monkeypatch.setattr(checks, "find_spec", lambda name: name)
    if launched:
        monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(ParamsError, match="on a CPU, where accelerate leaves DeepSpeed out; take"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, **fields)


def test_deepspeed_that_a_launch_asks_for_and_is_absent_is_told_alike(tmp_path, monkeypatch):
    if find_spec("deepspeed"):
        pytest.skip("deepspeed is installed")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(ParamsError, match=r"use_deepspeed \(of accelerate launch\) needs the pack"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True)
