"""`reward-pipeline verify-model`: a table and an exit code that a script can trust."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer
from typer.testing import CliRunner

from flows.__main__ import app
from flows.verification import print_verdicts
from tasks.training.handover.contract import Verdict, write_contract
from tasks.training.handover.export import save_model
from tasks.training.model.loading import load_reward_model
from tasks.training.model.padding import fit_tokenizer

REPOSITORY = Path(__file__).parents[2]


def verify(directory, *options):
    command = [sys.executable, "-m", "flows", "verify-model", str(directory), *options]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.fixture
def model_directory(tiny_model_directory, tmp_path):
    model = load_reward_model(tiny_model_directory, seed=4).model
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    fit_tokenizer(model, tokenizer)
    save_model(model, tokenizer, tmp_path / "model")
    write_contract(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_a_kept_contract_exits_with_0_and_a_broken_one_with_1_and_its_name(model_directory):
    kept = verify(model_directory)
    assert kept.returncode == 0, kept.stderr
    assert "9 probes, 0 differ" in kept.stdout
    tensors = load_file(model_directory / "model.safetensors")
    tensors["score.weight"] += 1.0
    save_file(tensors, model_directory / "model.safetensors", metadata={"format": "pt"})
    broken = verify(model_directory, "--json")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["one turn"].startswith("reward: chosen got ")
    (model_directory / "reward_contract.json").unlink()
    missing = verify(model_directory)
    assert missing.returncode == 1
    assert "holds no reward_contract.json" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_what_differs_is_printed_as_it_is(capsys):
    differs = "template: texts of chosen differ from place 0 on: '[/b] :100:', expected 'a'"
    print_verdicts(Path("d"), [Verdict("one turn", differs)])
    assert differs in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_verified_is_told_in_one_sentence(model_directory):
    def told(directory, *options):
        done = CliRunner().invoke(app, ["verify-model", str(directory), *options])
        assert done.exit_code == 1
        assert done.stderr.startswith("ModelError: "), done.stderr
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "absent does not exist; expected the directory of a" in told(model_directory / "absent")
    settings = model_directory / "tokenizer_config.json"
    kept = settings.read_text()
    settings.write_text(kept[: len(kept) // 2])
    told_of = f"the tokenizer in {model_directory} cannot be loaded (JSONDecodeError: "
    assert told_of in told(model_directory)
    settings.write_text(kept)
    contract = model_directory / "reward_contract.json"
    assert f"{contract} is no directory" in told(contract)
    assert "device is 'tpu', which torch cannot use" in told(model_directory, "--device", "tpu")
    if not torch.cuda.is_available():
        assert "finds no GPU here" in told(model_directory, "--device", "cuda")
    for content, expected in {
        "{": "reward_contract.json is no JSON (",
        "[]": "reward_contract.json holds a list, expected an object",
        "{}": "reward_contract.json has format None, expected 1",
    }.items():
        contract.write_text(content)
        assert expected in told(model_directory)
