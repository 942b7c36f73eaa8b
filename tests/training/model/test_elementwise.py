"""Norms and gated layers with fewer passes: the same numbers, and only where they are."""

import copy
import pickle
from collections import Counter

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn.utils import parametrizations
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm
from transformers.models.seed_oss.configuration_seed_oss import SeedOssConfig
from transformers.models.seed_oss.modeling_seed_oss import SeedOssMLP

from tasks.training.model.elementwise import use_fewer_passes
from tasks.training.model.products import has_onednn, use_onednn
from tests.training.layout.test_layout import reward_model

pytestmark = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN on an x86 processor")

EPSILON = torch.finfo(torch.float32).eps
WIDTH, INNER = 24, 40


def norm() -> LlamaRMSNorm:
    made = LlamaRMSNorm(WIDTH, eps=1e-5)
    nn.init.normal_(made.weight)
    return made


def gated(activation: str = "silu", bias: bool = False) -> LlamaMLP:
    config = LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=4,
        intermediate_size=INNER,
        hidden_act=activation,
        mlp_bias=bias,
    )
    return LlamaMLP(config)


def changed(module: nn.Module) -> nn.Module:
    use_onednn(module)
    assert use_fewer_passes(module) == 1
    return module


KINDS = {"norm": norm, "gated": gated}


@pytest.fixture(params=KINDS)
def module(request) -> nn.Module:
    torch.manual_seed(0)
    return changed(KINDS[request.param]())


def usual(module: nn.Module, given: torch.Tensor) -> torch.Tensor:
    return type(module).forward(module, given)


def gradients(module, forward, given, of_output):
    leaf = given.detach().clone().requires_grad_()
    output = forward(module, leaf)
    return output.detach(), *torch.autograd.grad(output, [leaf, *module.parameters()], of_output)


@pytest.mark.usefixtures("of_gradients")
@pytest.mark.parametrize("shape", [(), (7,), (1, 300), (3, 5), (2, 5, 3), (1, 1)])
def test_output_is_the_usual_one_and_gradients_are_those_of_float64(module, shape):
    given, of_output = torch.randn(*shape, WIDTH) * 3, torch.randn(*shape, WIDTH)
    found = gradients(module, nn.Module.__call__, given, of_output)
    assert torch.equal(found[0], usual(module, given))
    exact = copy.deepcopy(module).double()
    if hasattr(exact, "weight"):  # the usual norm computes in float32, whatever it is given
        expected = gradients(exact, _exact_norm, given.double(), of_output.double())
    else:
        expected = gradients(exact, usual, given.double(), of_output.double())
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        atol = float(16 * EPSILON * theirs.abs().max().clamp(min=1))
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=atol)


def _exact_norm(module, x):
    variance = x.pow(2).mean(-1, keepdim=True)
    return module.weight * (x * torch.rsqrt(variance + module.variance_epsilon))


@pytest.mark.usefixtures("of_gradients")
def test_gradients_may_be_asked_for_twice_and_one_by_one(module):
    leaf = torch.randn(1, 9, WIDTH, requires_grad=True)
    of_output, leaves = torch.randn(1, 9, WIDTH), [leaf, *module.parameters()]
    output = module(leaf)
    first, again = (
        torch.autograd.grad(output, leaves, of_output, retain_graph=True) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for one in range(len(leaves)):
        for place, tensor in enumerate(leaves):
            tensor.requires_grad_(place == one)
        (alone,) = torch.autograd.grad(module(leaf), leaves[one], of_output)
        assert torch.equal(alone, first[one])


def test_a_layer_keeps_its_input_and_two_products_and_a_norm_its_input():
    for module, numbers in ((norm(), 50 * (WIDTH + 1)), (gated(), 50 * (WIDTH + 2 * INNER))):
        changed(module)
        weights = {p.data_ptr() for p in module.parameters()}
        kept: list[torch.Tensor] = []

        def pack(tensor: torch.Tensor, kept=kept) -> torch.Tensor:
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            module(torch.randn(1, 50, WIDTH, requires_grad=True))
        assert sum(x.numel() for x in kept if x.data_ptr() not in weights) == numbers


def test_without_gradients_the_numbers_are_the_same(module):
    given = torch.randn(2, 5, WIDTH)
    with torch.inference_mode():
        assert torch.equal(module(given), usual(module, given))


def functions_of(output: torch.Tensor) -> set[str]:
    """Names of all that the backward pass will call."""
    found, left = set(), [output.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.add(node)
            left += [following for following, _ in node.next_functions]
    return {type(node).__name__ for node in found}


@pytest.mark.parametrize("case", ["float64", "bfloat16", "autocast", "compiled", "switched off"])
def test_all_else_goes_the_way_that_it_went(module, case, monkeypatch):
    given = torch.randn(1, 5, WIDTH, requires_grad=True)
    assert {"_NormBackward", "_GatedBackward"} & functions_of(module(given))
    if case in ("float64", "bfloat16"):
        dtype = getattr(torch, case)
        module, given = module.to(dtype), given.to(dtype)
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    function = compiled if case == "compiled" else module
    if case == "switched off":
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
        output = function(given)
        if case == "compiled":  # which leaves products to the BLAS
            monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
        assert torch.equal(output, usual(module, given))
    assert not {"_NormBackward", "_GatedBackward"} & functions_of(output)


def test_only_modules_that_give_the_same_numbers_are_changed():
    def count(family: str, **changes: object) -> Counter[str]:
        modules = reward_model(family, **changes).base_model.modules()
        return Counter(type(m).__name__ for m in modules if "forward" in vars(m))

    layers = 3
    assert count("llama")["LlamaRMSNorm"] == 2 * layers + 1
    assert count("llama")["LlamaMLP"] == layers
    assert count("qwen3")["Qwen3RMSNorm"] == 4 * layers + 1
    assert count("mistral")["MistralMLP"] == layers
    for family in ("gemma", "gemma3_text", "gpt2", "phi"):  # 1 + weight; gelu
        assert not count(family)
    assert "LlamaMLP" not in count("llama", hidden_act="gelu")
    assert "LlamaMLP" not in count("llama", mlp_bias=True)


def test_other_activations_and_biases_are_left_as_they_are():
    for module in (gated("gelu"), gated(bias=True), nn.RMSNorm(WIDTH), nn.LayerNorm(WIDTH)):
        use_onednn(module)
        assert use_fewer_passes(module) == 0
    use_onednn(plain := gated())
    assert use_fewer_passes(plain) == 1


def test_a_layer_that_drops_as_it_trains_is_left_as_it_is():
    config = SeedOssConfig(hidden_size=WIDTH, intermediate_size=INNER, residual_dropout=0.5)
    module = SeedOssMLP(config).eval()
    use_onednn(module)
    assert use_fewer_passes(module) == 0
    assert not any(part.training for part in module.modules())


def test_the_default_dtype_is_not_the_probes():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert use_fewer_passes(GemmaRMSNorm(WIDTH).float()) == 0
        changed(norm().float())
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_norm_whose_weight_is_made_at_every_call_keeps_its_numbers():
    module, given = changed(norm()), torch.randn(1, 5, WIDTH)
    wanted = module(given)
    parametrizations.weight_norm(module)
    torch.testing.assert_close(module(given), wanted)
    assert "_NormBackward" in functions_of(module(given))


def test_what_is_put_on_a_part_of_a_layer_is_heeded():
    given = torch.randn(1, 5, WIDTH)

    def put_on(change) -> None:
        module = changed(gated())
        before = module(given)
        change(module)
        assert torch.equal(module(given), usual(module, given))
        assert not torch.equal(module(given), before)

    put_on(lambda m: m.act_fn.register_forward_hook(lambda *_: torch.ones(1, 5, INNER)))
    put_on(lambda m: setattr(m, "act_fn", nn.GELU()))
    put_on(lambda m: setattr(m.up_proj, "forward", lambda _: torch.ones(1, 5, INNER)))


def test_nothing_is_changed_where_the_probe_would_compare_a_module_with_itself(monkeypatch):
    """Switched off, both would go the usual way, and a gelu would pass for a silu later."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    module = gated("gelu")
    use_onednn(module)
    assert use_fewer_passes(module) == 0


def test_what_is_put_on_its_layers_later_is_computed():
    module, given = changed(gated()), torch.randn(1, 5, WIDTH)
    seen: list[str] = []
    hook = module.gate_proj.register_forward_hook(lambda *_: seen.append("gate"))
    assert torch.equal(module(given), usual(module, given))
    assert seen == ["gate", "gate"]
    hook.remove()
    adapted = get_peft_model(
        nn.ModuleDict({"mlp": module}),
        LoraConfig(target_modules=["up_proj"], init_lora_weights=False),
    )
    before = usual(module, given)
    with adapted.disable_adapter():
        assert not torch.allclose(module(given), before)
    assert torch.equal(module(given), before)


def test_a_copy_and_a_pickle_compute_with_weights_of_their_own(module):
    given = torch.randn(1, 5, WIDTH)
    before = module(given)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        assert not other(given).any()
        assert torch.equal(module(given), before)
