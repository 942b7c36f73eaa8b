"""Metrics as sums over pairs: of micro-batches in training, of the whole table in evaluation."""

import itertools
import json

import numpy as np
import pytest
import torch
from datasets import Dataset

from tasks.training.loss.objective import Objective
from tasks.training.loss.params import loss_params
from tasks.training.metrics.interval import IntervalSums, table_metrics
from tasks.training.metrics.table import losses_and_weights

CPU = torch.device("cpu")
LARGE = 10_000_001
"""Makes sums of tokens that no float32 holds."""


def test_metrics_of_a_table_written_by_hand():
    # right by 2, equal, wrong by 1, and a tie, which counts for the rewards alone
    rewards = np.array([[3, 1], [1, 1], [0, 1], [5, -3]], dtype=np.float32)
    assert table_metrics(rewards, np.array([1.0, 1.0, 0.8, 0.5])) == {
        "accuracy": 1 / 3,
        "margin": pytest.approx((2 + 0 - 1) / 3),
        "tied_pairs": 1,
        "min_reward": -3,
        "mean_reward": (3 + 1 + 0 + 5 + 1 + 1 + 1 - 3) / 8,
        "max_reward": 5,
        "equal_rewards": 1,
        "accuracy_ties_half": 1.5 / 3,
    }
    ties = {"tied_pairs": 2, "min_reward": 1, "mean_reward": 1.5, "max_reward": 3}
    assert table_metrics(rewards[:2], np.full(2, 0.5)) == ties


def test_an_interval_has_the_metrics_of_the_table_of_its_pairs():
    draw = np.random.default_rng(0)
    # no float32 holds a sum of these
    rewards = (draw.integers(-3, 4, (60, 2)) / 2 + 2**22).astype(np.float32)
    preference = draw.choice([0.5, 0.8, 1.0], 60).astype(np.float32)
    weight, losses = draw.uniform(0.5, 2, (2, 60)).astype(np.float32)
    sums, tokens = IntervalSums(CPU), 0
    for cuts in ((0, 30), (30, 37, 38, 60)):
        for own in itertools.starmap(slice, itertools.pairwise(cuts)):
            batch = {"weight": weight[own], "preference": preference[own]}
            batch = {name: torch.from_numpy(values) for name, values in batch.items()}
            batch["attention_mask"] = torch.full((len(rewards[own]), 5), LARGE)
            total = torch.tensor((weight * losses)[own].sum())
            sums.add(torch.from_numpy(rewards[own]).unbind(1), total, batch)
            tokens += 5 * LARGE * len(rewards[own])
            assert sums.tokens() == tokens
        kept, sums = sums, IntervalSums(CPU)  # as a run that goes on
        sums.restore(json.loads(json.dumps(kept.state())))
        own = slice(cuts[0], cuts[-1])
        wanted = table_metrics(rewards[own], preference[own])
        assert wanted.pop("equal_rewards") > 0
        wanted.pop("accuracy_ties_half")
        loss = np.average(losses[own], weights=weight[own])
        wanted |= {"num_tokens": tokens, "loss": pytest.approx(loss, rel=1e-6)}
        assert sums.flush() == wanted
        assert sums.pairs_before == own.stop
    assert sums.flush() == {}
    plain = {"attention_mask": torch.ones(2, 7)}  # neither weights nor preferences
    sums.add((torch.tensor([2.0]), torch.tensor([1.0])), torch.tensor(0.25), plain)
    wanted = table_metrics(np.array([[2, 1]]), np.ones(1))
    assert sums.flush() == {"num_tokens": tokens + 14, "loss": 0.25, **wanted}
    assert "tied_pairs" not in wanted


def test_every_pair_of_a_comparison_has_its_loss_and_a_share_of_its_weight():
    reward = {"A": 2.0, "B": 1.0, "C": 0.5, "D": 0.0, "E": 1.5, "F": 1.0, "G": -1.0}
    pairs = ["AB", "DE", "BC", "FG"]  # two pairs of three answers, one of two, and a tie
    rows = Dataset.from_list(
        [
            {
                "chosen_input_ids": [ord(chosen)],
                "rejected_input_ids": [ord(rejected)],
                "comparison": "first" if chosen in "AB" else chosen,
                "preference": 0.5 if chosen == "F" else 1.0,
            }
            for chosen, rejected in pairs
        ]
    )
    rewards = np.array([[reward[chosen], reward[rejected]] for chosen, rejected in pairs])
    weight = [1.0, 3.0, 2.0, 1.0]
    terms = np.stack([np.zeros(4), weight, rows["preference"][:]], 1)  # margin, weight, preference

    def drawn(first, *left):
        """Minus the log probability that an answer is drawn from those that are left."""
        return np.log(np.sum([np.exp(reward[each]) for each in left])) - reward[first]

    listed = drawn("A", *"ABC") + drawn("B", *"BC")
    tied = drawn("F", *"FG") + drawn("G", *"FG")
    wanted = [listed, drawn("D", *"DE"), listed, tied]
    objective = Objective(loss_params("plackett_luce"), None)
    losses, shares = losses_and_weights(objective, rewards, terms, rows)
    assert losses == pytest.approx(wanted, rel=1e-12)
    assert shares.tolist() == [0.5, 3.0, 1.0, 1.0]
    _, shares = losses_and_weights(Objective(loss_params("all_pairs"), None), rewards, terms, rows)
    assert shares.tolist() == [0.5, 3.0, 1.0, 1.0]
