"""Rotary positions whose angles change with the longest row of a batch: rows up to the original
length get rewards of their own, longer ones are refused."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModel

from tasks.errors import ModelError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.layout.plan import flat_plan
from tasks.training.layout.support import make_flat
from tasks.training.model.loading import load_reward_model
from tasks.training.model.positions import last_readable, longest_row, positions
from tasks.training.scoring import score, score_flat
from tests.training.model.test_families import GROUPED
from tests.training.tiny import VOCABULARY, make_rows, make_tokenizer

LONGROPE = {
    "original_max_position_embeddings": 32,
    "short_factor": [1.0] * 4,
    "long_factor": [1.0, 2.0, 4.0, 8.0],
}
KINDS = [("dynamic", {}, 128), ("longrope", LONGROPE, 32)]
"""Type, settings, original length: `dynamic` counts from `max_position_embeddings`."""


def base_with(rope, directory):
    settings = {"factor": 4.0, "rope_theta": 1e4, **rope}
    config = AutoConfig.for_model("llama", **{**GROUPED, "rope_parameters": settings})
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


def padded(model, rows):
    lengths = torch.tensor([[len(row)] for row in rows])
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    with torch.no_grad():
        return score(model, ids, (torch.arange(ids.shape[1]) < lengths).long())


def flat(model, rows):
    with torch.no_grad():
        return score_flat(model, flat_plan([row.numpy() for row in rows], [*range(len(rows))]))


@pytest.mark.parametrize(("kind", "fields", "held"), KINDS)
@pytest.mark.parametrize("together", [padded, flat])
def test_a_reward_is_its_own_rows_up_to_the_original_length_and_not_beyond(
    tmp_path, kind, fields, held, together
):
    model = load_reward_model(base_with({"rope_type": kind, **fields}, tmp_path)).model.eval()
    assert make_flat(model) is None
    assert positions(model.config) == held
    draw = torch.Generator().manual_seed(1)
    rows = {n: torch.randint(3, VOCABULARY, (n,), generator=draw) for n in (20, held, 8 * held)}
    alone = float(padded(model, [rows[20]])[0])
    assert float(together(model, [rows[20], rows[held]])[0]) == pytest.approx(alone, abs=1e-6)
    # What makes a limit of it: a longer row gives the short one beside it another reward.
    assert abs(float(together(model, [rows[20], rows[8 * held]])[0]) - alone) > 1e-4


@pytest.mark.parametrize(("kind", "fields", "held"), KINDS)
def test_a_row_beyond_the_original_length_is_refused_before_training(tmp_path, kind, fields, held):
    base = base_with({"rope_type": kind, **fields}, tmp_path / "base")
    rows = [{**row, "chosen_input_ids": [5] * (held + 1)} for row in make_rows(4)]
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True, max_length=None)
    told = (
        rf"a row of {held + 1} tokens, but LlamaForSequenceClassification takes {held}: with more "
        rf"its rotary positions \({kind}\) would change for every row .* set max_length to {held}"
    )
    with pytest.raises(ModelError, match=told):
        RewardTrainer(str(base), args, train_dataset=Dataset.from_list(rows))
    assert positions(load_reward_model(base).model.config) == held


def test_each_kind_of_layer_may_have_rotary_positions_of_its_own():
    changing = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, **LONGROPE}
    rope = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": changing,
    }
    config = AutoConfig.for_model("gemma3_text", **{**GROUPED, "rope_parameters": rope})
    assert positions(config) == 32


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}


@pytest.mark.parametrize(
    ("family", "fields", "trained_on", "longest", "readable"),
    [
        ("bert", {"max_position_embeddings": 16}, 16, 16, 16),
        ("roberta", {"max_position_embeddings": 16, "pad_token_id": 1}, 14, 14, 14),
        ("llama", {"max_position_embeddings": 16}, 16, 16, None),
        ("llama", {"max_position_embeddings": 64, "rope_parameters": YARN}, None, 64, None),
        ("llama", {"rope_parameters": {**YARN, "rope_type": "dynamic"}}, 2048, 2048, 2048),
        ("gemma3", {"text_config": {"max_position_embeddings": 16}}, 16, 16, None),
        ("bloom", {}, None, None, None),
        ("xlnet", {}, None, None, None),  # its config says -1
    ],
)
def test_how_many_tokens_a_model_was_trained_on_takes_and_can_read_at_all(
    family, fields, trained_on, longest, readable
):
    config = AutoConfig.for_model(family, **fields)
    assert positions(config) == trained_on
    assert longest_row(config) == longest
    assert last_readable(config) == readable
