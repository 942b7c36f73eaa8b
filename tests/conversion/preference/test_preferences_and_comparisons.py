"""Ties, soft labels, and the pairs that are of one list of answers: from the row to the columns."""

from itertools import product

import pytest

from tasks.conversion import Pair, checked
from tasks.conversion.layouts import options_of, reader

TEXT = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
BATTLE = {
    "model_a": "x",
    "model_b": "y",
    "prompt": ["Hi"],
    "response_a": ["Hello."],
    "response_b": ["No."],
    "winner_model_a": 0,
    "winner_model_b": 0,
    "winner_tie": 1,
}
RANKED = {"prompt": "Hi", "responses": ["a", "b", "c", "d"], "scores": [3, 2, 2, 1]}


def only(layout, row, columns=None, **options):
    (item,) = reader(layout, columns or {}, options_of("votes", layout, options))(row)
    return checked(item)


@pytest.mark.catalogue(82)
def test_ties_are_dropped_and_counted_or_kept_with_preference_one_half(
    convert, pairs_of, quarantine_of
):
    decided = BATTLE | {"prompt": ["Ho"], "winner_model_a": 1, "winner_tie": 0}
    dropped = convert([BATTLE, decided])
    assert [pair["row"] for pair in pairs_of(dropped)] == [2]
    (entry,) = quarantine_of(dropped)
    assert (entry["reason"], entry["row"], entry["field"]) == ("tie", 1, "winner_tie")
    kept = convert([BATTLE, decided], ties="keep")
    assert [pair["preference"] for pair in pairs_of(kept)] == [0.5, 1.0]
    assert kept.report["ledger"]["votes"]["dropped"] == {}
    assert (kept.report["ties"], kept.report["ties_kept"]) == (0, 1)
    # Hello. is longer than No.; a tie has no right answer and is left out
    assert kept.report["length_baseline"]["all"] == 1.0
    as_long = BATTLE | {"response_b": ["Hullo."]}
    assert convert([as_long, decided], ties="keep").report["length_baseline"]["all"] == 1.0


def test_ties_stand_in_no_cycle(convert):
    def battle(one, other, tie):
        sides = {"response_a": [one], "response_b": [other]}
        return BATTLE | sides | {"winner_model_a": 1 - tie, "winner_tie": tie}

    padded = ("ab", "bc", (" c", "a"))  # as ties are written, c stands before a
    for way, ties in product((("ab", "bc", "ca"), padded), ((0, 0, 0), (0, 0, 1), (1, 1, 1))):
        rows = [battle(*sides, tie) for sides, tie in zip(way, ties, strict=True)]
        pairs = 0 if any(ties) else 3
        found = convert(rows, ties="keep").report["cycles"]
        assert found == {"pairs": pairs, "prompts": pairs // 3}


def test_a_kept_tie_is_one_pair_however_it_is_written_and_contradicts_no_label(convert, pairs_of):
    swapped = BATTLE | {"response_a": ["No."], "response_b": ["Hello."]}
    padded = BATTLE | {"response_b": [" No."]}  # of the two answers' JSON it is the first
    decided = BATTLE | {"winner_model_b": 1, "winner_tie": 0}
    artifact = convert([BATTLE, swapped, padded, decided], ties="keep")
    tie, label = pairs_of(artifact)
    assert (tie["preference"], label["preference"]) == (0.5, 1.0)
    assert tie["pair_id"] != label["pair_id"]
    assert tie["group"] == label["group"]
    assert artifact.report["ledger"]["votes"]["dropped"] == {"duplicate": 2}
    assert artifact.report["contradictions"] == 0


def test_pairs_of_one_list_of_answers_share_a_comparison(convert, pairs_of):
    artifact = convert([RANKED, TEXT | {"prompt": "Ho", "responses": ["a", "b"], "scores": [1, 0]}],
                       layout="scored")  # fmt: skip
    *several, single = sorted(pairs_of(artifact), key=lambda pair: pair["prompt"])
    assert len(several) == 5
    assert len({pair["comparison"] for pair in several}) == 1
    assert len(several[0]["comparison"]) == 32
    assert single["comparison"] is None
    assert artifact.report["ledger"]["votes"]["dropped"] == {"tie": 1}
    kept = pairs_of(convert([RANKED], layout="scored", ties="keep"))
    assert sorted(pair["preference"] for pair in kept) == [0.5, 1, 1, 1, 1, 1]
    assert {pair["comparison"] for pair in kept} == {several[0]["comparison"]}
    (tie,) = [pair for pair in kept if pair["preference"] == 0.5]
    assert (tie["chosen"], tie["rejected"], tie["margin"]) == ("b", "c", None)


def test_a_comparison_depends_on_neither_order_nor_rows(convert, pairs_of):
    turned = RANKED | {"responses": ["d", "c", "b", "a"], "scores": [1, 2, 2, 3]}
    rows = [{"prompt": "Hi", "response": r, "score": s}
            for r, s in zip(RANKED["responses"], RANKED["scores"], strict=True)]  # fmt: skip
    names = {
        pair["comparison"]
        for given in ([RANKED], [turned], rows, [RANKED | {"scores": [3.0, "2.0", 2, 1.0]}])
        for pair in pairs_of(convert(given, layout="scored"))
    }
    assert len(names) == 1


def test_ties_over_the_cap_are_counted_so(convert):
    same = {"prompt": "Hi", "responses": list("abcdef"), "scores": [1] * 6}  # 15 ties
    artifact = convert(
        [same, RANKED], layout="scored", options={"max_pairs": 6}, ties="keep", duplicates="keep"
    )
    # six of the first row's ties; of the second 5 pairs and the tie
    assert artifact.report["pairs"] == 12
    assert artifact.report["ledger"]["votes"]["dropped"] == {"capped": 9}


def test_pairs_of_one_comparison_are_in_one_split_without_a_prompt(convert, pairs_of):
    rows = [{"prompt": "", "responses": [f"{i} {c}" for c in "abc"], "scores": [1, 2, 3]}
            for i in range(30)]  # fmt: skip
    pairs = pairs_of(convert(rows, layout="scored", eval_fraction=0.5))
    splits = {(pair["comparison"], pair["split"]) for pair in pairs}
    assert len(splits) == len({pair["comparison"] for pair in pairs}) == 30


def test_right_and_wrong_lists_are_one_comparison(convert, pairs_of):
    row = {"prompt": "1+1", "chosen": ["2"], "rejected": ["3", "4"]}
    pairs = pairs_of(convert([row], layout="rewardbench2"))
    assert len(pairs) == 2
    assert pairs[0]["comparison"] == pairs[1]["comparison"] is not None


@pytest.mark.parametrize(
    ("layout", "changes", "options", "expected"),
    [
        ("pairwise_label", {"label": "0.8"}, {"preference": "first", "soft": True}, ("A", 0.8)),
        ("pairwise_label", {"label": 0.2}, {"preference": "first", "soft": True}, ("B", 0.8)),
        ("pairwise_label", {"label": 1.0}, {"preference": "first", "soft": True}, ("A", 1.0)),
        ("pairwise_label", {"label": "0"}, {"preference": "first", "soft": True}, ("B", 1.0)),
        ("helpsteer", {"preference_strength": -1}, {"soft": True}, ("A", 2 / 3)),
        ("helpsteer", {"preference_strength": 2}, {"soft": True}, ("B", 5 / 6)),
        ("helpsteer", {"preference_strength": 3}, {"soft": True}, ("B", 1.0)),
        ("webgpt", {"score_0": -0.5, "score_1": 0.5}, {"soft": True}, ("B", 0.75)),
        ("webgpt", {"score_0": 1, "score_1": -1}, {"soft": True}, ("A", 1.0)),
        ("webgpt", {"score_0": 0.25, "score_1": -0.25}, {"soft": True}, ("A", 0.625)),
    ],
)
def test_soft_labels_where_they_are_asked_for(layout, changes, options, expected):
    row = {"prompt": "Hi", "question": "Hi", "response_1": "A", "response_2": "B",
           "response_a": "A", "response_b": "B", "answer_0": "A", "answer_1": "B"}  # fmt: skip
    pair = only(layout, row | changes, **options)
    better = pair.chosen if layout == "pairwise_label" else pair.chosen[0]["content"]
    assert (better, pair.preference) == (expected[0], pytest.approx(expected[1]))
    assert pair.margin is None


def test_share_of_the_annotators_as_preference():
    row = {"prompt": "Hi", "response_a": "A", "response_b": "B", "x": 2, "y": 2, "z": 0}
    said = {"first": 1, "second": 2, "tie": 0, "labels": ["x", "y", "z"], "soft": True}
    pair = only("pairwise_label", row, **said)
    assert (pair.chosen, pair.preference) == ("B", pytest.approx(2.5 / 3))


def test_a_mapped_preference_below_one_half_swaps_the_sides(convert, pairs_of):
    rows = [TEXT | {"prompt": str(i), "p": p} for i, p in enumerate((0.25, "0.9", None, 0.5))]
    artifact = convert(rows, columns={"preference": "p"})
    pairs = pairs_of(artifact)
    assert [(p["chosen"], p["preference"]) for p in pairs] == [
        ("No.", 0.75),
        ("Hello.", 0.9),
        ("Hello.", 1.0),
    ]
    assert artifact.report["ledger"]["votes"]["dropped"] == {"tie": 1}
    assert artifact.report["with_preference"] == 2


def test_checked_keeps_every_field_of_a_pair():
    given = Pair("Hi", "b", "a", "[]", "{}", 2.0, 3.0, 0.25, "c")
    assert checked(given) == Pair("Hi", "a", "b", "[]", "{}", 2.0, 3.0, 0.75, "c")
