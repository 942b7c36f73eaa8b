"""Every loss, against values computed by hand and gradients held against finite differences."""

import math

import pytest
import torch

from tasks.errors import ParamsError
from tasks.training.loss.losses import (
    bradley_terry,
    centering,
    davidson,
    focal,
    plackett_luce,
    regression,
    scaled_bradley_terry,
    weighted_sum,
)
from tasks.training.loss.objective import Objective
from tasks.training.loss.params import LossParams, loss_params

CHOSEN = torch.tensor([2.0, 0.0, -1.0])
REJECTED = torch.tensor([1.0, 0.0, 1.0])
WON, EVEN, LOST = math.log1p(math.exp(-1)), math.log(2), math.log1p(math.exp(2))
"""-log sigmoid of the differences 1, 0 and -2."""


def near(values, expected):
    return values.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_bradley_terry_is_the_negative_log_probability_of_the_preference():
    # differences 1, 0, -2: log(1 + e^-1), log 2, log(1 + e^2)
    assert near(bradley_terry(CHOSEN, REJECTED), [WON, EVEN, LOST])


def test_a_margin_is_taken_off_the_difference():
    # differences 1 - 1, 0 - 0.5, -2 - 0: log 2, log(1 + e^0.5), log(1 + e^2)
    margin = torch.tensor([1.0, 0.5, 0.0])
    expected = [EVEN, math.log1p(math.exp(0.5)), LOST]
    assert near(bradley_terry(CHOSEN, REJECTED, margin), expected)


def test_a_soft_label_is_the_cross_entropy_with_its_share():
    # p = 0.75, 0.5, 1: -p log s(d) - (1 - p) log s(-d); -log s(-1) = 1 + WON, of a tie at 0: log 2
    preference = torch.tensor([0.75, 0.5, 1.0])
    expected = [0.75 * WON + 0.25 * (1 + WON), EVEN, LOST]
    assert near(bradley_terry(CHOSEN, REJECTED, None, preference), expected)
    # a tie at difference -2: (LOST + LOST - 2) / 2
    tied = bradley_terry(CHOSEN, REJECTED, None, torch.full((3,), 0.5))
    assert tied[2].item() == pytest.approx(LOST - 1)


def test_label_smoothing_takes_a_share_of_the_labels_as_wrong():
    # e = 0.1: 0.9 WON + 0.1 (WON + 1), EVEN, 0.9 LOST + 0.1 (LOST - 2)
    smoothed = bradley_terry(CHOSEN, REJECTED, label_smoothing=0.1)
    assert near(smoothed, [WON + 0.1, EVEN, LOST - 0.2])
    # a tie stays a tie: 0.5 (1 - 2e) + e = 0.5
    tie = torch.full((3,), 0.5)
    smoothed = bradley_terry(CHOSEN, REJECTED, None, tie, label_smoothing=0.1)
    assert near(smoothed, bradley_terry(CHOSEN, REJECTED, None, tie).tolist())


def test_the_scaled_loss_is_the_margin_times_the_plain_one():
    margin = torch.tensor([3.0, 1.0, 0.5])
    assert near(scaled_bradley_terry(CHOSEN, REJECTED, margin), [3 * WON, EVEN, LOST / 2])


def test_davidson_gives_a_tie_the_probability_of_its_parameter():
    # nu = 2, difference 0: win 1 / (1 + 1 + 2) = 1/4, tie 2/4
    zero = torch.zeros(2)
    found = davidson(zero, zero, torch.tensor([1.0, 0.5]), nu=2.0)
    assert near(found, [math.log(4), math.log(2)])
    # difference 2 ln 3, nu = 1: strengths 3, 1/3, 1; win 9/13, tie 3/13; p = 0.75: half of each
    far = torch.full((3,), 2 * math.log(3))
    found = davidson(far, torch.zeros(3), torch.tensor([1.0, 0.5, 0.75]), nu=1.0)
    win, tie = math.log(13 / 9), math.log(13 / 3)
    assert near(found, [win, tie, (win + tie) / 2])


def test_davidson_without_ties_is_bradley_terry():
    assert near(davidson(CHOSEN, REJECTED, None, 1e-12), [WON, EVEN, LOST])


def test_the_focal_loss_turns_away_from_pairs_that_are_right():
    # P = s(1) = 0.7310586: (1 - 2 * 0.2310586)^2 * WON; P = 1/2 and P < 1/2: factor 1
    right = (1 - 2 * (1 / (1 + math.exp(-1)) - 0.5)) ** 2
    assert near(focal(CHOSEN, REJECTED, None, 2.0), [right * WON, EVEN, LOST])
    assert near(focal(CHOSEN, REJECTED, None, 0.0), [WON, EVEN, LOST])
    for gamma, first in ((None, right * WON), (0, WON)):
        objective = Objective(LossParams(type="focal", gamma=gamma))
        assert near(objective.pair_losses(CHOSEN, REJECTED), [first, EVEN, LOST])


def test_regression_is_the_squared_distance_of_the_difference_from_the_margin():
    # 1 - 0.5, 0 - 1, -2 - 1
    margin = torch.tensor([0.5, 1.0, 1.0])
    assert near(regression(CHOSEN, REJECTED, margin), [0.25, 1.0, 9.0])


def test_plackett_luce_draws_the_answers_one_after_another():
    # rewards log 1, log 2, log 3; best first: 3 of 6, then 2 of 3, then 1 of 1
    rewards = torch.tensor([0.0, math.log(2), math.log(3)])
    # worst first: 1 of 6, 2 of 5, 3 of 3; and a comparison of two: 3 of 4
    ranking = torch.tensor([[2, 1, 0], [0, 1, 2], [2, 0, -1]])
    expected = [math.log(2 * 3 / 2), math.log(6 * 5 / 2), math.log(4 / 3)]
    assert near(plackett_luce(rewards, ranking), expected)


def test_tied_answers_are_each_drawn_from_all_of_their_level_and_what_is_behind():
    # strengths 1, 2, 3: 3 over a tie of 2 and 1 is 3/6 2/3 1/3; a tie of 3 and 2 over 1 is 3/6 2/6
    # 1/1; all tied 1/6 2/6 3/6; and of 3 and 1 alone, tied, 3/4 1/4
    rewards = torch.tensor([0.0, math.log(2), math.log(3)])
    ranking = torch.tensor([[2, 1, 0], [1, 2, 0], [0, 1, 2], [2, 0, -1]])
    level = torch.tensor([[0, 1, 1], [0, 0, 2], [0, 0, 0], [0, 0, -1]])
    expected = [math.log(9), math.log(6), math.log(36), math.log(16 / 3)]
    assert near(plackett_luce(rewards, ranking, level), expected)
    strict = torch.tensor([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, -1]])
    found = plackett_luce(rewards, ranking, strict)
    assert torch.equal(found, plackett_luce(rewards, ranking))


def test_a_tie_of_two_answers_is_twice_that_of_bradley_terry():
    rewards = torch.cat([CHOSEN, REJECTED])
    ranking = torch.tensor([[0, 3], [1, 4], [2, 5]])
    tie = bradley_terry(CHOSEN, REJECTED, preference=torch.full((3,), 0.5))
    found = plackett_luce(rewards, ranking, torch.zeros_like(ranking))
    assert near(found, (2 * tie).tolist())


def test_plackett_luce_of_two_answers_is_bradley_terry():
    rewards = torch.cat([CHOSEN, REJECTED])
    ranking = torch.tensor([[0, 3], [1, 4], [2, 5]])
    assert near(plackett_luce(rewards, ranking), [WON, EVEN, LOST])


def test_centering_is_the_square_of_the_sum_of_rewards():
    # sums 3, 0, 0
    assert near(centering(CHOSEN, REJECTED), [9.0, 0.0, 0.0])


def test_a_pair_of_weight_two_counts_as_the_pair_given_twice():
    losses = bradley_terry(CHOSEN, REJECTED)
    weighted = weighted_sum(losses, torch.tensor([2.0, 1.0, 1.0]))
    assert weighted.item() == pytest.approx((losses.sum() + losses[0]).item())


POSITIVE = torch.tensor([0.3, 1.2, 2.0, 0.7], dtype=torch.float64)
SOFT = torch.tensor([1.0, 0.5, 0.75, 0.9], dtype=torch.float64)
RAGGED = torch.tensor([[0, 4, 1, 5], [2, 6, -1, -1], [7, 3, 0, -1]])
TIED = torch.tensor([[0, 0, 2, 2], [0, 0, -1, -1], [0, 1, 1, -1]])
GRADIENTS = {
    "plain": bradley_terry,
    "margin": lambda c, r: bradley_terry(c, r, POSITIVE),
    "soft and smoothed": lambda c, r: bradley_terry(c, r, POSITIVE, SOFT, 0.1),
    "scaled": lambda c, r: scaled_bradley_terry(c, r, POSITIVE, SOFT, 0.05),
    "davidson": lambda c, r: davidson(c, r, SOFT, 0.8),
    "focal": lambda c, r: focal(c, r, POSITIVE, 2.0),
    "focal, flat": lambda c, r: focal(c, r, None, 0.5),
    "regression": lambda c, r: regression(c, r, POSITIVE),
    "plackett-luce": lambda c, r: plackett_luce(torch.cat([c, r]), RAGGED),
    "plackett-luce with ties": lambda c, r: plackett_luce(torch.cat([c, r]), RAGGED, TIED),
    "centering": centering,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_finite_differences(name):
    draw = torch.Generator().manual_seed(3)
    sides = [
        torch.randn(4, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(2)
    ]
    assert GRADIENTS[name](*sides).dtype == torch.float64
    assert torch.autograd.gradcheck(GRADIENTS[name], sides)


@pytest.mark.parametrize("name", GRADIENTS)
def test_far_rewards_give_finite_float32_losses_and_gradients_from_bfloat16(name):
    far = torch.tensor([-300.0, 300.0, 0.0, 60.0], dtype=torch.bfloat16, requires_grad=True)
    losses = GRADIENTS[name](far, torch.zeros(4, dtype=torch.bfloat16))
    losses.sum().backward()
    assert losses.dtype == torch.float32
    assert bool(torch.isfinite(losses).all())
    assert bool(torch.isfinite(far.grad).all())


def test_the_gradient_is_minus_the_probability_of_the_wrong_order():
    chosen = torch.tensor([0.7], dtype=torch.float32, requires_grad=True)
    bradley_terry(chosen, torch.tensor([0.2])).sum().backward()
    assert chosen.grad is not None
    assert chosen.grad.item() == pytest.approx(-1 / (1 + math.exp(0.5)), rel=1e-6)


def test_the_default_is_plain_bradley_terry_and_a_name_alone_is_a_section():
    assert Objective(loss_params(None)).params == LossParams() == loss_params({})
    assert loss_params("davidson") == LossParams(type="davidson")
    plain = Objective(LossParams()).pair_losses(CHOSEN, REJECTED)
    assert near(plain, [WON, EVEN, LOST])
    ignoring = Objective(LossParams(margin="ignore"))
    assert near(ignoring.pair_losses(CHOSEN, REJECTED, torch.ones(3)), [WON, EVEN, LOST])


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"type": "hinge"}, r"loss\.type: Input should be 'bradley_terry', 'davidson'"),
        ({"label_smooting": 0.1}, r"loss\.label_smooting: Extra inputs"),
        ({"label_smoothing": 0.5}, r"loss\.label_smoothing: .*less than 0\.5"),
        ({"type": "focal", "label_smoothing": 0.1}, "focal has none"),
        ({"type": "davidson", "nu": 0}, r"loss\.nu: .*greater than 0"),
        ({"type": "focal", "nu": 1}, "nu belongs to type davidson, but the type is focal"),
        ({"gamma": 1}, "gamma belongs to type focal, but the type is bradley_terry"),
        ({"type": "regression", "margin": "ignore"}, "needs the margins"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(section, told):
    with pytest.raises(ParamsError, match=told):
        loss_params(section)
