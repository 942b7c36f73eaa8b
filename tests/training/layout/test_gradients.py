"""What saves memory changes no gradient: every parameter's, not only the loss, in every layout."""

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.adapter import lora_config
from tasks.training.params import LoraParams
from tests.at_length import at_length
from tests.training.tiny import make_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

WAYS = {
    "checkpointing": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
    },
    "checkpointing, reentrant": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    },
    "offloading": {"activation_offloading": True},
    "both": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "activation_offloading": True,
    },
}


class Keep(TrainerCallback):
    """The gradients of every step, as the optimizer gets them, and how often a layer ran."""

    def __init__(self, model):
        self.steps, self.calls, self.model = [], 0, model
        layers = [m for n, m in model.named_modules() if n.endswith("layers.0.mlp")]
        layers[0].register_forward_pre_hook(lambda *_: setattr(self, "calls", self.calls + 1))

    def on_pre_optimizer_step(self, args, state, control, **_):  # noqa: ARG002
        named = self.model.named_parameters()
        self.steps.append({n: p.grad.clone() for n, p in named if p.grad is not None})


def gradients(base, directory, layout, lora, **fields):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            use_cpu=True,
            disable_tqdm=True,
            learning_rate=1e-3,
            max_steps=3,
            per_device_train_batch_size=3,
            gradient_accumulation_steps=2,
            max_grad_norm=0,
            save_strategy="no",
            report_to="none",
            preflight=False,
            layout=layout,
            **{"gradient_checkpointing": False, **fields},
        ),
        train_dataset=Dataset.from_list(make_rows(18, margin=True)),
        peft_config=lora_config(LoraParams(r=4, target_modules=["q_proj", "up_proj"]))
        if lora
        else None,
    )
    assert trainer.layout == layout
    kept = Keep(trainer.model)
    trainer.add_callback(kept)
    trainer.train()
    return kept


@pytest.mark.parametrize("lora", [False, *at_length(True)], ids=["full", "adapters"])
@pytest.mark.parametrize("layout", ["prefix_shared", *at_length("padded", "padding_free")])
def test_gradients_are_the_same_whatever_saves_memory(base, tmp_path, layout, lora):
    plain = gradients(base, tmp_path / "plain", layout, lora)
    assert len(plain.steps) == 3
    trained = {n for n, p in plain.model.named_parameters() if p.requires_grad}
    assert set(plain.steps[0]) == trained
    assert any(float(g.abs().max()) > 1e-3 for g in plain.steps[0].values())
    for way, fields in WAYS.items():
        other = gradients(base, tmp_path / way, layout, lora, **fields)
        twice = fields.get("gradient_checkpointing", False)
        assert other.calls == plain.calls * (2 if twice else 1), way  # it is what it says
        for mine, theirs in zip(plain.steps, other.steps, strict=True):
            assert mine.keys() == theirs.keys(), way
            for name, gradient in mine.items():
                assert torch.allclose(gradient, theirs[name], rtol=0, atol=1e-6), (way, name)
