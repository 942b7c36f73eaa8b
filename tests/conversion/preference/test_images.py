"""Rows with images keep their structure; the order of two answers is kept beside them."""

import json

import pytest

from tasks.conversion import extract_prompt, unpair_preference_dataset
from tasks.conversion.preference.shapes import is_conversational

ASKED = [{"type": "image"}, {"type": "text", "text": "What color is the sky in the image?"}]
GUIDE = {
    "images": ["sky.png"],
    "prompt": [{"role": "user", "content": ASKED}],
    "chosen": [{"role": "assistant", "content": [{"type": "text", "text": "It is blue."}]}],
    "rejected": [{"role": "assistant", "content": [{"type": "text", "text": "It is green."}]}],
}


def test_the_guides_vision_row_keeps_images_and_typed_parts(convert, pairs_of):
    (pair,) = pairs_of(convert([GUIDE], layout="trl"))
    assert pair["prompt"] == GUIDE["prompt"]
    assert pair["chosen"] == [{"role": "assistant", "content": "It is blue."}]
    assert json.loads(pair["images"]) == ["sky.png"]
    assert pair["format"] == "conversational"


def test_the_guides_vision_row_passes_through_the_public_functions():
    assert is_conversational(GUIDE)
    whole = {
        "images": GUIDE["images"],
        "chosen": GUIDE["prompt"] + GUIDE["chosen"],
        "rejected": GUIDE["prompt"] + GUIDE["rejected"],
    }
    assert extract_prompt(whole) == GUIDE
    rows = unpair_preference_dataset([GUIDE])
    assert [row["label"] for row in rows] == [True, False]
    assert all(row["images"] == ["sky.png"] for row in rows)


@pytest.mark.parametrize(
    ("images", "stored"),
    [
        ("https://host/a.png", ["https://host/a.png"]),
        ('["a.png"]', ["a.png"]),
        ([{"bytes": None, "path": "a.png"}], [{"bytes": None, "path": "a.png"}]),
        ([{"bytes": "aGk=", "path": None}], [{"bytes": "aGk=", "path": None}]),
    ],
)
def test_images_are_kept_however_they_are_named(convert, pairs_of, images, stored):
    (pair,) = pairs_of(convert([GUIDE | {"images": images}], layout="trl"))
    assert json.loads(pair["images"]) == stored


def test_pairs_that_differ_in_their_images_alone_are_two(convert, pairs_of):
    rows = [GUIDE, GUIDE | {"images": ["sea.png"]}, GUIDE]
    pairs = pairs_of(convert(rows, layout="trl"))
    assert len({pair["pair_id"] for pair in pairs}) == len(pairs) == 2


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"images": [3]}, "bad_images", "images[0]"),
        ({"images": "[a"}, "bad_images", "images"),
        ({"images": None}, "image_part", "images"),
        ({"prompt": [{"role": "user", "content": [{"type": "audio"}]}]}, "unknown_part",
         "prompt[0].content[0]"),
    ],
)  # fmt: skip
def test_images_that_cannot_be_kept_are_quarantined(convert, quarantine_of, change, reason, field):
    rows = [GUIDE, GUIDE | change]
    (bad,) = quarantine_of(convert(rows, layout="trl"))
    assert (bad["reason"], bad["field"]) == (reason, field)


def test_a_part_that_holds_its_own_image_needs_none_beside(convert, pairs_of):
    asked = [{"type": "image", "url": "https://host/a.png", "text": None}, ASKED[1]]
    row = GUIDE | {"images": None, "prompt": [{"role": "user", "content": asked}]}
    (pair,) = pairs_of(convert([row], layout="trl"))
    assert pair["prompt"][0]["content"][0] == {"type": "image", "url": "https://host/a.png"}
    assert pair["images"] is None


ARENA = {"model_a": "x", "model_b": "y", "conversation_a": None, "conversation_b": None}


def arena(number, winner):
    def talk(text):
        return [{"role": "user", "content": f"Hi {number}"}, {"role": "assistant", "content": text}]

    sides = {"conversation_a": talk("one"), "conversation_b": talk("two")}
    return ARENA | sides | {"winner": winner}


def test_which_answer_the_judge_saw_first_is_kept(convert, pairs_of):
    rows = [arena(0, "model_a"), arena(1, "model_b"), arena(2, "tie")]
    first = [pair["chosen_first"] for pair in pairs_of(convert(rows, ties="keep"))]
    assert first == [True, False, True]  # of the tie, "one" sorts first and stood first
    labels = {"prompt": "p", "response_a": "x", "response_b": "y"}
    for options, label, expected in (
        ({"first": 1, "second": 2}, 2, False),
        ({"preference": "first"}, 0.9, True),
        ({"preference": "first", "soft": True}, 0.2, False),
    ):
        rows = [labels | {"label": label}]
        (pair,) = pairs_of(convert(rows, layout="pairwise_label", options=options))
        assert pair["chosen_first"] is expected
    shp = {"history": "h", "human_ref_A": "a", "human_ref_B": "b", "labels": 0}
    strength = {"prompt": "h", "response_1": "a", "response_2": "b", "preference_strength": -1}
    for row, expected in ((shp, False), (strength, True), (GUIDE, None)):
        assert pairs_of(convert([row]))[0]["chosen_first"] is expected
