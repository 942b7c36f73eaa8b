"""Products by oneDNN: as near to the exact ones as the BLAS's, and only where they are meant."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.profiler import ProfilerActivity, profile

from tasks.training.model.products import OneDnnLinear, has_onednn, use_onednn

pytestmark = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN on an x86 processor")

EPSILON = torch.finfo(torch.float32).eps


class Special(nn.Linear):
    pass


def layer(bias: bool, inner: int = 48, outer: int = 80) -> nn.Linear:
    torch.manual_seed(0)
    plain = nn.Linear(inner, outer, bias=bias)
    assert use_onednn(plain) == 1
    return plain


def ran_onednn(work) -> bool:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        work()
    return any(event.key == "mkldnn::_linear_pointwise" for event in seen.key_averages())


def gradients(function, given: torch.Tensor, module: nn.Linear, of_output: torch.Tensor):
    leaves = [given.detach().clone().requires_grad_(), *module.parameters()]
    output = function(leaves[0])
    return output.detach(), *torch.autograd.grad(output, leaves, of_output)


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


def test_only_what_is_asked_for_gets_a_gradient():
    module = layer(True)
    module.weight.requires_grad_(False)
    given = torch.randn(5, 48)
    module(given).sum().backward()
    assert module.weight.grad is None
    assert module.bias.grad is not None


def test_it_is_onednn_in_float32_and_with_or_without_gradients():
    module = layer(False)
    given = torch.randn(5, 48)
    assert ran_onednn(lambda: module(given).sum().backward())
    with torch.inference_mode():
        assert ran_onednn(lambda: module(given))
    assert not ran_onednn(lambda: linear(given, module.weight))


@pytest.mark.parametrize("case", ["float64", "bfloat16", "autocast"])
def test_all_else_goes_the_way_that_it_went(case):
    module = layer(True)
    given = torch.randn(5, 48)
    if case != "autocast":
        dtype = getattr(torch, case)
        module, given = module.to(dtype), given.to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
        assert not ran_onednn(lambda: module(given))
        assert torch.equal(module(given), linear(given, module.weight, module.bias))


def test_it_can_be_switched_off(monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(torch.backends.mkldnn, "enabled", False)
        assert use_onednn(nn.Linear(4, 4)) == 0
    assert use_onednn(nn.Linear(4, 4)) == 1


def test_a_model_keeps_its_parameters_and_its_kinds():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Special(4, 4), nn.Linear(4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert use_onednn(model) == 2
    assert use_onednn(model) == 0
    assert [type(m) for m in model] == [OneDnnLinear, nn.LayerNorm, Special, OneDnnLinear]
    assert all(isinstance(model[place], nn.Linear) for place in (0, 2, 3))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    again = pickle.loads(pickle.dumps(model))
    given = torch.randn(3, 4)
    assert torch.equal(again(given), model(given))
