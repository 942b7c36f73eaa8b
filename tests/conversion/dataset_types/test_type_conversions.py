"""The nineteen conversions between dataset types: the guide's own examples, row and data set."""

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tasks.conversion as conversion
from tasks.conversion import (
    CONVERSIONS,
    convert_type,
    extract_prompt,
    maybe_unpair_preference_dataset,
    preference_to_implicit_preference,
    unpair_preference_dataset,
)
from tasks.errors import DataError, ParamsError
from tests.conversion.messages import assistant, user

SKY, SUN = [user("What color is the sky?")], [user("Where is the sun?")]
BLUE, GREEN = [assistant("It is blue.")], [assistant("It is green.")]
ABOVE, BELOW = [assistant("In the sky.")], [assistant("In the sea.")]

PROMPT_COMPLETION = [
    {"prompt": "The sky is", "completion": " blue."},
    {"prompt": "The sun is", "completion": " in the sky."},
]
PREFERENCE = [
    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
    {"prompt": "The sun is", "chosen": " in the sky.", "rejected": " in the sea."},
]
IMPLICIT = [
    {"chosen": "The sky is blue.", "rejected": "The sky is green."},
    {"chosen": "The sun is in the sky.", "rejected": "The sun is in the sea."},
]
TALKS = [
    {"prompt": SKY, "chosen": BLUE, "rejected": GREEN},
    {"prompt": SUN, "chosen": ABOVE, "rejected": BELOW},
]
IMPLICIT_TALKS = [
    {"chosen": SKY + BLUE, "rejected": SKY + GREEN},
    {"chosen": SUN + ABOVE, "rejected": SUN + BELOW},
]
UNPAIRED = [
    {"prompt": "The sky is", "completion": " blue.", "label": True},
    {"prompt": "The sun is", "completion": " in the sky.", "label": True},
    {"prompt": "The sky is", "completion": " green.", "label": False},
    {"prompt": "The sun is", "completion": " in the sea.", "label": False},
]
UNPAIRED_TALKS = [
    {"prompt": SKY, "completion": BLUE, "label": True},
    {"prompt": SUN, "completion": ABOVE, "label": True},
    {"prompt": SKY, "completion": GREEN, "label": False},
    {"prompt": SUN, "completion": BELOW, "label": False},
]
LIGHT = [" scatters more in the atmosphere,", " so the sky is green."]
ICE = [" forms a less dense structure in ice,", " which causes it to expand when it freezes."]
STEPWISE = [
    {"prompt": "Blue light", "completions": LIGHT, "labels": [True, False]},
    {"prompt": "Water", "completions": ICE, "labels": [True, True]},
]
TEXTS = [{"text": "The sky is blue."}, {"text": "The sun is in the sky."}]
WHOLE_TALKS = [{"messages": SKY + BLUE}, {"messages": SUN + ABOVE}]
PROMPTS = [{"prompt": "The sky is"}, {"prompt": "The sun is"}]
TALK_PROMPTS = [{"prompt": SKY}, {"prompt": SUN}]
ANSWERED_TALKS = [{"prompt": SKY, "completion": BLUE}, {"prompt": SUN, "completion": ABOVE}]

TABLE = [
    ("prompt_completion", "language_modeling", PROMPT_COMPLETION, TEXTS),
    ("prompt_completion", "language_modeling", ANSWERED_TALKS, WHOLE_TALKS),
    ("prompt_completion", "prompt_only", PROMPT_COMPLETION, PROMPTS),
    ("prompt_completion", "prompt_only", ANSWERED_TALKS, TALK_PROMPTS),
    ("implicit_preference", "language_modeling", IMPLICIT, TEXTS),
    ("implicit_preference", "language_modeling", IMPLICIT_TALKS, WHOLE_TALKS),
    ("implicit_preference", "prompt_completion", IMPLICIT_TALKS, ANSWERED_TALKS),
    ("implicit_preference", "prompt_completion", IMPLICIT[:1], PROMPT_COMPLETION[:1]),
    ("implicit_preference", "prompt_only", IMPLICIT_TALKS, TALK_PROMPTS),
    ("implicit_preference", "prompt_only", IMPLICIT[:1], PROMPTS[:1]),
    ("implicit_preference", "preference", IMPLICIT_TALKS, TALKS),
    ("implicit_preference", "preference", IMPLICIT[:1], PREFERENCE[:1]),
    ("implicit_preference", "unpaired_preference", IMPLICIT_TALKS, UNPAIRED_TALKS),
    ("implicit_preference", "unpaired_preference", IMPLICIT[:1], UNPAIRED[::2]),
    ("preference", "language_modeling", PREFERENCE, TEXTS),
    ("preference", "language_modeling", TALKS, WHOLE_TALKS),
    ("preference", "prompt_completion", PREFERENCE, PROMPT_COMPLETION),
    ("preference", "prompt_completion", TALKS, ANSWERED_TALKS),
    ("preference", "prompt_only", PREFERENCE, PROMPTS),
    ("preference", "prompt_only", TALKS, TALK_PROMPTS),
    ("preference", "implicit_preference", TALKS, IMPLICIT_TALKS),
    ("preference", "implicit_preference", PREFERENCE, IMPLICIT),
    ("preference", "unpaired_preference", TALKS, UNPAIRED_TALKS),
    ("preference", "unpaired_preference", PREFERENCE, UNPAIRED),
    ("unpaired_preference", "language_modeling", UNPAIRED, TEXTS),
    ("unpaired_preference", "language_modeling", UNPAIRED_TALKS, WHOLE_TALKS),
    ("unpaired_preference", "prompt_completion", UNPAIRED, PROMPT_COMPLETION),
    ("unpaired_preference", "prompt_completion", UNPAIRED_TALKS, ANSWERED_TALKS),
    ("unpaired_preference", "prompt_only", UNPAIRED, PROMPTS * 2),
    ("unpaired_preference", "prompt_only", UNPAIRED_TALKS, TALK_PROMPTS * 2),
    ("stepwise_supervision", "language_modeling", STEPWISE, [{"text": "Water" + "".join(ICE)}]),
    ("stepwise_supervision", "prompt_completion", STEPWISE,
     [{"prompt": "Water", "completion": "".join(ICE)}]),
    ("stepwise_supervision", "prompt_only", STEPWISE, [{"prompt": "Blue light"},
                                                       {"prompt": "Water"}]),
    ("stepwise_supervision", "unpaired_preference", STEPWISE, [
        {"prompt": "Blue light", "completion": "".join(LIGHT), "label": False},
        {"prompt": "Water", "completion": "".join(ICE), "label": True}]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "rows", "expected"), TABLE)
def test_every_conversion_of_the_guide_on_its_own_examples(source, target, rows, expected):
    assert convert_type(rows, source, target) == expected
    dataset = convert_type(datasets.Dataset.from_list(rows), source, target)
    assert set(dataset.column_names) == set(expected[0])
    assert dataset.to_list() == expected


def test_all_nineteen_cells_are_tested_and_public():
    assert {(source, target) for source, target, *_ in TABLE} == set(CONVERSIONS)
    assert len(CONVERSIONS) == 19
    for source, target in CONVERSIONS:
        function = getattr(conversion, f"{source}_to_{target}")
        assert function is CONVERSIONS[source, target].row


@pytest.mark.parametrize(("source", "target", "rows", "expected"), TABLE)
def test_row_functions_serve_alone_and_keep_other_columns(source, target, rows, expected):
    row = getattr(conversion, f"{source}_to_{target}")
    example = rows[-1] | {"id": 7, "tools": []}
    before = dict(example)
    results = row(example)
    for result in results if isinstance(results, list) else [results]:
        assert (result.pop("id"), result.pop("tools")) == (7, [])
        assert set(result) == set(expected[0])
    assert example == before


def test_rows_that_the_guide_prints_although_its_filter_leaves_them_out():
    """The guide shows these two for the first row, whose last step is wrong."""
    row = STEPWISE[0]
    assert conversion.stepwise_supervision_to_language_modeling(row) == {
        "text": "Blue light scatters more in the atmosphere, so the sky is green."
    }
    assert conversion.stepwise_supervision_to_prompt_completion(row) == {
        "prompt": "Blue light",
        "completion": " scatters more in the atmosphere, so the sky is green.",
    }


def test_steps_are_joined_by_the_separator_that_is_given():
    dataset = datasets.Dataset.from_list(STEPWISE)
    made = convert_type(dataset, "stepwise_supervision", "unpaired_preference", step_separator="\n")
    assert made[1]["completion"] == "\n".join(ICE)
    with pytest.raises(DataError, match="found 1 for 2 completions"):
        conversion.stepwise_supervision_to_unpaired_preference(STEPWISE[0] | {"labels": [True]})


def test_unpairing_keeps_columns_and_serves_every_kind_of_data_set():
    rows = [row | {"id": i, "margin": 1.0} for i, row in enumerate(PREFERENCE)]
    expected = [row | {"id": i % 2} for i, row in enumerate(UNPAIRED)]
    assert unpair_preference_dataset(rows) == expected
    dataset = datasets.Dataset.from_list(rows)
    assert unpair_preference_dataset(dataset).to_list() == expected
    splits = unpair_preference_dataset(datasets.DatasetDict(train=dataset, test=dataset))
    assert {name: split.to_list() for name, split in splits.items()} == {
        "train": expected,
        "test": expected,
    }
    assert list(unpair_preference_dataset(dataset.to_iterable_dataset())) == expected
    implicit = datasets.Dataset.from_list(IMPLICIT[:1])
    assert unpair_preference_dataset(implicit).to_list() == [
        {"completion": "The sky is blue.", "label": True},
        {"completion": "The sky is green.", "label": False},
    ]


def test_only_preferences_are_unpaired_where_one_may_or_may_not():
    for rows in (UNPAIRED, PROMPT_COMPLETION):
        assert maybe_unpair_preference_dataset(rows) is rows
        dataset = datasets.Dataset.from_list(rows)
        assert maybe_unpair_preference_dataset(dataset) is dataset
    made = maybe_unpair_preference_dataset(datasets.Dataset.from_list(PREFERENCE))
    assert made.to_list() == UNPAIRED


def test_what_cannot_be_converted_is_answered_with_what_can():
    with pytest.raises(ParamsError, match=r"prompt_only.*'preference'; known: prompt_completion"):
        convert_type(PREFERENCE, "prompt_only", "preference")
    with pytest.raises(DataError, match="both must share one format"):
        conversion.preference_to_language_modeling(PREFERENCE[0] | {"prompt": SKY})


TEXT = st.text(alphabet="ab .", max_size=8)
TURNS = st.lists(st.sampled_from([SKY[0], BLUE[0], GREEN[0]]), min_size=1, max_size=3)


@given(st.tuples(TEXT, TEXT, TEXT) | st.tuples(TURNS, TURNS, TURNS))
def test_implicit_prompt_and_back_is_the_same_row(sides):
    prompt, chosen, rejected = sides
    implicit = preference_to_implicit_preference(
        {"prompt": prompt, "chosen": chosen, "rejected": rejected}
    )
    assert preference_to_implicit_preference(extract_prompt(implicit)) == implicit
