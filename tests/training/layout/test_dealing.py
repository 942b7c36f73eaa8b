"""Global batches dealt by tokens: the same pairs, balanced, within the budget, the same losses."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.batches.comparisons import Comparisons
from tasks.training.layout.dealing import Costs, deal
from tasks.training.layout.lengths import item_costs
from tasks.training.layout.loader import Dealing, GlobalBatches
from tests.at_length import at_length
from tests.training.layout.test_layouts_in_training import ranked, run
from tests.training.tiny import make_rows

SIDES = ("chosen_input_ids", "rejected_input_ids")


def costs(*tokens, sequences=None):
    rows = None if sequences is None else np.full(len(tokens), sequences, dtype=np.int64)
    return Costs(np.array(tokens, dtype=np.int64), rows)


def test_the_docstring_s_example():
    assert deal(costs(9, 4, 4, 3, 2, 2, 1), 2, budget=10) == [
        [[0], [1, 5]],
        [[3, 4], [2, 6]],
    ]
    assert deal(costs(6, 4), 1, budget=10) == [[[0, 1]]]
    assert deal(costs(1, 8, 9, 2), 2, least=2) == [[[2], [1]], [[0], [3]]]  # like beside like
    assert deal(costs(16, 16, 2, 2, sequences=2), 2) == [[[0, 1], [2, 3]]]  # 32 is the least


@given(
    tokens=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    processes=st.integers(1, 5),
    least=st.integers(1, 3),
    budget=st.none() | st.integers(1, 200),
    rectangle=st.booleans(),
)
def test_nothing_is_lost_cut_or_over_the_budget(tokens, processes, least, budget, rectangle):
    given = costs(*(2 * n for n in tokens), sequences=2 if rectangle else None)
    dealt = deal(given, processes, least, budget)
    assert all(len(step) == processes for step in dealt)
    assert len(dealt) >= least
    assert sorted(i for step in dealt for own in step for i in own) == [*range(len(tokens))]
    for own in (own for step in dealt for own in step):
        assert own == sorted(own)
        assert budget is None or len(own) < 2 or given.micro_batch_tokens(own) <= budget
        padded = 2 * len(own) * max((tokens[i] for i in own), default=0)
        assert given.micro_batch_tokens(own) == (
            padded if rectangle else sum(2 * tokens[i] for i in own)
        )


@given(
    tokens=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    budget=st.integers(1, 300),
    most=st.integers(1, 8),
    rectangle=st.booleans(),
)
def test_a_batch_is_filled_until_nothing_more_fits(tokens, budget, most, rectangle):
    given = costs(*(2 * n for n in tokens), sequences=2 if rectangle else None)
    order = np.argsort(-given.tokens, kind="stable")
    found = given.fitting(order, budget, most)
    assert found[0] == order[0]
    assert sorted(set(found)) == sorted(found)
    assert len(found) == 1 or given.micro_batch_tokens(found) <= budget
    left = set(range(len(tokens))) - set(found)
    assert len(found) == most or all(given.micro_batch_tokens([*found, n]) > budget for n in left)


def test_costs_are_what_each_layout_computes():
    pairs = Dataset.from_list(
        [
            {"chosen_input_ids": [5, 6, 7, 8], "rejected_input_ids": [5, 6, 9]},
            {"chosen_input_ids": [5], "rejected_input_ids": [5, 6]},
            {"chosen_input_ids": [5, 6, 7], "rejected_input_ids": [5, 6, 7]},
        ]
    )
    assert item_costs(pairs, "prefix_shared").tokens.tolist() == [2 + 2 + 1, 3, 2 + 1 + 1]
    assert item_costs(pairs, "padding_free").tokens.tolist() == [7, 3, 6]
    padded = item_costs(pairs, "padded")
    assert padded.tokens.tolist() == [8, 4, 6]
    assert padded.micro_batch_tokens([0, 1]) == 4 * 4
    assert item_costs(pairs, "padded", 8).tokens.tolist() == [16, 16, 16]


def test_an_answer_of_several_pairs_costs_its_comparison_once():
    answers = {"A": [5, 6, 7, 8, 9], "B": [5, 6, 1], "C": [5, 6, 2]}
    pairs = [
        {"chosen_input_ids": answers[a], "rejected_input_ids": answers[b], "comparison": name}
        for a, b, name in [
            ("A", "B", "all"),
            ("B", "C", None),
            ("A", "C", "all"),
            ("B", "C", "all"),
        ]
    ]
    items = Comparisons(Dataset.from_list(pairs))
    assert item_costs(items, "prefix_shared").tokens.tolist() == [2 + 3 + 1 + 1, 2 + 1 + 1]
    assert item_costs(items, "padding_free").tokens.tolist() == [5 + 3 + 3, 3 + 3]
    assert item_costs(items, "padded").tokens.tolist() == [3 * 5, 2 * 3]


def batches(count=40, epoch=1, **fields):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(7)).tolist()
    lengths = costs(*np.random.default_rng(0).integers(5, 90, count).tolist())
    found = GlobalBatches(order, lengths, Dealing(**{"size": 8, "processes": 1, **fields}))
    found.set_epoch(epoch)
    return found, order


def test_every_process_has_as_many_micro_steps_and_together_they_have_the_plain_batches():
    found = [batches(43, processes=2, process=p, accumulation=2, budget=100) for p in (0, 1)]
    order = found[0][1]
    lists = [list(sampler) for sampler, _ in found]
    # of the 43 the last global batch has 3, and a plain loader one batch for them
    assert len(lists[0]) == len(lists[1]) == len(found[0][0]) == 2 * 5 + 1
    for step in range(6):
        parts = [[m for part in own[2 * step : 2 * step + 2] for m in part] for own in lists]
        assert len(parts[0]) == len(parts[1]) >= (2 if step < 5 else 1)
        rows = [row for own in parts for micro in own if not micro.filler for row in micro.items]
        assert sorted(rows) == sorted(order[8 * step : 8 * step + 8])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [*range(1, 26)])
def test_an_epoch_has_the_steps_and_batches_of_a_plain_loader(count, drop_last):
    """Of 2 processes with 2 pairs each and 3 accumulated, as of one with 4."""
    plain = len(DataLoader([*range(count)], batch_size=4, drop_last=drop_last))
    for process in (0, 1):
        fields = {"size": 12, "processes": 2, "process": process, "accumulation": 3}
        found, order = batches(count, drop_last=drop_last, **fields)
        assert len(found) == len([*found]) == plain
    both = [batches(count, drop_last=drop_last, **{**fields, "process": p})[0] for p in (0, 1)]
    micro = [m for own in both for item in own for m in item if not m.filler]
    kept = order[: count - count % 4] if drop_last else order
    assert sorted(row for m in micro for row in m.items) == sorted(kept)


def test_like_lengths_are_brought_together_by_seed_and_epoch():
    def grouped(**fields):
        found, _ = batches(395, process=0, by_length=True, **fields)
        return [[m.items for m in part] for part in found], found.costs.tokens

    one, tokens = grouped()
    assert one == grouped()[0]
    assert one != grouped(epoch=2)[0]
    assert one != grouped(seed=1)[0]
    assert sorted(row for [items] in one for row in items) == [*range(395)]
    assert [len(items) for [items] in one] == [*[8] * 49, 3]  # Trainer counts the steps so
    spread = np.mean([np.ptp(tokens[list(items)]) for [items] in one])
    plain, _ = batches(395, process=0)
    assert spread < 0.1 * np.mean([np.ptp(tokens[list(m.items)]) for [m] in plain])


def unique_tokens(row):
    chosen, rejected = (row[side] for side in SIDES)
    same = [a == b for a, b in zip(chosen, rejected, strict=False)]
    shared = next((n for n, equal in enumerate(same) if not equal), len(same))
    return len(chosen) + len(rejected) - min(shared, len(chosen) - 1, len(rejected) - 1)


def test_on_real_lengths_each_process_gets_nearly_equal_tokens(hh_rows):
    """Words stand for tokens; 16 pairs for 4 processes, in the order of the file."""
    seen: dict[str, int] = {}
    rows = [
        {
            f"{side}_input_ids": [seen.setdefault(w, len(seen)) for w in row[side].split()]
            for side in ("chosen", "rejected")
        }
        for row in hh_rows[:1600]
    ]
    given = item_costs(Dataset.from_list(rows), "prefix_shared")
    assert given.tokens.tolist() == [unique_tokens(row) for row in rows]
    before, after = [], []
    for start in range(0, 1600, 16):
        own = given.tokens[start : start + 16]
        plain = own.reshape(4, 4).sum(1)
        [step] = deal(given.of(range(start, start + 16)), 4)
        dealt = np.array([own[items].sum() for items in step])
        assert dealt.sum() == plain.sum()
        before.append(plain.max() / plain.mean())
        after.append(dealt.max() / dealt.mean())
    print(f"most over mean tokens of a process: {np.mean(before):.3f} -> {np.mean(after):.3f}")
    assert np.mean(before) > 1.25
    assert np.mean(after) < 1.06


class Seen(TrainerCallback):
    """Keeps what is computed: rows of every forward pass, by its plan or its rectangle."""

    def __init__(self, trainer):
        self.tokens = []
        inner = trainer.compute_loss

        def noting(model, inputs, *args, **kwargs):
            plan = inputs.get("plan")
            ids = inputs["input_ids"] if plan is None else plan.input_ids
            self.tokens.append((int(np.prod(ids.shape)), len(inputs["pair_id"])))
            return inner(model, inputs, *args, **kwargs)

        trainer.compute_loss = noting


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        ("prefix_shared", {"per_device_train_batch_size": 8, "max_tokens_per_micro_batch": 40}),
        pytest.param(
            "padded",
            {"per_device_train_batch_size": 8, "max_tokens_per_micro_batch": 60},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "padding_free",
            {"per_device_train_batch_size": 8, "max_tokens_per_micro_batch": 40},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "prefix_shared",
            {
                "per_device_train_batch_size": 4,
                "gradient_accumulation_steps": 2,
                "max_tokens_per_micro_batch": 30,
            },
            marks=pytest.mark.slow,
        ),
    ],
)
def test_fifty_steps_within_a_budget_are_those_of_padded_batches(base, tmp_path, layout, fields):
    rows = make_rows(60, margin=True)  # the last batch of an epoch is a half
    _, expected, wanted = run(base, tmp_path / "a", "padded", rows, per_device_train_batch_size=8)
    _, losses, evaluated = run(base, tmp_path / "b", layout, rows, **fields)
    assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for name in ("eval_loss", "eval_margin", "eval_mean_reward", "eval_accuracy"):
        assert evaluated[name] == pytest.approx(wanted[name], rel=1e-5, abs=1e-5)


def test_comparisons_stay_whole_within_a_budget(base, tmp_path):
    rows, fields = ranked(40), {"loss": {"type": "plackett_luce"}}
    fields["per_device_train_batch_size"] = 8
    _, expected, _ = run(base, tmp_path / "a", "padded", rows, **fields)
    fields["max_tokens_per_micro_batch"] = 60
    _, losses, _ = run(base, tmp_path / "b", "prefix_shared", rows, **fields)
    assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6)


def trained(base, directory, resume=None, **fields):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            learning_rate=1e-3,
            gradient_accumulation_steps=2,
            num_train_epochs=3,
            logging_steps=1,
            save_steps=6,
            **{"per_device_train_batch_size": 8, "max_tokens_per_micro_batch": 40, **fields},
        ),
        train_dataset=Dataset.from_list(make_rows(60)),
    )
    seen = Seen(trainer)
    trainer.train(resume_from_checkpoint=resume)
    return trainer, seen


@pytest.mark.parametrize("strategy", ["group_by_length", *at_length("random")])
def test_no_micro_batch_is_over_the_budget_and_a_resumed_run_is_the_same(base, tmp_path, strategy):
    fields = {"train_sampling_strategy": strategy}
    whole, seen = trained(base, tmp_path / "a", **fields)
    assert all(tokens <= 40 or pairs == 1 for tokens, pairs in seen.tokens)
    (rehearsed, items), *rest = seen.tokens
    told = whole.forecast
    assert rehearsed == told.longest_tokens > np.mean([tokens for tokens, _ in rest])
    longest = np.sort([max(len(row[side]) for side in SIDES) for row in make_rows(60)])
    micro_batches = told.steps * 2 * 8 / items  # as long as the rehearsed one
    share = longest.mean() / longest[-items:].mean()
    assert told.seconds == pytest.approx(told.longest_seconds * share * micro_batches)
    assert max(pairs for _, pairs in seen.tokens) > 2
    resumed, again = trained(
        base, tmp_path / "b", resume=str(tmp_path / "a/checkpoint-6"), **fields
    )
    assert len(again.tokens) < len(seen.tokens)
    assert again.tokens == seen.tokens[-len(again.tokens) :]
    assert resumed.state.log_history[:-1] == whole.state.log_history[:-1]
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("drop_last", [True, *at_length(False)])
def test_the_epoch_that_is_logged_is_that_of_plain_batches(base, tmp_path, drop_last):
    fields = {"dataloader_drop_last": drop_last, "per_device_train_batch_size": 7}
    fields["save_strategy"] = "no"
    dealt, _ = trained(base, tmp_path / "a", **fields)
    plain, _ = trained(base, tmp_path / "b", **fields, max_tokens_per_micro_batch=None)
    found, wanted = ([r["epoch"] for r in t.state.log_history] for t in (dealt, plain))
    assert found == wanted


def test_a_budget_without_lengths_is_refused(base, tmp_path):
    rows = Dataset.from_list(make_rows(8)).to_iterable_dataset()
    fields = {"use_cpu": True, "report_to": "none", "max_steps": 1, "disable_tqdm": True}
    fields["max_tokens_per_micro_batch"] = 40
    trainer = RewardTrainer(
        str(base), RewardConfig(output_dir=str(tmp_path), **fields), train_dataset=rows
    )
    with pytest.raises(ParamsError, match="need a Dataset, whose lengths are known"):
        trainer.train()
    with pytest.raises(ParamsError, match="max_tokens_per_micro_batch is 0"):
        RewardConfig(output_dir=str(tmp_path), max_tokens_per_micro_batch=0)
