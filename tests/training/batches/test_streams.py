"""A stream is trained on as the rows that it is made of, and a run over it goes on where it was."""

import pytest
from datasets import Dataset

from tasks.errors import DataError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.layout.stream import StreamShare
from tests.at_length import at_length
from tests.training.checkpoints.test_checkpoint import FIELDS, result
from tests.training.checkpoints.test_checkpoint_rotation import goes_on
from tests.training.tiny import make_rows

PASSES = {"max_steps": 16, "save_steps": 1, "logging_steps": 3}
"""Over 26 pairs in batches of 4: two passes of 7 steps, and a part of a third."""


def make(base, directory, streams=True, shuffled=False, **fields):
    rows = Dataset.from_list(make_rows(26, margin=True))
    stream = rows.to_iterable_dataset()
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**FIELDS, **PASSES, **fields}),
        train_dataset=(stream.shuffle(seed=5, buffer_size=9) if shuffled else stream)
        if streams
        else rows,
        eval_dataset=Dataset.from_list(make_rows(9, seed=1)),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"gradient_accumulation_steps": 2},  # the last step of a pass has one batch, not two
        *at_length({}, {"gradient_accumulation_steps": 3}, {"dataloader_drop_last": True}),
    ],
    ids=str,
)
def test_a_stream_is_trained_on_as_the_same_rows_in_their_order(base, tmp_path, fields):
    stream = make(base, tmp_path / "a", **fields)
    stream.train()
    rows = make(base, tmp_path / "b", False, train_sampling_strategy="sequential", **fields)
    rows.train()
    histories = [
        [{k: v for k, v in r.items() if k != "epoch"} for r in t.state.log_history[:-1]]
        for t in (stream, rows)
    ]
    assert histories[0] == histories[1]
    assert result(stream, tmp_path / "c")[0] == result(rows, tmp_path / "d")[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"shuffled": True, "disable_dropout": False},
        *at_length(
            {},
            {"dataloader_num_workers": 1},
            {"gradient_accumulation_steps": 2},
            {"save_strategy": "epoch", "eval_strategy": "epoch", "logging_strategy": "epoch"},
        ),
    ],
    ids=str,
)
def test_a_run_over_several_passes_of_a_stream_goes_on_where_it_was(base, tmp_path, fields):
    whole = make(base, tmp_path / "whole", **fields)
    whole.train()
    kills = [7, 14] if "save_strategy" in fields else [3, 7, 9, 14, 15]
    resumed = goes_on(lambda: make(base, tmp_path / "run", **fields), kills)
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


@pytest.mark.parametrize("fields", [{"max_length": 1}, {"dataloader_drop_last": True}], ids=str)
def test_a_stream_without_a_batch_is_no_training(base, tmp_path, fields):
    rows = Dataset.from_list(make_rows(3)).to_iterable_dataset()
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(tmp_path), **{**FIELDS, **PASSES, **fields}),
        train_dataset=rows,
    )
    with pytest.raises(DataError, match=r"gave no batch to train on: .* none that can be used"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))


def test_a_stream_without_a_pair_is_no_evaluation(base, tmp_path):
    trainer = make(base, tmp_path)
    unusable = [{"prompt": "Blue?", "chosen": "Yes.", "rejected": "Yes."}]
    with pytest.raises(DataError, match=r"to be evaluated gave no pair: .* none that can be used"):
        trainer.evaluate(Dataset.from_list(unusable).to_iterable_dataset())


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("count", [*range(1, 9)])
def test_every_row_of_a_stream_is_computed_once_in_as_many_batches_of_each_process(
    processes, count, drop_last
):
    rows = Dataset.from_dict({"row": [*range(count)]}).to_iterable_dataset()
    of_all = [
        [item for [item] in StreamShare(rows, 2, processes, process, drop_last=drop_last)]
        for process in range(processes)
    ]
    assert len({len(items) for items in of_all}) == 1
    computed = [
        row["row"]
        for step in zip(*of_all, strict=True)
        for mine, filler in step
        if not filler
        for row in mine
    ]
    batches = count // (2 * processes)
    assert computed == [*range(2 * processes * batches if drop_last else count)]
    assert all(mine for items in of_all for mine, _ in items)
