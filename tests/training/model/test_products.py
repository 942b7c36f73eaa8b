"""Products by oneDNN: as near to the exact ones as the BLAS's, and only where they are meant."""

import copy
import pickle
import platform

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from tasks.training.model import products
from tasks.training.model.products import OneDnnLinear, has_onednn, product, use_onednn

pytestmark = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN on an x86 processor")

EPSILON = torch.finfo(torch.float32).eps
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))


class Special(nn.Linear):
    pass


def layer(bias: bool, inner: int = 48, outer: int = 80) -> nn.Linear:
    torch.manual_seed(0)
    plain = nn.Linear(inner, outer, bias=bias)
    assert use_onednn(plain) == 1
    return plain


def products_by_onednn(work) -> int:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        work()
    return sum(e.count for e in seen.key_averages() if e.key == "mkldnn::_linear_pointwise")


def gradients(function, given: torch.Tensor, module: nn.Linear, of_output: torch.Tensor):
    leaves = [given.detach().clone().requires_grad_(), *module.parameters()]
    output = function(leaves[0])
    return output.detach(), *torch.autograd.grad(output, leaves, of_output)


@pytest.mark.usefixtures("of_gradients")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(), (7,), (1, 300), (3, 5), (1, 1), (1, 0)])
def test_output_and_gradients_are_those_of_float64_up_to_rounding(shape, bias):
    module = layer(bias)
    given, of_output = torch.randn(*shape, 48), torch.randn(*shape, 80)
    found = gradients(module, given, module, of_output)
    exact = copy.deepcopy(module).double()
    expected = gradients(exact, given.double(), exact, of_output.double())
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        assert ours.shape == theirs.shape
        largest = theirs.abs().max() if theirs.numel() else torch.zeros(())
        torch.testing.assert_close(
            ours.double(), theirs, rtol=0, atol=float(8 * EPSILON * largest.clamp(min=1))
        )


@pytest.mark.usefixtures("of_gradients")
@pytest.mark.parametrize("how", ["sum", "transposed", "every second"])
def test_tensors_that_do_not_lie_in_one_piece(how):
    module = layer(True)
    given = torch.randn(48, 12).t() if how == "transposed" else torch.randn(24, 48)[::2]

    def through(product):
        leaf = given.detach().requires_grad_()
        output = product(leaf)
        if how != "sum":
            output = output.t().contiguous().t() * 2
        return output.detach(), *torch.autograd.grad(output.sum(), [leaf, *module.parameters()])

    found = through(module)
    expected = through(lambda x: linear(x, module.weight, module.bias))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("weight", "given", "wanted"), [(1, 1, 2), (1, 0, 1), (0, 1, 1)])
def test_forward_is_one_product_and_backward_one_for_each_gradient(
    weight, given, wanted, of_gradients
):
    module = layer(False)
    module.weight.requires_grad_(bool(weight))
    leaf = torch.randn(1, 5, 48, requires_grad=bool(given))
    outputs: list[torch.Tensor] = []
    assert products_by_onednn(lambda: outputs.append(module(leaf))) == 1
    of_onednn = products_by_onednn(outputs[0].sum().backward)
    assert of_onednn == (wanted if of_gradients == "oneDNN" else 0)
    assert (module.weight.grad is not None, leaf.grad is not None) == (bool(weight), bool(given))
    with torch.inference_mode():
        assert products_by_onednn(lambda: module(leaf)) == 1


@pytest.mark.parametrize(
    ("vendor", "capability", "fast"),
    [
        ("GenuineIntel", "AVX512", True),
        ("GenuineIntel", "AVX2", True),
        ("AuthenticAMD", "AVX512", False),
        ("AuthenticAMD", "AVX2", True),
    ],
)
def test_the_processor_says_whose_gradients_are_faster(
    vendor, capability, fast, monkeypatch, tmp_path
):
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(products, "CPU_INFO", file)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    found = products.gradients_are_of_mkl.__wrapped__()  # past what is remembered of this processor
    assert found is (fast and torch.backends.mkl.is_available())


@pytest.mark.parametrize("shape", [(384, 1152), (1152, 384), (64, 64)])
def test_a_rows_numbers_do_not_depend_on_the_rows_beside_it(shape):
    torch.manual_seed(0)
    inner, outer = shape
    given, weight, bias = torch.randn(300, inner), torch.randn(outer, inner), torch.randn(outer)
    whole = product(given, weight, bias)
    # Older oneDNN sums in another order where rows are few.
    tolerance = 0 if TORCH >= (2, 13) else 8 * EPSILON * float(whole.abs().max())
    for rows in (1, 2, 3, 17, 64, 299):
        found = product(given[-rows:], weight, bias)
        torch.testing.assert_close(found, whole[-rows:], rtol=0, atol=tolerance)


def test_a_frozen_layer_keeps_no_inputs():
    module = layer(False).requires_grad_(False)
    leaf = torch.randn(1, 5, 48, requires_grad=True)
    given = leaf * 1
    output = module(given)
    given.add_(1)  # would be refused if the backward pass needed it
    output.sum().backward()
    torch.testing.assert_close(leaf.grad, module.weight.sum(0).expand(1, 5, 48))


@pytest.mark.parametrize("shape", [(2, 5), (1, 1)])
def test_its_output_may_be_changed_in_place(shape):
    module, given = layer(True), torch.randn(*shape, 48)
    found = gradients(lambda x: module(x).clamp_(min=-0.1), given, module, torch.ones(*shape, 80))
    usual = lambda x: linear(x, module.weight, module.bias).clamp_(min=-0.1)  # noqa: E731
    expected = gradients(usual, given, module, torch.ones(*shape, 80))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_second_derivative_is_refused_and_not_nought():
    module, leaf = layer(False), torch.randn(5, 48, requires_grad=True)
    (first,) = torch.autograd.grad((module(leaf) ** 2).sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_checkpointed_layer_has_the_same_gradients():
    module, given, of_output = layer(True), torch.randn(1, 5, 48), torch.randn(1, 5, 80)
    expected = gradients(module, given, module, of_output)
    again = gradients(
        lambda x: checkpoint(module, x, use_reentrant=False), given, module, of_output
    )
    assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))


def test_a_compiler_gets_the_usual_layer():
    module, given = layer(True), torch.randn(1, 5, 48)
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    found: list[torch.Tensor] = []
    assert products_by_onednn(lambda: found.append(compiled(given))) == 0
    assert torch.equal(found[0], linear(given, module.weight, module.bias))


@pytest.mark.parametrize("case", ["float64", "bfloat16", "autocast"])
def test_all_else_goes_the_way_that_it_went(case):
    module = layer(True)
    given = torch.randn(5, 48)
    if case != "autocast":
        dtype = getattr(torch, case)
        module, given = module.to(dtype), given.to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
        assert products_by_onednn(lambda: module(given)) == 0
        assert torch.equal(module(given), linear(given, module.weight, module.bias))


def test_it_can_be_switched_off(monkeypatch):
    module, given = layer(False), torch.randn(5, 48)
    with monkeypatch.context() as without:
        without.setattr(torch.backends.mkldnn, "enabled", False)
        assert products_by_onednn(lambda: module(given)) == 0
    assert products_by_onednn(lambda: module(given)) == 1


def test_a_model_keeps_its_parameters_and_its_kinds():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Special(4, 4), nn.Linear(4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert use_onednn(model) == 2
    assert use_onednn(model) == 0
    assert [type(m) for m in model] == [OneDnnLinear, nn.LayerNorm, Special, OneDnnLinear]
    assert all(isinstance(model[place], nn.Linear) for place in (0, 2, 3))
    after = model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], value) for name, value in after.items())
    again = pickle.loads(pickle.dumps(model))
    assert [type(m) for m in again] == [type(m) for m in model]
    given = torch.randn(3, 4)
    assert torch.equal(again(given), model(given))
