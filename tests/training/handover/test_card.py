"""The model card tells the truth, and `push_to_hub` carries the model to a hub: here a stand-in."""

import pytest
import torch
from datasets import Dataset
from huggingface_hub import HfApi, ModelCard
from peft import LoraConfig

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tasks.training.model.score_head import head_digest
from tasks.training.scoring import score
from tests.training.handover.fake_hub import hub
from tests.training.tiny import make_rows

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "max_steps": 3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}


@pytest.fixture
def trainer(base, tmp_path):
    rows = [
        {**row, "source": "votes" if n % 4 else "talks|de"} for n, row in enumerate(make_rows(16))
    ]
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(tmp_path / "a-reward-model"), learning_rate=3e-3, **FIELDS),
        train_dataset=Dataset.from_list(rows),
        eval_dataset={"held": Dataset.from_list(make_rows(5, seed=2))},
    )
    trainer.train()
    trainer.evaluate()
    return trainer


def test_the_card_says_what_the_model_was_made_from_and_how_to_read_it(trainer, base, tmp_path):
    trainer.create_model_card(model_name="someone/model", tags=["mine"])
    text = (tmp_path / "a-reward-model" / "README.md").read_text()
    card = ModelCard(text)
    assert {"reward-trainer", "mine"} <= set(card.data.tags)
    assert "reward-trainer" in trainer.model.model_tags  # which model.push_to_hub writes
    assert card.data.pipeline_tag == "text-classification"
    assert f"Trained from `{base.name}`, with a head that was drawn from the seed" in text
    assert str(base.parent) not in text
    assert "| votes | 12 |\n| talks\\|de | 4 |" in text
    assert "| learning_rate | 0.003 |" in text
    assert "give the same weights, bit for bit, on a CPU" in text
    assert f"| threads | {torch.get_num_threads()} |\n| dtype | float32 |" in text
    assert "| eval_held |" in text
    assert "| torch |" in text
    assert 'from_pretrained("someone/model", dtype=torch.float32)' in text


@pytest.mark.parametrize("template", [None, "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_the_card_s_way_of_loading_runs_as_it_stands(trainer, tmp_path, template):
    trainer.processing_class.chat_template = template
    trainer.save_model(str(tmp_path / "saved"))
    trainer.create_model_card(model_name=str(tmp_path / "saved"))
    text = (tmp_path / "a-reward-model" / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    made = {}
    exec(code, made)
    end = [trainer.processing_class.eos_token_id]
    assert (made["ids"][0, -1:].tolist() == end) == (template is None)
    assert isinstance(made["reward"], float)


def test_the_pairs_of_a_stream_are_not_said_to_be_none(base, tmp_path):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(tmp_path), **FIELDS),
        train_dataset=Dataset.from_list(make_rows(8)).to_iterable_dataset(),
    )
    trainer.create_model_card()
    assert "| (a stream) | not counted |" in (tmp_path / "README.md").read_text()


# peft asks the base model by an older name
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("given", [{}, {"use_dora": True, "task_type": "SEQ_CLS"}])
def test_the_card_of_an_adapter_loads_it_with_the_rewards_that_it_was_trained_to(
    base, tmp_path, given
):
    place = str(tmp_path / "saved")
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=place, learning_rate=3e-2, **FIELDS),
        train_dataset=Dataset.from_list(make_rows(16)),
        peft_config=LoraConfig(r=2, **given),
    )
    trainer.train()
    trainer.save_model()
    trainer.create_model_card(model_name=place)
    text = (tmp_path / "saved" / "README.md").read_text()
    assert ModelCard(text).data.to_dict()["library_name"] == "peft"
    made = {}
    exec(text.split("```python\n")[1].split("```")[0], made)
    with torch.no_grad():
        trained_to = trainer.model.eval()(made["ids"]).logits.item()
    assert made["reward"] == pytest.approx(trained_to, abs=1e-6)


@pytest.mark.parametrize("adapters", [None, LoraConfig(r=2)], ids=["whole", "adapter"])
def test_what_a_script_saves_has_this_project_s_card(base, tmp_path, adapters):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(tmp_path / "run"), **FIELDS),
        train_dataset=Dataset.from_list(make_rows(4)),
        peft_config=adapters,
    )
    trainer.save_model(str(tmp_path / "rewards"))
    text = (tmp_path / "rewards" / "README.md").read_text()
    assert "# rewards\n" in text
    assert "More Information Needed" not in text
    assert str(tmp_path) not in text


# huggingface_hub hands its files to httpx by an older name
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
def test_push_to_hub_commits_a_model_that_scores(trainer, tmp_path, monkeypatch, in_parts):
    # large files by the protocol that every hub understands, not by a service of its own
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    with hub(in_parts) as (address, seen):
        api = HfApi(endpoint=address, token="hf_none")
        monkeypatch.setattr("transformers.trainer.hf_api", lambda: api)
        commit = trainer.push_to_hub(dataset_name="trl-lib/ultrafeedback_binarized")
    assert commit.oid == "0" * 40
    assert seen["message"] == "End of training"
    assert {token for path, token in seen["requests"] if "/complete/" not in path} == {
        "Bearer hf_none"
    }
    assert len(seen["objects"]) == 1
    assert seen["verified"] == [*seen["objects"]]
    assert len(seen["parts"]) == (2 if in_parts else 0)
    files = seen["files"]
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    assert b"reward-trainer" in files["README.md"]
    for name, data in files.items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(data)
    again = load_reward_model(tmp_path / "copy", need_head=True)
    assert again.head.sha256 == head_digest(trainer.model)
    ids = torch.tensor([[5, 9, 44, 1], [7, 30, 21, 1]])
    with torch.no_grad():
        mine, theirs = (
            score(model.eval(), ids, torch.ones_like(ids)) for model in (trainer.model, again.model)
        )
    assert torch.equal(mine, theirs)


def test_a_hub_that_is_away_is_told_before_anything_is_trained(base, tmp_path, monkeypatch):
    away = HfApi(endpoint="http://127.0.0.1:9", token="hf_none")
    monkeypatch.setattr("transformers.trainer.hf_api", lambda: away)
    given = {"output_dir": str(tmp_path), "push_to_hub": True, "hub_model_id": "me/rewards"}
    with pytest.raises(ParamsError, match=r"the repository 'me/rewards' cannot .*ConnectError"):
        RewardTrainer(str(base), RewardConfig(**{**FIELDS, **given}), train_dataset=make_rows(4))
