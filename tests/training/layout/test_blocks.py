"""Attention by blocks on a CPU is softmax attention under the mask of the whole row."""

import copy

import numpy as np
import pytest
import torch

from tasks.training.layout import chunks
from tasks.training.layout.attention import flat_attention, layout_of
from tasks.training.layout.blocks import attend
from tasks.training.layout.on_device import Layout
from tasks.training.layout.plan import FlatPlan, flat_plan, key_rows
from tasks.training.layout.pruning import prune_last_layer
from tasks.training.scoring import score_flat
from tests.training.layout.test_layout import gradients, one_by_one, reward_model, sequences

QUERY_HEADS, KEY_HEADS, SIZE, SCALE = 4, 2, 8, 0.3


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 3)


def row_of(plan: FlatPlan, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    heads = (QUERY_HEADS, KEY_HEADS, KEY_HEADS)
    made = [torch.randn(1, len(plan.input_ids), h, SIZE, dtype=dtype) for h in heads]
    return [x.transpose(1, 2).requires_grad_() for x in made]


def under_one_mask(
    plan: FlatPlan, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None
) -> torch.Tensor:
    """`[1, T, Hq, D]`, from one mask of T x T that knows rows and positions, and no blocks."""
    rows = len(plan.input_ids)
    mask = torch.zeros(rows, rows, dtype=torch.bool)
    start = 0
    for block, keys in zip(plan.blocks, key_rows(plan), strict=True):
        mask[start : start + block.own, torch.from_numpy(keys)] = True
        start += block.own
    positions = torch.from_numpy(plan.position_ids)
    distance = positions[:, None] - positions[None]
    mask &= distance >= 0
    if window is not None:
        mask &= distance < window
    k, v = (x.repeat_interleave(QUERY_HEADS // KEY_HEADS, 1) for x in (k, v))
    weights = (q @ k.transpose(2, 3) * SCALE).masked_fill(~mask, -torch.inf).softmax(-1)
    return (weights @ v).transpose(1, 2)


@pytest.mark.parametrize("shared", [True, False], ids=["prefix_shared", "padding_free"])
@pytest.mark.parametrize("window", [None, 6, 1000])
@pytest.mark.parametrize("pooled", [False, True])
def test_output_and_gradients_are_those_under_one_mask(shared, window, pooled):
    ids, groups = sequences()
    plan = flat_plan(ids, groups if shared else range(len(ids)))
    assert max(block.own for block in plan.blocks) > 4 * chunks.CHUNK
    last = torch.from_numpy(plan.last)
    row = row_of(plan, torch.float64)
    of_output = torch.randn(1, len(plan.input_ids), QUERY_HEADS, SIZE, dtype=torch.float64)
    expected = under_one_mask(plan, *row, window)
    if pooled:
        only = torch.zeros_like(of_output).index_fill_(1, last, 1)
        of_output, expected = of_output * only, expected * only
    wanted = torch.autograd.grad(expected, row, of_output)
    found = attend(*row, Layout(plan.blocks, last, pooled=pooled), SCALE, window)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    for ours, theirs in zip(torch.autograd.grad(found, row, of_output), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_a_block_of_any_length_is_attended_whole():
    rng = np.random.default_rng(0)
    for own in range(1, 14):
        ids = [rng.integers(1, 97, n, dtype=np.int64) for n in (own, 5)]
        plan = flat_plan(ids, [0, 1])
        row = row_of(plan, torch.float64)
        found = attend(*row, Layout(plan.blocks, torch.from_numpy(plan.last)), SCALE, None)
        torch.testing.assert_close(found, under_one_mask(plan, *row, None), atol=1e-12, rtol=0)


def test_nothing_is_kept_for_the_backward_pass_but_the_row_as_it_lies():
    plan = flat_plan(*sequences())
    row = row_of(plan, torch.float32)
    kept: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        output = attend(*row, Layout(plan.blocks, torch.from_numpy(plan.last)), SCALE, None)
    places = [x.data_ptr() for x in (*row, output)]
    assert [x.data_ptr() for x in kept[:4]] == places
    assert sum(x.numel() for x in kept[4:]) == QUERY_HEADS * len(plan.input_ids)


def test_a_kernel_that_is_not_there_is_not_needed(monkeypatch):
    plan, module = flat_plan(*sequences()), torch.nn.Module()
    row, layout = row_of(plan, torch.float32), layout_of(plan, torch.device("cpu"))
    given = {"layout": layout, "scaling": SCALE, "sliding_window": 6}
    found, _ = flat_attention(module, *row, None, **given)
    monkeypatch.setattr("tasks.training.layout.attention.has_kernel", lambda *_: False)
    other, _ = flat_attention(module, *row, None, **given)
    assert not torch.equal(found, other), "both came the same way"
    torch.testing.assert_close(found, other, atol=1e-6, rtol=0)
    torch.manual_seed(0)
    dropped, _ = flat_attention(module, *row, None, **given, dropout=0.5)
    assert not torch.allclose(dropped, other), "dropout of a layer in training"
    assert torch.equal(flat_attention(module.eval(), *row, None, **given, dropout=0.1)[0], other)


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_under_autocast_rewards_are_near_those_of_float32(family):
    model = reward_model(family)  # qwen3 norms queries and keys: float32 beside bfloat16 values
    ids, groups = sequences()
    plan = flat_plan(ids, groups)
    wanted = gradients(model, score_flat(model, plan))
    with torch.autocast("cpu", torch.bfloat16):
        rewards = score_flat(model, plan)
    found = gradients(model, rewards)
    assert torch.nn.functional.cosine_similarity(found, wanted, dim=0) > 0.999
    assert not torch.equal(found, wanted)


def test_the_last_layer_computes_the_pooled_rows_alone(monkeypatch):
    model = reward_model("qwen3")
    ids, groups = sequences()
    plan = flat_plan(ids, groups)
    wanted = gradients(model, one_by_one(model, ids))
    pooled: list[bool] = []

    def seen(*given):
        pooled.append(given[3].pooled)
        return attend(*given)

    monkeypatch.setattr("tasks.training.layout.attention.attend", seen)
    rows: dict[str, int] = {}
    prune_last_layer(model.model)
    layer = model.model.layers[-1]
    parts = {f"self_attn.{n}_proj": getattr(layer.self_attn, f"{n}_proj") for n in "qkvo"}
    for name, part in {**parts, "mlp": layer.mlp}.items():
        part.register_forward_pre_hook(
            lambda _, args, name=name: rows.update({name: args[0].shape[1]})
        )
    found = gradients(model, score_flat(model, plan))
    assert pooled == [False, False, True]
    every, some = len(plan.input_ids), len(plan.last)
    assert rows == {
        "self_attn.q_proj": some,
        "self_attn.k_proj": every,
        "self_attn.v_proj": every,
        "self_attn.o_proj": some,
        "mlp": some,
    }
    torch.testing.assert_close(found, wanted, atol=3e-5, rtol=1e-3)


def test_heads_whose_numbers_are_no_neighbours_go_the_other_way():
    plan, module = flat_plan(*sequences()), torch.nn.Module()
    rows = row_of(plan, torch.float32)
    apart = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in rows]
    layout = layout_of(plan, torch.device("cpu"))
    found, _ = flat_attention(module, *apart, None, layout=layout)
    wanted, _ = flat_attention(module, *rows, None, layout=layout)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)


def test_a_copy_of_a_part_of_the_last_layer_knows_of_no_rows():
    model = reward_model("llama")
    ids, groups = sequences()
    prune_last_layer(model.model)
    score_flat(model, flat_plan(ids, groups))
    given = torch.randn(1, 3, model.config.hidden_size)
    layer = model.model.layers[-1]
    for part in (layer.self_attn.q_proj, layer.self_attn.o_proj, layer.mlp):
        alone = copy.deepcopy(part)
        assert alone._forward_pre_hooks
        assert torch.equal(alone(given), part.__class__.forward(part, given))


def test_a_norm_without_epsilon_of_rows_that_nobody_asks_for_is_a_number():
    model = reward_model("qwen3", rms_norm_eps=0.0)
    plan = flat_plan(*sequences())
    wanted = gradients(model, score_flat(model, plan))
    prune_last_layer(model.model)
    found = gradients(model, score_flat(model, plan))
    torch.testing.assert_close(found, wanted, atol=3e-5, rtol=1e-3)
