"""`model_init_kwargs` and models of one's own: in which numbers they train, and what is refused."""

import pytest
import torch

from tasks.errors import ModelError, ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tasks.training.model.score_head import head_digest
from tests.training.settings.test_arguments import make
from tests.training.tiny import make_tokenizer


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16])
def test_the_older_name_of_dtype_says_what_the_newer_does(base, tmp_path, dtype):
    older, newer = (
        make(base, tmp_path, fields={"model_init_kwargs": {name: dtype}}).model.model
        for name in ("torch_dtype", "dtype")
    )
    assert {p.dtype for p in newer.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in older.parameters()} == {torch.bfloat16}
    with pytest.raises(ParamsError, match="fp16 needs a GPU"):
        make(base, tmp_path, fields={"model_init_kwargs": {"torch_dtype": "float16"}})


@pytest.mark.parametrize("options", [{}, {"revision": "v2"}, {"subfolder": "inner"}])
def test_the_head_of_a_hub_model_stays_in_float32_beside_a_body_in_bfloat16(
    base, tmp_path, options
):
    commit = "5" * 40
    kept = tmp_path / "hub" / "models--someone--a-reward"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / options.get("revision", "main")).write_text(commit)
    there = load_reward_model(base).model  # its head is drawn
    there.save_pretrained(kept / "snapshots" / commit / options.get("subfolder", ""))
    where = {"cache_dir": str(tmp_path / "hub"), "local_files_only": True, **options}
    found = load_reward_model("someone/a-reward", dtype="bfloat16", need_head=True, **where)
    assert found.head.origin == "loaded"
    assert found.model.dtype == torch.bfloat16
    assert found.model.score.weight.dtype == torch.float32
    assert head_digest(found.model) == head_digest(there)


def test_float16_weights_are_refused_on_a_cpu_whichever_way_they_come(base, tmp_path):
    half = load_reward_model(base, dtype="float16").model
    half.save_pretrained(tmp_path / "half")
    make_tokenizer().save_pretrained(tmp_path / "half")
    said = "float16 .*embed_tokens.*training runs on a CPU; load it with dtype float32"
    for kwargs in ({"dtype": "auto"}, '{"dtype": "float16"}'):
        with pytest.raises(ParamsError, match=said):
            make(tmp_path / "half", tmp_path, fields={"model_init_kwargs": kwargs})
    with pytest.raises(ParamsError, match=said):
        RewardTrainer(
            half,
            RewardConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none"),
            processing_class=make_tokenizer(),
        )
    make(tmp_path / "half", tmp_path).train()  # float32 unless it is asked for


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"dtype": "float33"}, "float33"),
        ({"attention": "sdpa"}, "unexpected keyword argument 'attention'"),
        ({"attn_implementation": "flash_attention_2"}, "FlashAttention2|flash_attn"),
    ],
)
def test_what_from_pretrained_refuses_is_told_with_the_model(base, tmp_path, kwargs, said):
    with pytest.raises(ModelError, match=f"base.* cannot be loaded as a reward model: .*({said})"):
        make(base, tmp_path, fields={"model_init_kwargs": kwargs})
