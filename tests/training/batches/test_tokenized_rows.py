"""Rows with a script's own token ids: unsound ones are refused by row and field, before step 1."""

import logging

import numpy as np
import pyarrow as pa
import pytest
import torch
from datasets import Dataset

from tasks.errors import DataError
from tasks.evaluation.scoring.windows import read_windows, split_files
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.batches.origin import is_from_tokenization
from tasks.training.batches.pairs import SAMPLED_ROWS, data_digest, open_pairs, prepare_dataset
from tests.training.tiny import QUIET, VOCABULARY, make_rows, make_tokenizer, write_pairs

CHOSEN, REJECTED = "chosen_input_ids", "rejected_input_ids"
NAN, INFINITE = float("nan"), float("inf")


def make(base, directory, train=None, evaluation=None, **fields):
    usual = {"max_steps": 3, "learning_rate": 1e-3, "logging_steps": 1}
    usual |= {"per_device_train_batch_size": 4, "train_sampling_strategy": "sequential"}
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**QUIET, **usual, **fields}),
        train_dataset=train,
        eval_dataset=evaluation,
    )


def losses(trainer):
    trainer.train()
    return [r["loss"] for r in trainer.state.log_history if "loss" in r]


UNSOUND = [
    ("preference", 1.7, "preference is 1.7; expected a number from 0 to 1"),
    ("preference", -0.5, "preference is -0.5; expected a number from 0 to 1"),
    ("preference", NAN, "preference is nan; expected a number from 0 to 1"),
    ("weight", -1.0, "weight is -1.*expected a finite number above 0; leave out"),
    ("weight", 0.0, "weight is 0.*expected a finite number above 0; leave out"),
    ("weight", NAN, "weight is nan; expected a finite number"),
    ("weight", INFINITE, "weight is inf; expected a finite number"),
    ("margin", NAN, r"margin is nan; expected a finite number below 2\^63, or null"),
    ("margin", -INFINITE, "margin is -inf; expected a finite number"),
    ("margin", 1e39, r"margin is 1e\+39; expected a finite number"),
    (CHOSEN, [], r"chosen_input_ids is \[\]; expected at least one token id"),
    (REJECTED, None, "rejected_input_ids is None; expected at least one token id"),
    (REJECTED, [5, -100, 7], r"rejected_input_ids is \[5, -100, 7\]; expected .*0 or more"),
    (REJECTED, [-100, 7], r"rejected_input_ids is \[-100, 7\]; expected .*0 or more"),
    (CHOSEN, [5, None, 7], r"chosen_input_ids is \[5, None, 7\]; expected .*0 or more"),
]


def with_unsound(field, value):
    """Sound rows, and the same with an unsound row 7."""
    sound = [{"preference": 1.0, "margin": None, **row} for row in make_rows(12)]
    return sound, [{**row, field: value} if n == 7 else row for n, row in enumerate(sound)]


@pytest.mark.parametrize(("field", "value", "said"), UNSOUND)
def test_an_unsound_row_is_refused_by_its_number_and_field(base, tmp_path, field, value, said):
    _, rows = with_unsound(field, value)
    named = rf"the train dataset's row 7 \('pair0007'\): .*{said}"
    with pytest.raises(DataError, match=named):
        make(base, tmp_path, rows)


@pytest.mark.parametrize(("field", "value", "said"), [UNSOUND[0], UNSOUND[-2]])
def test_an_unsound_row_is_refused_wherever_it_comes_from(base, tmp_path, field, value, said):
    sound, rows = with_unsound(field, value)
    for row in rows:
        del row["pair_id"]
    shuffled = Dataset.from_list(rows).select([*range(8, 12), 7, *range(7)])
    with pytest.raises(DataError, match=f"the eval dataset's row 4: .*{said}"):
        make(base, tmp_path, sound, shuffled)
    with pytest.raises(DataError, match=f"the eval dataset's row 7: .*{said}"):
        make(base, tmp_path, sound).evaluate(rows)
    stream = make(base, tmp_path, Dataset.from_list(rows).to_iterable_dataset(), preflight=False)
    with pytest.raises(DataError, match=f"the train dataset's row 7: .*{said}"):
        stream.train()
    for row in rows:
        row["pair_id"] = None
    with pytest.raises(DataError, match=f"the train dataset's row 7: .*{said}"):
        make(base, tmp_path, rows)


def test_an_id_that_the_model_has_no_embedding_for_is_refused_by_its_row(base, tmp_path):
    rows = [{k: v for k, v in row.items() if k != "pair_id"} for row in make_rows(12)]
    rows[3][REJECTED] = rows[3][CHOSEN]  # is left out before
    rows[7][CHOSEN] = [5, VOCABULARY, VOCABULARY - 1]
    said = "'row 7': chosen_input_ids has the id 64; expected ids below 64, for which the model has"
    with pytest.raises(DataError, match=f"the train dataset's {said}"):
        make(base, tmp_path, rows)
    sound = make(base, tmp_path, make_rows(12))
    with pytest.raises(DataError, match=f"the eval dataset's {said}"):
        sound.evaluate(rows)
    with pytest.raises(DataError, match=f"the held dataset's {said}"):
        make(base, tmp_path, make_rows(12), {"held": rows})
    stream = make(base, tmp_path, Dataset.from_list(rows).to_iterable_dataset(), preflight=False)
    with pytest.raises(DataError, match=f"the train dataset's {said}"):
        stream.train()
    rows[7] |= {CHOSEN: [5, VOCABULARY - 1], "pair_id": "pair0007"}
    assert len(losses(make(base, tmp_path, rows))) == 3


def test_the_number_of_unsound_rows_is_told_and_columns_of_another_kind_are_refused(base, tmp_path):
    rows = [{**row, "weight": float(n % 3)} for n, row in enumerate(make_rows(12))]
    with pytest.raises(DataError, match=r"row 0 .*weight is 0.0; .*\(4 of 12 rows have another\)"):
        make(base, tmp_path, rows)
    rows = [{**row, "weight": "heavy"} for row in make_rows(4)]
    with pytest.raises(DataError, match="the train dataset: weight is string; expected numbers"):
        make(base, tmp_path, rows)
    rows = [{**row, "margin": "large"} for row in make_rows(4)]
    with pytest.raises(DataError, match="the train dataset: margin is string; expected numbers"):
        make(base, tmp_path, rows)
    stream = Dataset.from_list(rows).to_iterable_dataset()
    with pytest.raises(DataError, match="margin is 'large'; expected a finite number"):
        make(base, tmp_path, stream, preflight=False).train()
    rows = [{**row, CHOSEN: ["w5", "w6"]} for row in make_rows(4)]
    with pytest.raises(DataError, match=r"chosen_input_ids is list<.*; expected lists of token"):
        make(base, tmp_path, rows)
    for ids in ([5.0, 6.5], [5.0, NAN], [5.0, INFINITE]):
        rows = [{**row, CHOSEN: ids} for row in make_rows(4)]
        with pytest.raises(DataError, match=r"chosen_input_ids is (list<|\[5.0, ).*; expected "):
            make(base, tmp_path, rows)
        stream = Dataset.from_list(rows).to_iterable_dataset()
        with pytest.raises(DataError, match=r"chosen_input_ids is \[5.0, .*a whole number of 0 or"):
            make(base, tmp_path, stream, preflight=False).train()


def test_the_first_row_of_each_reason_that_a_stream_leaves_out_is_named(base, tmp_path, caplog):
    rows = make_rows(12)
    rows[3]["rejected_input_ids"] = rows[3]["chosen_input_ids"]
    for number in (5, 6):
        rows[number]["chosen_input_ids"] = [5] * 30
    rows[7]["chosen_input_ids"] = [5] * 29
    stream = make(base, tmp_path, Dataset.from_list(rows).to_iterable_dataset(), max_length=29)
    assert len(list(stream.train_dataset)) == 9
    told = [r.getMessage() for r in caplog.records if "not used" in r.getMessage()]
    assert len(told) == 2
    assert "pair0003: identical_tokens: found the same token ids" in told[0]
    assert "pair0005: too_long: found 30 and " in told[1]
    assert "tokens, expected 29 at most; raise max_length" in told[1]


@pytest.mark.parametrize("streams", [False, True])
def test_a_preference_below_a_half_is_the_pair_the_other_way_round(base, tmp_path, streams):
    upright = [
        {**row, "preference": (1.0, 0.75, 0.5)[n % 4 % 3], "margin": 0.5 * (n % 3)}
        for n, row in enumerate(make_rows(12))
    ]
    turned = [
        {**row, CHOSEN: row[REJECTED], REJECTED: row[CHOSEN], "preference": 1 - row["preference"]}
        if n % 3 and row["preference"] > 0.5  # a tie stays as it is
        else row
        for n, row in enumerate(upright)
    ]
    found = []
    for rows in (upright, turned):
        data = Dataset.from_list(rows)
        data = data.to_iterable_dataset() if streams else data
        trainer = make(base, tmp_path, data, data)
        found.append((losses(trainer), trainer.evaluate(), trainer.predict(data).predictions))
    assert found[0][0] == found[1][0]
    for name in ("eval_loss", "eval_accuracy", "eval_margin"):
        assert found[0][1][name] == found[1][1][name]
    assert np.array_equal(found[0][2], found[1][2])
    names = ["pair_id", CHOSEN, REJECTED, "margin", "preference"]
    assert [[row[name] for name in names] for row in trainer.train_dataset] == [
        [row[name] for name in names] for row in upright
    ]


def test_pairs_of_a_sure_second_answer_are_learned_and_counted_right(base, tmp_path):
    rows = [
        {**row, CHOSEN: row[REJECTED], REJECTED: row[CHOSEN], "preference": 0.0}
        for row in make_rows(24)
    ]
    trainer = make(base, tmp_path, rows, rows, max_steps=30, learning_rate=1e-2)
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] == 1.0
    focal = make(base, tmp_path, rows, loss="focal")  # is not defined for a preference below 1
    assert set(focal.train_dataset["preference"]) == {1.0}


def test_rows_with_equal_sides_are_left_out_and_counted_as_raw_rows_are(base, tmp_path, caplog):
    rows = make_rows(12)
    same = [{**row, REJECTED: row[CHOSEN]} if n in (3, 7) else row for n, row in enumerate(rows)]
    caplog.set_level(logging.WARNING, "tasks")
    trainer = make(base, tmp_path, same)
    assert "train: 2 of 12 rows are not used: identical_tokens 2 (row 3 has" in caplog.text
    kept = [row["pair_id"] for n, row in enumerate(rows) if n not in (3, 7)]
    assert trainer.train_dataset["pair_id"][:] == kept
    stream = make(base, tmp_path, Dataset.from_list(same).to_iterable_dataset())
    assert [row["pair_id"] for row in stream.train_dataset] == kept
    with pytest.raises(DataError, match=r"2 of 2 rows are not used: .* No row is left"):
        make(base, tmp_path, [same[3], same[7]])


def test_an_evaluation_keeps_rows_with_equal_sides_and_says_so(base, tmp_path, caplog):
    rows = make_rows(6)
    same = [*rows, {**rows[0], REJECTED: rows[0][CHOSEN]}]
    caplog.set_level(logging.WARNING, "tasks")
    trainer = make(base, tmp_path, rows, same)
    assert "eval: 1 of 7 pairs are no pairs: row 6 has the same token ids" in caplog.text
    found = trainer.evaluate()
    assert found["eval_equal_rewards"] == 1
    stream = trainer.evaluate(Dataset.from_list(same).to_iterable_dataset())
    assert stream["eval_loss"] == pytest.approx(found["eval_loss"], abs=1e-6)
    listed = [{**row, "comparison": str(n)} for n, row in enumerate(same)]
    listwise = make(base, tmp_path, listed[:-1], listed, loss="plackett_luce").evaluate()
    assert listwise["eval_equal_rewards"] == 1
    assert listwise["eval_loss"] == pytest.approx(found["eval_loss"], abs=1e-6)


def test_sequences_are_told_apart_across_batches_of_rows_and_types(tmp_path):
    count = 9000
    ids = [[5, 6 + n % 7, 9, 1] for n in range(count)]
    other = [[*row] for row in ids]
    for n in {*range(count)} - {0, 4096, 8999}:
        other[n][n % 4] += 1
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True)
    for kind in (pa.int16(), pa.uint32(), pa.int64(), pa.float32()):
        columns = {CHOSEN: pa.array(ids, pa.list_(kind)), REJECTED: pa.array(other, pa.list_(kind))}
        given = Dataset(pa.table(columns))
        found = prepare_dataset(given, args, make_tokenizer(), "train")
        absent = set(range(count)).difference(int(name[4:]) for name in found["pair_id"])
        assert absent == {0, 4096, 8999}


def test_what_the_tokenization_stage_left_is_not_looked_through_again(base, tmp_path):
    write_pairs(tmp_path, make_rows(12), "train")
    opened = open_pairs(tmp_path / "train")
    assert is_from_tokenization(opened)
    assert make(base, tmp_path, opened).train_dataset is opened
    assert not is_from_tokenization(opened.select(range(5)))
    assert not is_from_tokenization(Dataset.from_list(make_rows(2)))
    light = opened.map(lambda row: {**row, "weight": 0.0})
    with pytest.raises(DataError, match=r"row 0 \('pair0000'\): weight is 0.0; expected a finite"):
        make(base, tmp_path, light)


def test_what_datasets_caches_beside_the_shards_is_none_of_them(tmp_path):
    write_pairs(tmp_path, make_rows(12), "train")
    opened = open_pairs(tmp_path / "train")
    opened.map(lambda row: {**row, "weight": 0.5})
    opened.filter(lambda _: False)
    assert [*(tmp_path / "train").glob("cache-*.arrow")]
    again = open_pairs(tmp_path / "train")
    assert again.to_list() == opened.to_list()
    files = split_files(tmp_path, "train")
    assert sum(map(len, read_windows(files))) == 12
    assert [file.name for file in files] == ["00000.arrow", "00001.arrow"]


def test_sound_rows_are_trained_on_as_before(base, tmp_path):
    plain = make_rows(12)
    told = [{**row, "weight": 1.0, "preference": 1.0, "margin": None} for row in plain]
    first, second = make(base, tmp_path, plain), make(base, tmp_path, told)
    assert losses(first) == losses(second)
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("raw", [False, True])
def test_a_row_whose_id_is_null_or_absent_is_called_by_its_number(base, tmp_path, raw, streams):
    rows = make_rows(4)
    if raw:
        sides = {"chosen": "w5 w6", "rejected": "w7"}
        rows = [{"pair_id": row["pair_id"], **sides} for row in rows]
    rows[1] |= {"pair_id": None}
    rows[3] |= {"pair_id": None}

    def ids(listed):
        data = Dataset.from_list(listed)
        trainer = make(base, tmp_path, data.to_iterable_dataset() if streams else data)
        batch = trainer.data_collator(list(trainer.train_dataset))
        assert batch["pair_id"] == [str(row["pair_id"]) for row in trainer.train_dataset]
        return batch["pair_id"]

    assert ids(rows) == ["pair0000", "row 1", "pair0002", "row 3"]
    for row in rows:
        row["pair_id"] = None
    assert ids(rows) == ["row 0", "row 1", "row 2", "row 3"]
    for number, row in enumerate(rows):
        row["pair_id"] = None if number == 2 else number
    assert ids(rows) == ["0", "1", "row 2", "3"]
    for row in rows:
        del row["pair_id"]
    assert ids(rows) == ["row 0", "row 1", "row 2", "row 3"]


def test_data_are_told_apart_by_the_length_of_any_row():
    rows = make_rows(SAMPLED_ROWS + 88)
    places = np.linspace(0, len(rows) - 1, SAMPLED_ROWS).astype(int)
    between = next(row for number, row in enumerate(rows) if number not in places)
    before = data_digest(Dataset.from_list(rows))
    between[CHOSEN] = [*between[CHOSEN], *[5] * 20]
    assert data_digest(Dataset.from_list(rows)) != before
