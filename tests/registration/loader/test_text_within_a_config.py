"""Families that read pictures, too, keep what concerns text in a config within the config."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, Gemma3Config
from transformers.models.gemma3 import Gemma3ForSequenceClassification

from tasks.evaluation.scoring.score import RewardScorer
from tasks.registration import load_reward_model
from tasks.training.handover.contract import write_contract

WINDOW = 40
"""More tokens than a trial of the reuse of prompts has."""
POSITIONS = 192


@pytest.fixture(scope="module")
def gemma3(tiny_tokenizer, tmp_path_factory):
    """A reward model of Gemma 3 in its larger sizes, which have a tower for pictures."""
    config = Gemma3Config(
        text_config={
            "vocab_size": len(tiny_tokenizer),
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "intermediate_size": 16,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
            "max_position_embeddings": POSITIONS,
            "pad_token_id": tiny_tokenizer.pad_token_id,
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        mm_tokens_per_image=4,
        pad_token_id=tiny_tokenizer.pad_token_id,
        num_labels=1,
    )
    assert not hasattr(config, "vocab_size")
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("gemma3")
    Gemma3ForSequenceClassification(config).save_pretrained(directory)
    tiny_tokenizer.save_pretrained(directory)
    write_contract(directory)
    return directory


def test_the_loader_scores_as_transformers_alone(gemma3):
    served = load_reward_model(gemma3, "cpu")
    assert served.golden
    prompt = [{"role": "user", "content": "What color is the sky? " * 12}]
    answers = ["It is blue.", "green", "It is green, or so they say."]
    stock = AutoModelForSequenceClassification.from_pretrained(gemma3).eval()
    expected = []
    for answer in answers:
        talk = [*prompt, {"role": "assistant", "content": answer}]
        text = served.tokenizer.apply_chat_template(talk, tokenize=False)
        batch = served.tokenizer(text, add_special_tokens=False, return_tensors="pt")
        assert batch["input_ids"].shape[1] > 2 * WINDOW
        with torch.no_grad():
            expected.append(float(stock(**batch).logits[0, 0]))
    assert np.ptp(expected) > 1e-3
    assert served.rewards_of_answers(prompt, answers) == pytest.approx(expected, abs=1e-6)
    assert not served.scorer.reuses_prompts  # a layer sees a window only


def test_what_is_too_long_or_no_token_is_told_by_the_limits_of_text(gemma3):
    served = load_reward_model(gemma3, "cpu")
    assert served.max_tokens == POSITIONS == RewardScorer(gemma3, device="cpu").most_tokens
    with pytest.raises(ValueError, match=rf"expected {POSITIONS} or fewer"):
        served.rewards(["blue " * POSITIONS])
    last = len(served.tokenizer) - 1
    with pytest.raises(ValueError, match=f"token ids must be 0 to {last}"):
        served.rewards_of_ids([[last + 1]])
