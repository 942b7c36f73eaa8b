"""Slices begin at their edges, and numbers give way to fifths only where most hardly repeat."""

import numpy as np

from tasks.evaluation.measures.slices import Slices, slices_of, slices_of_labels
from tasks.evaluation.tables.scores import Scores
from tasks.evaluation.tables.surface import FEATURES
from tasks.evaluation.tables.texts import Texts
from tests.evaluation.pieces import made_scores


def with_texts(turns: list[int], languages: list[str], formats: list[str]) -> Texts:
    n = len(turns)
    nothing = np.zeros((n, len(FEATURES)))
    none = np.asarray(["none"] * n)
    return Texts(
        group=np.arange(n),
        format=np.asarray(formats),
        language=np.asarray(languages),
        turns=np.asarray(turns),
        chosen=nothing,
        rejected=nothing,
        chosen_opening=none,
        rejected_opening=none,
        first=np.zeros(n),
    )


def members(slices: Slices) -> dict[str, list[int]]:
    found = {label: np.flatnonzero(rows).tolist() for label, rows in slices}
    assert len(found) == len(slices)  # each label once
    return found


def long(prompts: list[int], answers: list[tuple[int, int]]) -> Scores:
    """Pairs of so many prompt tokens, whose answers have so many tokens beside them."""
    made = made_scores([1.0] * len(prompts))
    shared = np.asarray(prompts)
    chosen, rejected = np.asarray(answers).T
    tokens = {"chosen_tokens": shared + chosen, "rejected_tokens": shared + rejected}
    return Scores(**{**vars(made), "shared_tokens": shared, **tokens})


def test_an_edge_belongs_to_the_slice_above_it():
    prompts = [31, 32, 127, 128, 511, 512, 2047, 2048]
    answers = [(49, 100), (1, 2), (79, 100), (4, 5), (124, 100), (5, 4), (199, 100), (2, 1)]
    found = slices_of(long(prompts, answers), None)
    assert list(found) == ["length_ratio", "prompt_tokens"]
    assert members(found["prompt_tokens"]) == {
        "<32": [0],
        "32 to <128": [1, 2],
        "128 to <512": [3, 4],
        "512 to <2048": [5, 6],
        ">=2048": [7],
    }
    assert members(found["length_ratio"]) == {
        "<0.5": [0],
        "0.5 to <0.8": [1, 2],
        "0.8 to <1.25": [3, 4],
        "1.25 to <2": [5, 6],
        ">=2": [7],
    }


def test_texts_add_turns_languages_and_formats_in_their_order():
    turns, formats = [5, 1, 2, 3, 4], ["standard", *["conversational"] * 4]
    seen = with_texts(turns, ["en", "de", "latin", "en", "de"], formats)
    found = slices_of(made_scores([1.0] * 5), seen)
    assert list(found)[2:] == ["turns", "language", "format"]
    assert members(found["turns"]) == {"<2": [1], "2 to <3": [2], "3 to <5": [3, 4], ">=5": [0]}
    assert members(found["language"]) == {"de": [1, 4], "en": [0, 3], "latin": [2]}
    assert members(found["format"]) == {"conversational": [1, 2, 3, 4], "standard": [0]}


def test_numbers_half_of_whose_pairs_repeat_keep_their_own_slices():
    often, once = [f"{n}" for n in range(29)] * 2, [f"{n}" for n in range(100, 158)]
    found = members(slices_of_labels(np.asarray([*often, *once])))
    assert list(found)[:-1] == [f"{n}" for n in range(29)]
    assert found["(58 other values)"] == list(range(58, 116))
    more = members(slices_of_labels(np.asarray([*often, *once, "158"])))
    # of 0 0 1 1 .. 28 28 100 .. 158, those at places 23, 46, 70 and 93 of 0 to 116
    assert list(more) == ["<11", "11 to <23", "23 to <112", "112 to <135", ">=135"]


def test_of_many_words_the_commonest_have_slices_and_of_equally_common_ones_the_first():
    words = [f"w{n:02}" for n in range(40)]
    found = members(slices_of_labels(np.asarray([*reversed(words), *words])))
    assert list(found) == [*words[:29], "(11 other values)"]
    assert found["w00"] == [39, 40]
    assert found["(11 other values)"] == [*range(11), *range(69, 80)]
    # Words that do not repeat are no numbers to be cut into fifths.
    assert list(members(slices_of_labels(np.asarray(words)))) == ["(40 other values)"]
