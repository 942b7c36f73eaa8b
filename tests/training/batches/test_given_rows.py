"""Whatever a script brings its rows in: lists, streams, dicts of evaluations, or a clear no."""

import pytest
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

from tasks.errors import DataError, ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.metrics.held_out import check_no_stream
from tests.at_length import at_length
from tests.training.tiny import QUIET, make_rows

TEXT = [
    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
    {"prompt": "It is", "chosen": " so.", "rejected": " they say.", "margin": 0.5},
] * 2
FILLED = [{"margin": None, **row} for row in TEXT]
"""As a data set needs them: `Dataset.from_list` forgets a column that its first row has not."""
USER = {"role": "user", "content": "What color is the sky?"}
TALK = [
    {
        "chosen": [USER, {"role": "assistant", "content": "It is blue."}],
        "rejected": [USER, {"role": "assistant", "content": "It is green."}],
    }
] * 3
TOOL = {"function": {"name": "f", "parameters": {"properties": {"n": {"default": 1}}}}}
OTHER = {"function": {"name": "f", "parameters": {"properties": {"n": {"default": "one"}}}}}
COLUMNS = ["chosen_input_ids", "rejected_input_ids", "margin", "pair_id"]


def make(model, directory, train=None, evaluation=None, **fields):
    usual = {"max_steps": 2, "logging_steps": 1}
    return RewardTrainer(
        str(model),
        RewardConfig(output_dir=str(directory), **{**QUIET, **usual, **fields}),
        train_dataset=train,
        eval_dataset=evaluation,
    )


def test_a_list_of_rows_is_the_data_set_of_them(tiny_model_directory, tmp_path):
    listed = make(tiny_model_directory, tmp_path, TEXT).train_dataset
    whole = make(tiny_model_directory, tmp_path, Dataset.from_list(FILLED)).train_dataset
    assert [dict(row) for row in listed.select_columns(COLUMNS)] == [
        dict(row) for row in whole.select_columns(COLUMNS)
    ]
    assert listed["margin"][:] == [None, 0.5] * 2
    tokenized = make_rows(6)
    named = make(tiny_model_directory, tmp_path, tuple(tokenized)).train_dataset
    assert named["pair_id"][:] == [row["pair_id"] for row in tokenized]


@pytest.mark.parametrize("raw", [True, False])
def test_a_stream_says_nothing_of_columns_that_begin_in_a_later_row(
    tiny_model_directory, tmp_path, raw
):
    later = {"margin": 5.0, "preference": 0.9, "weight": 2.0, "tools": None, "n": {"a": 1}}
    rows = TEXT[::2] * 3 if raw else [{s: r[s] for s in COLUMNS[:2]} for r in make_rows(6)]
    rows = [row | (later if place else {}) for place, row in enumerate(rows)]
    filled = [dict.fromkeys(later) | row for row in rows]
    histories = []
    for given in (IterableDataset.from_generator(rows.__iter__), Dataset.from_list(filled)):
        trainer = make(
            *(tiny_model_directory, tmp_path / "o", given),
            train_sampling_strategy="sequential",
            per_device_train_batch_size=2,
            max_steps=3,
        )
        trainer.train()
        steps = trainer.state.log_history[:-1]
        histories.append([step[name] for name in ("loss", "grad_norm") for step in steps])
    assert histories[0] == pytest.approx(histories[1], rel=1e-5)
    assert len(histories[0]) == 6


def test_evaluations_are_given_as_lists_streams_and_dicts(tiny_model_directory, tmp_path):
    text = Dataset.from_list(FILLED)
    trainer = make(tiny_model_directory, tmp_path, TALK, {"talk": TALK, "text": text})
    trainer.train()
    named = trainer.evaluate()
    assert {"eval_talk_accuracy", "eval_text_margin"} <= set(named)
    once = trainer.evaluate(TEXT)
    assert once["eval_loss"] == pytest.approx(named["eval_text_loss"], abs=1e-6)
    stream = trainer.evaluate(text.to_iterable_dataset())
    assert stream["eval_loss"] == pytest.approx(once["eval_loss"], abs=1e-6)
    both = trainer.evaluate(DatasetDict({"a": text, "b": Dataset.from_list(TALK)}))
    assert both["eval_a_loss"] == pytest.approx(once["eval_loss"], abs=1e-6)
    streams = IterableDatasetDict({"a": text.to_iterable_dataset()})
    assert trainer.evaluate(streams)["eval_a_accuracy"] == once["eval_accuracy"]
    assert trainer.predict(TALK).predictions.shape == (3, 2)


@pytest.mark.parametrize("form", ["numpy", "arrow", *at_length("torch", "pandas")])
@pytest.mark.parametrize("rows", [TALK, FILLED, make_rows(4, margin=True)])
def test_rows_in_a_format_of_tensors_are_the_rows(tiny_model_directory, tmp_path, rows, form):
    plain = Dataset.from_list(rows)
    shown = plain.with_format(form)
    expected = list(make(tiny_model_directory, tmp_path, plain).train_dataset)
    trainer = make(tiny_model_directory, tmp_path, shown, shown)
    assert list(trainer.train_dataset) == list(trainer.eval_dataset) == expected
    stream = plain.to_iterable_dataset().with_format(form)
    of_it = make(tiny_model_directory, tmp_path, stream).train_dataset
    assert [row["chosen_input_ids"] for row in of_it] == [r["chosen_input_ids"] for r in expected]
    trainer.train()


def test_columns_that_a_format_leaves_out_are_not_read(tiny_model_directory, tmp_path):
    given = Dataset.from_list(make_rows(4, margin=True))
    given.set_format("torch", columns=["chosen_input_ids", "rejected_input_ids"])
    assert "margin" not in make(tiny_model_directory, tmp_path, given).train_dataset.column_names


def test_a_stream_may_hold_tensors(tiny_model_directory, tmp_path):
    rows = Dataset.from_list(make_rows(4)).to_iterable_dataset().with_format("torch")
    trainer = make(tiny_model_directory, tmp_path, rows.map(lambda row: row))
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "the train dataset is empty"),
        (Dataset.from_list([]), "the train dataset is empty"),
        ("rows.jsonl", r"is 'str'; expected a Dataset or IterableDataset.*load_dataset"),
        (iter(TEXT), r"the train dataset is '.*iterator'; expected a Dataset"),
        ([TEXT[0], "a line"], "the train dataset's row 1 is 'a line'; expected a mapping"),
        ({"train": TEXT}, r"a dict of the data sets \['train'\]; training takes one"),
        ([TEXT[0], *TALK], "row 1: chosen is list, but str in the rows before it"),
        (
            [
                {"margin": (1, 0.5, 1)[n], **TALK[n], "tools": [(TOOL, TOOL, OTHER)[n]]}
                for n in range(3)
            ],
            "row 2: tools holds values of several kinds in one place.*as JSON text",
        ),
        ([TALK[0] | {"tools": [TOOL, OTHER]}], "row 0: tools holds values of several kinds"),
    ],
)
def test_what_holds_no_rows_is_refused_by_its_kind(tiny_model_directory, tmp_path, rows, said):
    with pytest.raises(DataError, match=said):
        make(tiny_model_directory, tmp_path, rows)


def test_a_stream_is_evaluated_by_one_process_alone():
    stream = Dataset.from_list(TEXT).to_iterable_dataset()
    check_no_stream({"a": stream}, 1, "eval")
    check_no_stream({"a": TEXT, "b": None}, 2, "eval")
    for rows in (stream, {"eval": stream}):
        with pytest.raises(ParamsError, match="the eval dataset is a stream, and the 2 processes"):
            check_no_stream(rows, 2, "eval")


def test_a_stream_without_a_number_of_steps_is_refused(tiny_model_directory, tmp_path):
    stream = Dataset.from_list(TEXT).to_iterable_dataset()
    with pytest.raises(ValueError, match="max_steps"):
        make(tiny_model_directory, tmp_path, stream, max_steps=-1)
