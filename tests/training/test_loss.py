"""The loss of pairs, against values computed by hand."""

import math

import pytest
import torch

from tasks.training.loss import bradley_terry, pair_losses, weighted_sum

CHOSEN = torch.tensor([2.0, 0.0, -1.0])
REJECTED = torch.tensor([1.0, 0.0, 1.0])


def test_bradley_terry_is_the_negative_log_probability_of_the_preference():
    # differences 1, 0, -2: log(1 + e^-1), log 2, log(1 + e^2)
    expected = [math.log1p(math.exp(-1)), math.log(2), math.log1p(math.exp(2))]
    assert bradley_terry(CHOSEN, REJECTED).tolist() == pytest.approx(expected, rel=1e-6)


def test_a_margin_is_taken_off_the_difference():
    # differences 1 - 1, 0 - 0.5, -2 - 0: log 2, log(1 + e^0.5), log(1 + e^2)
    margin = torch.tensor([1.0, 0.5, 0.0])
    expected = [math.log(2), math.log1p(math.exp(0.5)), math.log1p(math.exp(2))]
    assert bradley_terry(CHOSEN, REJECTED, margin).tolist() == pytest.approx(expected, rel=1e-6)


def test_centering_adds_the_square_of_the_sum_of_rewards():
    # sums 3, 0, 0: 0.1 * 9 on the first pair alone
    plain = pair_losses(CHOSEN, REJECTED)
    centered = pair_losses(CHOSEN, REJECTED, center_rewards_coefficient=0.1)
    assert (centered - plain).tolist() == pytest.approx([0.9, 0.0, 0.0], abs=1e-6)


def test_a_pair_of_weight_two_counts_as_the_pair_given_twice():
    losses = pair_losses(CHOSEN, REJECTED)
    weighted = weighted_sum(losses, torch.tensor([2.0, 1.0, 1.0]))
    assert weighted.item() == pytest.approx((losses.sum() + losses[0]).item())


def test_bfloat16_rewards_give_a_float32_loss_without_overflow():
    far = torch.tensor([-300.0], dtype=torch.bfloat16, requires_grad=True)
    loss = bradley_terry(far, torch.zeros(1, dtype=torch.bfloat16))
    loss.sum().backward()
    assert loss.dtype == torch.float32
    assert loss.item() == 300.0
    assert far.grad is not None
    assert far.grad.item() == -1.0


def test_the_gradient_is_minus_the_probability_of_the_wrong_order():
    chosen = torch.tensor([0.7], dtype=torch.float32, requires_grad=True)
    bradley_terry(chosen, torch.tensor([0.2])).sum().backward()
    assert chosen.grad is not None
    assert chosen.grad.item() == pytest.approx(-1 / (1 + math.exp(0.5)), rel=1e-6)
