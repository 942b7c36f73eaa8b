"""What training leaves: a model, its history and its numbers, wherever it ran."""

import json
import shutil

import pytest
import torch
from huggingface_hub import ModelCard
from peft import LoraConfig

from tasks.errors import TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import export
from tasks.training.model.loading import load_reward_model
from tasks.training.model.score_head import head_digest
from tests.training.settings.test_arguments import make
from tests.training.tiny import QUIET, make_rows

COMMIT = "c" * 40


def test_an_adapter_is_the_same_bytes_wherever_its_base_model_stands(base, tmp_path):
    written = []
    for place in ("here", "there"):
        trainer = RewardTrainer(
            shutil.copytree(base, tmp_path / place / "base"),
            RewardConfig(output_dir=str(tmp_path / "runs"), **QUIET),
            train_dataset=make_rows(4),
            peft_config=LoraConfig(r=2, target_modules=["q_proj"]),
        )
        output = tmp_path / place / "out"
        export(trainer, output, tokens=0)
        files = [path for path in output.rglob("*") if path.is_file()]
        written.append({path.relative_to(output): path.read_bytes() for path in files})
    assert written[0] == written[1]


# peft asks the base model by an older name
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_an_adapter_of_a_base_from_the_hub_goes_on_from_the_commit_that_it_was_trained_on(
    base, tmp_path
):
    trainer = RewardTrainer(
        base,
        RewardConfig(output_dir=str(tmp_path / "runs"), learning_rate=3e-2, **QUIET),
        train_dataset=make_rows(8),
        peft_config=LoraConfig(r=2, target_modules="(.*)(q|k)_proj"),
    )
    trainer.base_name = f"someone/a-model@{COMMIT}"
    trainer.train()
    export(trainer, tmp_path / "out", tokens=0)
    text = (tmp_path / "out/model/README.md").read_text()
    assert ModelCard(text).data.base_model == "someone/a-model"
    assert f"Trained from `someone/a-model@{COMMIT}`" in text
    config = json.loads((tmp_path / "out/adapter/adapter_config.json").read_text())
    named = (config["base_model_name_or_path"], config["revision"])
    assert named == ("someone/a-model", COMMIT)

    repository = tmp_path / "cache/models--someone--a-model"
    shutil.copytree(base, repository / "snapshots" / COMMIT)
    later = shutil.copytree(base, repository / "snapshots" / ("d" * 40))
    other = load_reward_model(base, seed=7).model
    for weight in other.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    other.save_pretrained(later)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("d" * 40)
    offline = {"cache_dir": str(tmp_path / "cache"), "local_files_only": True}
    again = RewardTrainer(
        tmp_path / "out/adapter",
        RewardConfig(output_dir=str(tmp_path / "again"), model_init_kwargs=offline, **QUIET),
        train_dataset=make_rows(8),
        processing_class=trainer.processing_class,
    )
    merged = load_reward_model(tmp_path / "out/model", need_head=True).model
    ids = torch.tensor([[5, 9, 44, 1]])
    with torch.no_grad():
        expected = merged(ids).logits.item()
        assert again.model.eval()(ids).logits.item() == pytest.approx(expected, abs=1e-5)


def test_a_run_leaves_its_exact_history_and_its_numbers(base, tmp_path):
    fields = {"eval_strategy": "steps", "eval_steps": 2, "max_steps": 3}
    trainer = make(base, tmp_path / "run", eval_dataset=make_rows(4), fields=fields)
    trainer.train()
    export(trainer, tmp_path / "out", tokens=1234)
    written = (tmp_path / "out/metrics.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in written]
    times = ("runtime", "_per_second", "preparation_time")
    assert history == [
        {name: value for name, value in record.items() if not name.endswith(times)}
        for record in trainer.state.log_history[:-1]  # the last is of the clock
    ]
    (first, *_, last), (*_, evaluated) = (
        [record for record in history if name in record] for name in ("loss", "eval_loss")
    )
    assert (first["step"], last["step"], evaluated["step"]) == (1, 3, 3)
    found = json.loads((tmp_path / "out/training.json").read_text())
    assert (found["first"], found["last"]) == (first, last)
    assert found["last_evaluation"] == evaluated
    assert found["rows"] == found["train_pairs"] == 16
    assert (found["global_step"], found["num_tokens"], found["batch_adapted"]) == (3, 1234, None)
    assert found["parameters"] == sum(p.numel() for p in trainer.model.parameters())
    assert found["determinism"]["bit_exact"] is True
    trainer.halvings = 1  # where memory runs short is no setting
    export(trainer, tmp_path / "adapted", tokens=1234)
    adapted = json.loads((tmp_path / "adapted/training.json").read_text())
    assert adapted["determinism"]["bit_exact"] is False
    card = (tmp_path / "adapted/model/README.md").read_text()
    assert "up to rounding: memory ran short" in card
    assert found["head"] == {
        "origin": "new",
        "sha256_before": trainer.head.sha256,
        "sha256": head_digest(trainer.model),
    }
    assert found["head"]["sha256"] != trainer.head.sha256
    assert "library_name" in (tmp_path / "out/model/README.md").read_text()


def test_weights_that_are_not_finite_are_not_exported(base, tmp_path):
    trainer = make(base, tmp_path / "run")
    trainer.model.model.norm.weight.data[3] = float("inf")
    with pytest.raises(TrainingError, match=r"step 0: model\.norm\.weight hold.* nothing is saved"):
        export(trainer, tmp_path / "out", tokens=0)
    assert not (tmp_path / "out").exists()
