"""Layouts of judged answers: what becomes of worked rows."""

import json
import re

import pytest

from tasks.conversion import Pair, Unusable, checked
from tasks.conversion.layouts import LAYOUTS, check_declared, options_of, reader, recognise
from tasks.conversion.preference.answers import Answer
from tasks.errors import DataError, ParamsError
from tests.conversion.layouts.judged_rows import (
    BATTLE,
    JUDGED,
    KAGGLE,
    PROCESSES,
    RATED,
    SHP,
    TALK,
    counted,
    items,
    one,
    sides,
)
from tests.conversion.messages import assistant, user


def test_arena_turns_in_lists_become_conversations_that_part_at_the_first_answer():
    assert sides(one("arena", KAGGLE)) == TALK
    second = {"winner_model_a": 0, "winner_model_b": 1, "winner_tie": 0}
    assert sides(one("arena", KAGGLE | second)) == (TALK[0], TALK[2], TALK[1])
    turns = {"prompt": ["Hi", "And?"], "response_a": ["Hello.", "Well."],
             "response_b": ["No.", "No!"]}  # fmt: skip
    for row in (KAGGLE | turns, KAGGLE | {k: json.dumps(v) for k, v in turns.items()}):
        assert sides(one("arena", row)) == (
            [user("Hi")],
            [assistant("Hello."), user("And?"), assistant("Well.")],
            [assistant("No."), user("And?"), assistant("No!")],
        )
    same_start = KAGGLE | turns | {"response_b": ["Hello.", "No!"]}
    assert sides(one("arena", same_start)) == (
        [user("Hi"), assistant("Hello."), user("And?")], [assistant("Well.")], [assistant("No!")],
    )  # fmt: skip


def test_a_cell_says_who_won_as_numbers_are_written_where_some_are_missing():
    for won, lost in ((1, 0), (1.0, 0.0), ("1", "0"), ("1.0", "0.0"), (True, False), ("True", "0")):
        cells = {"winner_model_a": lost, "winner_model_b": won, "winner_tie": lost}
        assert sides(one("arena", KAGGLE | cells)) == (TALK[0], TALK[2], TALK[1])
        assert sides(one("shp", SHP | {"labels": won})) == TALK
    for cell in ("2.0", "0.5", "1.00", "yes"):
        with pytest.raises(Unusable, match=r"bad_label: labels: found the text .*true or false"):
            one("shp", SHP | {"labels": cell})


def test_arena_conversations_and_a_winner():
    assert sides(one("arena", BATTLE)) == TALK
    as_text = BATTLE | {k: json.dumps(BATTLE[k]) for k in ("conversation_a", "conversation_b")}
    assert sides(one("arena", as_text)) == TALK
    assert sides(one("arena", BATTLE | {"winner": "model_a"})) == (TALK[0], TALK[2], TALK[1])


def test_arena_texts_beside_a_winner_are_one_turn_as_they_are():
    texts = {"model_a": "x", "model_b": "y", "prompt": "Hi", "winner": "model_b"}
    for first, second in (("response_a", "response_b"), ("response_1", "response_2")):
        row = texts | {first: "No.", second: "Hello."}
        assert recognise("votes", None, {}, [row]) == "arena"
        pair = one("arena", row)
        assert (sides(pair), pair.chosen_first) == (TALK, False)
        assert sides(one("arena", row | {"winner": "model_a"})) == (TALK[0], TALK[2], TALK[1])
        assert one("arena", row | {second: '["No!"]'}).chosen == [assistant('["No!"]')]
        lists = {"prompt": '["Hi"]', first: ["No."], second: '["Hello."]'}
        assert sides(one("arena", row | lists)) == TALK
        for name in ("tie", "tie (bothbad)"):
            with pytest.raises(Unusable, match=f"tie.*winner: found .*{re.escape(name)}"):
                one("arena", row | {"winner": name})


def test_an_arena_verdict_on_a_turn_is_on_the_answer_of_that_turn():
    more = {
        "conversation_a": [*BATTLE["conversation_a"], user("And?"), assistant("No!")],
        "conversation_b": [*BATTLE["conversation_b"], user("And?"), assistant("Well.")],
    }
    assert sides(one("arena", BATTLE | more | {"turn": 1})) == TALK
    for name in ("gpt", "model", "Assistant "):
        named = {
            side: [m | {"role": name} if m["role"] == "assistant" else m for m in messages]
            for side, messages in more.items()
        }
        assert sides(one("arena", BATTLE | named | {"turn": 1})) == TALK
    whole = ([user("Hi")], [assistant("Hello."), user("And?"), assistant("Well.")],
             [assistant("No."), user("And?"), assistant("No!")])  # fmt: skip
    for turn in ({}, {"turn": None}, {"turn": 2}, {"turn": "2"}):
        assert sides(one("arena", BATTLE | more | turn)) == whole
    with pytest.raises(Unusable, match="turn: found 7, but 2 answers in conversation_a, expected"):
        one("arena", BATTLE | more | {"turn": 7})
    for turn in (0, 1.5):
        with pytest.raises(Unusable, match=r"wrong_type.*turn: found .*expected 1 for the first"):
            one("arena", BATTLE | {"turn": turn})


def completion(response, overall=None, **ratings):
    annotations = {aspect: {"Rating": r, "Rationale": "x"} for aspect, r in ratings.items()}
    return {"response": response, "annotations": annotations, "overall_score": overall}


def test_ultrafeedback_compares_mean_ratings_and_counts_what_is_not_rated():
    row = {"instruction": "Hi", "completions": [
        completion("Hello.", 8.0, helpfulness="5", honesty="N/A"),
        completion("No.", 2.0, helpfulness="2", honesty="3"),
        completion("Hm.", 9.0, helpfulness="3", honesty="2"),
        completion("?", 1.0, helpfulness="N/A", honesty="N/A")]}  # fmt: skip
    found = items("ultrafeedback", row)
    # 5, (2 + 3) / 2, (3 + 2) / 2, none: two pairs, a tie, an answer without a rating
    assert counted(found) == (2, {"unrated": 1, "tie": 1})
    pairs = {pair.rejected[0]["content"]: pair for pair in found if isinstance(pair, Pair)}
    assert {text: pair.margin for text, pair in pairs.items()} == {"No.": 2.5, "Hm.": 2.5}
    assert sides(pairs["No."]) == TALK
    overall = one("ultrafeedback", row, score="overall_score", pairs="best_worst")
    assert (overall.chosen[0]["content"], overall.rejected[0]["content"]) == ("Hm.", "?")
    assert overall.margin == 8.0
    aspect = items("ultrafeedback", row, score="honesty")
    assert counted(aspect) == (1, {"unrated": 2})
    assert recognise("votes", None, {}, [row]) == "ultrafeedback"


def test_ultrafeedback_loses_a_bad_completion_and_keeps_the_others():
    row = {"instruction": "Hi", "completions": [
        completion("a", helpfulness="5"), completion("b", helpfulness="1"),
        completion(None, helpfulness="3"), completion("", helpfulness="3"),
        completion("c", helpfulness="four"), 7]}  # fmt: skip
    assert counted(items("ultrafeedback", row)) == (
        1, {"null": 1, "empty_response": 1, "bad_score": 1, "wrong_type": 1},
    )  # fmt: skip


def test_helpsteer_answers_carry_weighted_attributes():
    answer = one("helpsteer", RATED)
    assert answer == Answer([user("Hi")], [assistant("Hello.")], answer.score)
    assert answer.score == 4
    weighted = one("helpsteer", RATED, attributes={"helpfulness": 0.1, "verbosity": -0.2})
    assert str(weighted.score) == "0.2"  # 0.4 - 0.2, exactly
    turns = RATED | {"prompt": "a\n<extra_id_1>Assistant\nb\n<extra_id_1>User\nc"}
    assert one("helpsteer", turns).prompt == [user("a"), assistant("b"), user("c")]


@pytest.mark.parametrize("row", [
    {"prompt": "Hi", "response_1": "Hello.", "response_2": "No.", "preference_strength": -2},
    {"prompt": "Hi", "response_1": "No.", "response_2": "Hello.", "preference_strength": "2"},
    {"context": [user("Hi")], "response1": "Hello.", "response2": "No.", "overall_preference": -2},
])  # fmt: skip
def test_helpsteer_strengths_point_to_the_better_answer(row):
    pair = one("helpsteer", row)
    assert sides(pair) == TALK
    assert pair.margin == 2.0
    assert recognise("votes", None, {}, [row]) == "helpsteer"


def test_shp_labels_one_means_a_and_votes_are_a_margin_on_request():
    assert sides(one("shp", SHP)) == TALK
    assert one("shp", SHP).margin is None
    swapped = SHP | {"labels": "0", "score_A": 3, "score_B": 24}
    assert sides(one("shp", swapped)) == (TALK[0], TALK[2], TALK[1])
    assert one("shp", SHP, margin="difference").margin == 21.0
    assert one("shp", SHP | {"score_ratio": None}, margin="log_ratio").margin == pytest.approx(
        2.0794415, abs=1e-6
    )  # ln 8
    with pytest.raises(Unusable, match="tie"):
        one("shp", SHP, min_score_ratio=9)
    assert sides(one("shp", SHP | {"score_ratio": 9}, min_score_ratio=9)) == TALK  # as it says


def test_unpaired_rows_of_both_forms_are_answers():
    text = {"prompt": "The sky is", "completion": " blue.", "label": True}
    assert one("unpaired", text) == Answer("The sky is", " blue.", True)
    talk = one("unpaired", {"messages": [user("Hi"), assistant("No.")], "label": "False"})
    assert talk == Answer(TALK[0], TALK[2], False)
    turns = {"prompt": [{"from": "user", "content": "Hi"}],
             "completion": {"from": "assistant", "content": "Hello."}, "label": 1}  # fmt: skip
    assert one("unpaired", turns) == Answer(TALK[0], TALK[1], True)
    assert one("unpaired", text, format="conversational") == Answer(
        [user("The sky is")], [assistant(" blue.")], True
    )


def test_stepwise_rows_are_good_when_all_steps_are():
    row = {"prompt": "1+1+1?", "completions": ["1+1=2.", "2+1=3."], "labels": [True, True]}
    assert one("stepwise", row) == Answer("1+1+1?", "1+1=2.\n2+1=3.", True)
    assert one("stepwise", row | {"labels": [True, 0]}).score is False
    spaced = one("stepwise", row, step_separator="")
    assert spaced.completion == "1+1=2.2+1=3."
    numbered = {k: v for k, v in row.items() if k != "labels"}
    assert one("stepwise", numbered | {"error_steps": []}).score is True
    assert one("stepwise", numbered | {"error_steps": [2]}).score is False


def test_a_right_process_is_better_than_what_was_made_of_it():
    assert sides(one("stepwise", PROCESSES)) == ("q", "a\nb", "a\nc")


@pytest.mark.parametrize(
    ("label", "options", "margin"),
    [
        (2, {"first": 1, "second": 2}, None),
        ("2", {"first": 1, "second": 2}, None),
        (2.0, {"first": 1, "second": 2, "tie": 0}, None),
        (1, {"first": 0, "second": 1}, None),
        ("B>A", {"first": "A>B", "second": "B>A"}, None),
        (True, {"first": False, "second": True}, None),
        (0.75, {"preference": "second"}, 0.5),
        ("0.25", {"preference": "first"}, 0.5),
    ],
)
def test_what_a_pairwise_label_means_is_declared(label, options, margin):
    pair = one("pairwise_label", JUDGED | {"label": label}, **options)
    assert (*sides(pair), pair.margin) == ("Hi", "Hello.", "No.", margin)


def test_a_label_of_no_meaning_is_told_with_all_that_are_declared():
    with pytest.raises(
        Unusable, match=r"found the number 2, expected .*: 0 \(first\), 1 \(second\)"
    ):
        one("pairwise_label", JUDGED, first=0, second=1)


@pytest.mark.parametrize(("label", "reason"), [("", "tie"), (" ", "tie"), ([], "bad_label"),
                                               ([1], "bad_label"), ({}, "bad_label")])  # fmt: skip
def test_a_blank_cell_that_means_a_tie_is_no_list(label, reason):
    with pytest.raises(Unusable) as caught:
        one("pairwise_label", JUDGED | {"label": label}, first=1, second=2, tie="")
    assert caught.value.reason == reason


def test_several_annotators_decide_by_majority_and_an_input_goes_below_the_prompt():
    options = {"first": 1, "second": 2, "tie": 0, "labels": ["a1", "a2", "a3"]}
    row = JUDGED | {"input": "there", "a1": 2, "a2": 2, "a3": 1}
    assert sides(one("pairwise_label", row, **options)) == ("Hi\n\nthere", "Hello.", "No.")
    for votes in ((1, 2, 0), (0, 0, 2), (0, 0, 0)):
        tied = row | dict(zip(("a1", "a2", "a3"), votes, strict=True))
        with pytest.raises(Unusable) as caught:
            one("pairwise_label", tied, **options)
        assert caught.value.reason == "tie"


def test_a_meaning_may_have_several_values_and_some_say_nothing():
    options = {"first": ["a", 1], "second": "b", "tie": ["tie", "both bad"], "ignore": ["skip", ""]}
    assert sides(one("pairwise_label", JUDGED | {"label": "b"}, **options))[1] == "Hello."
    assert sides(one("pairwise_label", JUDGED | {"label": "1"}, **options))[1] == "No."
    for label, reason in (("both bad", "tie"), ("skip", "unrated"), (" ", "unrated")):
        with pytest.raises(Unusable) as caught:
            one("pairwise_label", JUDGED | {"label": label}, **options)
        assert caught.value.reason == reason
    annotators = options | {"labels": ["x", "y", "z"]}
    row = JUDGED | {"x": "skip", "y": "b", "z": "skip"}
    assert sides(one("pairwise_label", row, **annotators))[1] == "Hello."
    with pytest.raises(
        ParamsError, match=r"options\.first is .*'a' and options\.ignore .*'a', the"
    ):
        check_declared("votes", "pairwise_label", {}, options | {"ignore": ["skip", "a"]})
    with pytest.raises(ParamsError, match=r"values of the label as options\.tie, found a list"):
        check_declared("votes", "pairwise_label", {}, options | {"tie": [["tie"]]})


def test_a_pairwise_label_may_have_a_system_a_margin_and_a_weight():
    row = JUDGED | {"label": 2, "who": "Be kind.", "gap": "1.5", "w": 2, "system": "x", "margin": 9}
    read = reader("pairwise_label", {"system": "who", "margin": "gap", "weight": "w"},
                  options_of("s", "pairwise_label", {"first": 1, "second": 2}))  # fmt: skip
    (pair,) = read(row)
    assert pair.prompt == [{"role": "system", "content": "Be kind."},
                           {"role": "user", "content": "Hi"}]  # fmt: skip
    assert (pair.margin, pair.weight) == (1.5, 2)
    plain = one("pairwise_label", row, first=1, second=2)
    assert (plain.prompt, plain.margin, plain.weight) == ("Hi", None, 1)


def test_scored_answers_in_a_row():
    row = {"prompt": "Hi", "responses": ["Hello.", "No.", "Hm."], "scores": [3, "1", 1.0]}
    found = items("scored", row)
    assert counted(found) == (2, {"tie": 1})
    assert {pair.margin for pair in found[:2]} == {2.0}
    assert recognise("votes", None, {}, [row]) == "scored"
    ranks = items("scored", row, better="lower", pairs="best_worst")
    assert (ranks[0].rejected, ranks[0].margin) == ("Hello.", 2.0)
    named = {"question": "1+1", "small": {"text": "3", "ok": False}, "large.text": "2",
             "large": {"ok": True}, "note": "x"}  # fmt: skip
    paths = {"responses": ["small.text", "large.text"], "scores": ["small.ok", "large.ok"]}
    pair = one("scored", named, {"prompt": "question"}, format="conversational", **paths)
    assert sides(pair) == ([user("1+1")], [assistant("2")], [assistant("3")])
    assert pair.margin is None
    with pytest.raises(Unusable, match=r"missing_column.*'okay'"):
        one(
            "scored", named, {"prompt": "question"}, responses=["small.text"], scores=["small.okay"]
        )


def test_scored_answers_whose_scores_stand_in_a_list():
    row = {"prompt": "Hi", "response_1": "No.", "answers": [{"text": "Hello."}], "scores": [0, 1]}
    paths = {"responses": ["response_1", "answers.0.text"], "scores": ["scores.0", "scores.1"]}
    assert sides(one("scored", row, **paths)) == ("Hi", "Hello.", "No.")
    named = {"scores": {"0": 1, "1": 0}}
    assert sides(one("scored", row | named, **paths)) == ("Hi", "No.", "Hello.")
    for short in ([0], [], None, 1):
        with pytest.raises(
            Unusable, match=r"missing_column: .*scores\.\d: .* at 'scores', expected"
        ):
            one("scored", row | {"scores": short}, **paths)


def test_scored_answers_in_rows_of_their_own():
    row = {"prompt": "Hi", "response": "Hello.", "score": "0.5", "id": 7}
    answer = one("scored", row)
    assert (answer.completion, str(answer.score), answer.group) == ("Hello.", "0.5", None)
    assert one("scored", row, by="id").group == "7"
    assert one("scored", {"id": 7, "prompt": "Hi"}, by="id").completion is None


def test_rewardbench_rows_become_conversations():
    row = {"id": 1, "subset": "x", "prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
    assert sides(one("rewardbench", row)) == TALK
    assert recognise("votes", None, {}, [row]) == "trl"
    several = row | {"chosen": ["Hello.", "Hey."], "rejected": ["No.", "", "Hm."]}
    assert recognise("votes", None, {}, [several]) == "rewardbench2"
    pairs = reader("rewardbench2", {})(several)
    assert len(pairs) == 6
    assert sides(checked(pairs[0])) == TALK
    assert counted(reader("rewardbench2", {}, options_of("v", "rewardbench2", {"max_pairs": 4}))(
        several)) == (4, {"capped": 2})  # fmt: skip


WORKED = {
    "arena": KAGGLE,
    "helpsteer": RATED,
    "shp": SHP,
    "unpaired": {"prompt": "a", "completion": "b", "label": True},
    "stepwise": PROCESSES,
    "scored": {"prompt": "Hi", "response": "Hello.", "score": 1},
    "context_ranking": {"context": [{"from": "human", "content": "Hi"}],
                        "chosen": [{"from": "assistant", "content": "Hello."}],
                        "rejected": [{"from": "assistant", "content": "No."}]},
}  # fmt: skip


@pytest.mark.parametrize("layout", sorted(WORKED))
def test_worked_rows_are_recognised_and_fit_no_other_layout(layout):
    row = WORKED[layout]
    assert [n for n, known in LAYOUTS.items() if known.fits(set(row), row)] == [layout]


def test_from_and_content_are_read():
    assert sides(one("context_ranking", WORKED["context_ranking"])) == TALK


def test_a_label_is_never_recognised_and_its_meaning_never_guessed():
    with pytest.raises(DataError, match="no layout fits"):
        recognise("votes", None, {}, [JUDGED])
    with pytest.raises(ParamsError, match=r"'pairwise_label' needs what the label means: options"):
        check_declared("votes", "pairwise_label", {})
