"""On a GPU a flat row gives the rewards, gradients and steps that padded batches give there."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedModel

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.layout.plan import flat_plan
from tasks.training.layout.ragged import has_varlen
from tasks.training.layout.rectangle import rectangle
from tasks.training.layout.support import make_flat
from tasks.training.scoring import score, score_flat
from tests.training.layout.test_layout import reward_model, sequences
from tests.training.tiny import make_rows

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

HEADS = {"hidden_size": 256, "head_dim": 64}
FAMILIES = {
    "llama": HEADS,
    "qwen3": HEADS,
    "gemma3_text": {**HEADS, "sliding_window": 6},
    "mistral": {**HEADS, "sliding_window": 6},
    "gpt2": {"n_embd": 256},
    "olmo2": {"hidden_size": 48, "num_attention_heads": 4},  # heads of 12, which no kernel takes
}


def long_sequences() -> tuple[list[np.ndarray], list[object]]:
    """Those of other tests, and a comparison of three answers over several blocks of a kernel."""
    ids, groups = sequences()
    rng = np.random.default_rng(1)
    prompt = rng.integers(1, 97, 300, dtype=np.int64)
    answers = [rng.integers(1, 97, n, dtype=np.int64) for n in (150, 1, 401)]
    return [*ids, *(np.concatenate([prompt, a]) for a in answers)], [*groups, *"lll"]


def found(model: PreTrainedModel, half: torch.dtype | None, layout: str) -> list[torch.Tensor]:
    """Rewards, and the gradients of a sum of them, on the CPU."""
    ids, groups = long_sequences()
    device = next(model.parameters()).device
    model.zero_grad()
    with torch.autocast(device.type, half, enabled=half is not None):
        if layout == "flat":
            rewards = score_flat(model, flat_plan(ids, groups))
        else:
            rewards = score(model, *(torch.from_numpy(a).to(device) for a in rectangle(ids, 0)))
    (rewards * torch.linspace(-1, 1, len(rewards), device=device)).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return [x.detach().cpu() for x in (rewards, torch.cat(gradients))]


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_and_gradients_are_those_of_padded_batches(family):
    model = reward_model(family, **{"max_position_embeddings": 1024, **FAMILIES[family]})
    exact = found(model, None, "padded")
    model.cuda()
    assert make_flat(model) is None
    for flat, padded, truth in zip(
        found(model, None, "flat"), found(model, None, "padded"), exact, strict=True
    ):
        torch.testing.assert_close(flat, padded, atol=1e-5, rtol=1e-3)
        assert apart(flat, truth) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_in_bfloat16_they_are_as_near_to_the_truth_as_those_of_padded_batches(family):
    model = reward_model(family, **{"max_position_embeddings": 1024, **FAMILIES[family]})
    exact = found(model, None, "padded")
    model.cuda()
    assert make_flat(model, torch.bfloat16) is None
    for flat, padded, truth in zip(
        found(model, torch.bfloat16, "flat"),
        found(model, torch.bfloat16, "padded"),
        exact,
        strict=True,
    ):
        errors = {"flat": apart(flat, truth), "padded": apart(padded, truth)}
        print(family, errors)
        assert errors["flat"] < 1.5 * errors["padded"] < 0.15


def losses(base, directory, layout, **fields) -> list[float]:
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory / layout),
            layout=layout,
            max_steps=50,
            learning_rate=1e-3,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **{"bf16": False, **fields},
        ),
        train_dataset=Dataset.from_list(make_rows(60, margin=True)),
    )
    trainer.train()
    assert trainer.layout == layout
    return [r["loss"] for r in trainer.state.log_history if "loss" in r]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_fifty_steps_are_those_of_padded_batches(base, tmp_path, checkpointing):
    expected = losses(base, tmp_path, "padded", gradient_checkpointing=checkpointing)
    assert expected[0] != pytest.approx(expected[-1], rel=1e-3)
    for layout in ("prefix_shared", "padding_free"):
        told = losses(base, tmp_path, layout, gradient_checkpointing=checkpointing)
        assert told == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_ragged_call_learns_as_much_in_bfloat16(base, tmp_path):
    assert has_varlen(torch.device("cuda"))
    expected = losses(base, tmp_path, "padded", bf16=True)
    told = losses(base, tmp_path, "prefix_shared", bf16=True)
    assert told == pytest.approx(expected, rel=0.02, abs=2e-3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the compiler itself does
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_compiled_layers_take_the_same_steps(base, tmp_path):
    compiled = {"torch_compile": True}
    expected = losses(base, tmp_path / "written", "prefix_shared")
    told = losses(base, tmp_path / "compiled", "prefix_shared", **compiled)
    assert told == pytest.approx(expected, rel=1e-5, abs=1e-6)
    expected = losses(base, tmp_path / "written", "prefix_shared", bf16=True)
    told = losses(base, tmp_path / "compiled", "prefix_shared", bf16=True, **compiled)
    assert told == pytest.approx(expected, rel=0.02, abs=2e-3)
