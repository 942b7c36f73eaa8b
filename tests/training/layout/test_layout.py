"""A flat row gives the rewards and the gradients of padded batches, for every family that it fits.

The reference is the padded path, one sequence at a time: neither padding nor a shared prompt.
"""

from types import MethodType, SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from tasks.training.layout import attention, ragged
from tasks.training.layout.choice import choose_layout
from tasks.training.layout.grouping import shared_groups
from tasks.training.layout.on_device import varlen_layout
from tasks.training.layout.plan import flat_plan, shared_prefix, uses
from tasks.training.layout.pruning import prune_last_layer, pruned_layer
from tasks.training.layout.support import make_flat
from tasks.training.scoring import read_by_length, score, score_flat

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "num_labels": 1,
}
FAMILIES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "qwen3_moe": {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2},
    "gemma": {"head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 6},
    "mistral": {"sliding_window": 6},
    "phi": {},
    "phi3": {},
    "olmo2": {},
    "smollm3": {},
    "gpt_neox": {},
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128},
}


def reward_model(family: str, **changes: object) -> PreTrainedModel:
    from transformers import AutoConfig

    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SMALL, **FAMILIES.get(family, {}), **changes})
    model = AutoModelForSequenceClassification.from_config(config)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3 if name.startswith("score") else 0.08)
    read_by_length(model)
    return model.eval()


def sequences(seed: int = 0) -> tuple[list[np.ndarray], list[object]]:
    """Three pairs and a comparison of four answers; equal ones and one within another included."""
    rng = np.random.default_rng(seed)

    def ids(n: int) -> np.ndarray:
        return rng.integers(1, 97, n, dtype=np.int64)

    prompts = [ids(n) for n in (11, 1, 17)]
    found = [np.concatenate([p, ids(n)]) for p, n in zip(prompts, (4, 9, 1), strict=True)]
    found += [np.concatenate([p, ids(n)]) for p, n in zip(prompts, (13, 2, 8), strict=True)]
    groups: list[object] = [0, 1, 2, 0, 1, 2]
    prompt, answer = ids(14), ids(6)
    answers = [answer, np.concatenate([answer, ids(3)]), ids(5), answer]
    return [*found, *(np.concatenate([prompt, a]) for a in answers)], [*groups, *"kkkk"]


def one_by_one(model: PreTrainedModel, ids: list[np.ndarray]) -> torch.Tensor:
    rows = [torch.from_numpy(i)[None] for i in ids]
    return torch.cat([score(model, row, torch.ones_like(row)) for row in rows])


def gradients(model: PreTrainedModel, rewards: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    weights = torch.linspace(-1, 1, len(rewards))
    (rewards * weights).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("shared", [True, False], ids=["prefix_shared", "padding_free"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_and_gradients_are_those_of_each_sequence_alone(family: str, shared: bool):
    model = reward_model(family)
    assert make_flat(model) is None
    assert pruned_layer(model.base_model) is not None
    ids, groups = sequences()
    plan = flat_plan(ids, groups if shared else range(len(ids)))
    expected = one_by_one(model, ids)
    found = score_flat(model, plan)
    assert len(plan.input_ids) < sum(map(len, ids)) if shared else True
    assert expected.std() > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    wanted = gradients(model, one_by_one(model, ids))
    torch.testing.assert_close(
        gradients(model, score_flat(model, plan)), wanted, atol=3e-5, rtol=1e-3
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_recomputes_the_same_rows(reentrant: bool):
    model = reward_model("qwen3")
    ids, groups = sequences()
    plan, other = flat_plan(ids, groups), flat_plan(*sequences(1))
    prune_last_layer(model.model)
    rewards = score_flat(model, plan)
    wanted = gradients(model, rewards)
    model.train()
    newer = getattr(model, "activation_checkpointing_enable", None)
    (newer or model.gradient_checkpointing_enable)({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    for _ in range(2):
        found = gradients(model, score_flat(model, plan))
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)
        score_flat(model, other).sum().backward()
    torch.testing.assert_close(one_by_one(model.eval(), ids), rewards, atol=1e-6, rtol=0)


def test_a_padded_batch_after_a_flat_one_is_scored_as_before():
    model = reward_model("llama")
    ids, groups = sequences()
    before = one_by_one(model, ids)
    assert all(prune_last_layer(model.model) for _ in range(2))
    score_flat(model, flat_plan(ids, groups))
    assert model.config._attn_implementation == "sdpa"  # for whoever calls the body
    assert torch.equal(one_by_one(model, ids), before)
    model.set_attn_implementation("eager")
    one_by_one(model, ids)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("bert", {}, "encoder"),
        ("gemma2", {"head_dim": 8}, "caps its attention logits"),
        ("modernbert", {}, "encoder"),
        ("doge", {}, "a mask of its own"),
        ("gpt_oss", {"num_local_experts": 4}, "capped logits or sinks"),
        ("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2}, "takes no flat batch"),
        ("stablelm", {}, "takes no flat batch: its layers hand no arguments on to their attention"),
    ],
)
def test_where_the_layout_is_not_exact_the_reason_is_said(family, changes, reason):
    assert reason in (make_flat(reward_model(family, **changes)) or "")


MASK_ALONE = {
    "phimoe": {"num_local_experts": 4},
    "qwen2_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "use_sliding_window": True,
        "max_window_layers": 1,
    },
}
"""Families whose attention is not told of the window that their mask has."""


@pytest.mark.parametrize("family", ["mistral", "gemma3_text", *MASK_ALONE])
def test_a_window_longer_than_the_probe_is_kept_or_the_layout_refused(family):
    model = reward_model(family, sliding_window=20, **MASK_ALONE.get(family, {}))
    reason = make_flat(model)
    assert (reason is not None) == (family in MASK_ALONE), reason
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 97, 80, dtype=np.int64) for _ in range(2)]
    windowed = one_by_one(model, ids)
    if reason is None:
        plan = flat_plan(ids, range(len(ids)))
        torch.testing.assert_close(score_flat(model, plan), windowed, atol=1e-5, rtol=1e-5)
    model.config.sliding_window = 80
    assert (one_by_one(model, ids) - windowed).abs().max() > 1e-3  # it was the model's own again


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [({}, None), ({"bf16": True}, torch.bfloat16), ({"fp16": True}, torch.float16)],
)
def test_a_model_is_probed_in_the_precision_that_it_will_compute_in(fields, dtype):
    model, seen = reward_model("llama"), set()

    def look(*_):
        enabled = torch.is_autocast_enabled("cpu")
        seen.add(torch.get_autocast_dtype("cpu") if enabled else None)

    model.model.register_forward_pre_hook(look)
    off = dict.fromkeys(("bf16", "fp16", "torch_compile", "neftune_noise_alpha"))
    args = SimpleNamespace(**{**off, **fields}, device=torch.device("cpu"))
    assert choose_layout("auto", model, args) == "prefix_shared"
    assert seen == {dtype}


@pytest.mark.parametrize(
    ("family", "fields", "noise"),
    [
        ("mixtral", {"num_local_experts": 4, "intermediate_size": 48}, "router_jitter_noise"),
        ("llama", {}, "attention_dropout"),
        ("gpt2", {"embd_pdrop": 0.0, "attn_pdrop": 0.0}, "resid_pdrop"),
    ],
)
def test_the_noise_of_training_is_that_of_padded_batches(caplog, family, fields, noise):
    off = dict.fromkeys(("bf16", "fp16", "torch_compile", "neftune_noise_alpha"))
    args = SimpleNamespace(**off, device=torch.device("cpu"))
    still, shaken = (reward_model(family, **fields, **{noise: n}) for n in (0.0, 0.3))
    assert choose_layout("auto", still, args) == "prefix_shared"
    with caplog.at_level("INFO"):
        assert choose_layout("auto", shaken, args) == "padded"
    assert "dropout, or a router's noise" in caplog.text


def mlp_before_attention(self, hidden_states, position_embeddings=None, **kwargs):
    hidden_states = hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
    normed = self.input_layernorm(hidden_states)
    return (
        hidden_states + self.self_attn(normed, position_embeddings=position_embeddings, **kwargs)[0]
    )


class MlpOfTwo(torch.nn.Module):
    """Also returns what a router would."""

    def __init__(self, mlp: torch.nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, hidden_states):
        return self.mlp(hidden_states), hidden_states


def mlp_with_router(self, hidden_states, position_embeddings=None, **kwargs):
    normed = self.input_layernorm(hidden_states)
    hidden_states = (
        hidden_states + self.self_attn(normed, position_embeddings=position_embeddings, **kwargs)[0]
    )
    return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))[0]


@pytest.mark.parametrize("forward", [mlp_before_attention, mlp_with_router])
def test_a_last_layer_of_another_kind_computes_all_of_its_rows(forward):
    model = reward_model("llama")
    layer = model.model.layers[-1]
    if forward is mlp_with_router:
        layer.mlp = MlpOfTwo(layer.mlp)
    layer.forward = MethodType(forward, layer)
    hooks = len(layer.self_attn._forward_pre_hooks)
    assert make_flat(model) is None
    assert len(layer.self_attn._forward_pre_hooks) == hooks
    for seed in (0, 1):
        ids, groups = sequences(seed)
        expected, found = one_by_one(model, ids), score_flat(model, flat_plan(ids, groups))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_prompt_is_what_all_answers_begin_with_and_each_keeps_a_token():
    def rows(*ids: str) -> list[np.ndarray]:
        return [np.frombuffer(i.encode(), dtype=np.uint8).astype(np.int64) for i in ids]

    assert shared_prefix(rows("abcde", "abxyz")) == 2
    assert shared_prefix(rows("abc", "abcde")) == 2
    assert shared_prefix(rows("abc", "abc")) == 2
    assert shared_prefix(rows("abcd", "abce", "axcd")) == 1
    assert shared_prefix(rows("a", "ab")) == 0
    assert shared_prefix(rows("abc")) == 0
    plan = flat_plan(rows("abxy", "cd", "abz", "cd"), [0, 1, 0, 1])
    assert bytes(plan.input_ids.astype(np.uint8)) == b"abxyzcd"
    assert plan.position_ids.tolist() == [0, 1, 2, 3, 2, 0, 1]
    assert plan.last.tolist() == [3, 4, 6]
    assert plan.answer.tolist() == [0, 2, 1, 2]


def test_sequences_of_one_prompt_are_found_in_any_order():
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 97, n, dtype=np.int32) for n in (12, 30, 5, 9)]
    told, ids = [], []
    for prompt, count in zip(prompts, (2, 5, 3, 1), strict=True):
        for _ in range(count):
            told.append(len(prompt))
            ids.append(np.concatenate([prompt, rng.integers(1, 97, rng.integers(1, 9))]))
    order = rng.permutation(len(ids))
    found = shared_groups([ids[i] for i in order])
    pairs = {(told[i], group) for i, group in zip(order, found, strict=True)}
    assert len(pairs) == len(prompts) == len(set(found))


def test_a_group_grows_only_while_it_saves_tokens():
    def rows(*texts: str) -> list[np.ndarray]:
        return [np.frombuffer(t.encode(), dtype=np.uint8).astype(np.int64) for t in texts]

    assert shared_groups(rows("abcdx", "q", "abcdy", "abcz")) == [0, 1, 0, 0]
    assert shared_groups(rows("abcdefx", "abcdefy", "abz")) == [0, 0, 1]
    assert shared_groups(rows("abcdex", "abcdey", "abcz")) == [0, 0, 0]  # two save 5, three 2 * 3
    assert shared_groups(rows("ab1", "abcdx", "abcdy", "abz")) == [0, 0, 0, 0]
    assert shared_groups(rows("b", "a")) == [1, 0]


def reference_varlen(q, k, v, q_starts, k_starts, max_q, max_k, *, window_size, scale, enable_gqa):
    """What `torch.nn.attention.varlen.varlen_attn` says: ragged, aligned at the lower right."""
    before, after = window_size
    assert after == 0
    outputs = []
    for n in range(len(q_starts) - 1):
        own = q[q_starts[n] : q_starts[n + 1]].float()
        keys, values = (x[k_starts[n] : k_starts[n + 1]].float() for x in (k, v))
        assert len(own) <= max_q
        assert len(keys) <= max_k
        if enable_gqa:
            keys, values = (
                x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (keys, values)
            )
        last = torch.arange(len(keys) - len(own), len(keys))[:, None]
        seen = torch.arange(len(keys))[None]
        mask = (seen <= last) & ((before < 0) | (last - seen <= before))
        scores = torch.einsum("qhd,khd->hqk", own, keys) * scale
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(outputs).to(q.dtype)


@pytest.mark.parametrize(("capability", "has"), [((7, 5), False), ((8, 0), True), ((12, 0), True)])
def test_a_gpu_before_ampere_gets_no_ragged_call(monkeypatch, capability, has):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    assert ragged.has_varlen(torch.device("cuda")) == has
    assert not ragged.has_varlen(torch.device("cpu"))
    assert [ragged.fits_varlen(torch.empty(1, n)) for n in (8, 12, 256, 264)] == [1, 0, 1, 0]


@pytest.mark.parametrize("window", [None, 6])
def test_the_ragged_call_of_a_gpu_is_told_the_same_blocks(monkeypatch, window):
    told = []
    monkeypatch.setattr(
        ragged, "varlen_attn", lambda *a, **k: told.append(k) or reference_varlen(*a, **k)
    )
    monkeypatch.setattr(ragged, "HAS_ENABLE_GQA", True)
    plan = flat_plan(*sequences())
    rows, cpu = len(plan.input_ids), torch.device("cpu")
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, rows, 8, dtype=torch.bfloat16) for heads in (4, 2, 2))
    for x in (q, k, v):
        x.requires_grad_()
    given = {"scaling": 0.3, "sliding_window": window}
    module = torch.nn.Module()
    found, _ = attention.flat_attention(
        module, q, k, v, None, layout=varlen_layout(plan, cpu), **given
    )
    blocks, _ = attention.flat_attention(
        module,
        q.float(),
        k.float(),
        v.float(),
        None,
        layout=attention.layout_of(plan, cpu),
        **given,
    )
    assert len(told) == 1  # and by blocks without it
    assert found.shape == blocks.shape == (1, rows, 4, 8)
    torch.testing.assert_close(found.float(), blocks, atol=2e-2, rtol=2e-2)
    weights = torch.randn_like(blocks)
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), (q, k, v)),
        torch.autograd.grad((blocks * weights).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=5e-2, rtol=5e-2)


def test_every_use_of_a_row_as_a_key_is_found():
    rng = np.random.default_rng(0)
    for most in (1, 2, 3, 5):
        counts = rng.integers(1, most + 1, 40)
        counts[7] = most
        keys = rng.permutation(np.repeat(np.arange(40), counts))
        once_or_twice, further = uses(keys)
        assert once_or_twice.shape == (min(most, 2), 40)
        assert further.shape == (2, np.maximum(counts - 2, 0).sum())
        found = {row: [int(p) for p in once_or_twice[:, row] if p >= 0] for row in range(40)}
        for row, place in further.T:
            found[row].append(int(place))
        assert found == {row: np.flatnonzero(keys == row).tolist() for row in range(40)}
