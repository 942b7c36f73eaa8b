"""Content that the catalogue of bad input names: each line's reason or count, place and hint."""

import json
import random

import pytest

from flows.inspection_print import visible
from tasks.conversion.layouts import recognise
from tasks.errors import DataError
from tests.conversion.messages import assistant, user

catalogue = pytest.mark.catalogue


TALK = {"prompt": [user("Hi")], "chosen": [assistant("Yes.")], "rejected": [assistant("No.")]}
TEXT = {"prompt": "Hi", "chosen": "Yes.", "rejected": "No."}
SCORES = {"score_chosen": "up", "score_rejected": "down"}


def text(number, **others):
    return {"prompt": f"Question {number}", "chosen": "Yes.", "rejected": "No.", **others}


def notes(artifact):
    return artifact.report["notes"].get("votes", {})


@catalogue(17)
def test_scores_that_no_reader_keeps_exactly_are_quarantined(convert, quarantine_of):
    big = '{"prompt": "Hi", "chosen": "a", "rejected": "b", "up": 36893488147419103232, "down": 1}'
    quoted = text(1, up="9223372036854775808", down=1)
    artifact = convert([text(0, up=2, down=1), big, quoted], columns=SCORES)
    for entry, row in zip(quarantine_of(artifact), (2, 3), strict=True):
        assert (entry["row"], entry["reason"], entry["field"]) == (row, "bad_score", "score_chosen")
        assert "a finite number below 2^63" in entry["message"]


@catalogue(57, 68)
def test_role_variants_and_further_keys_are_brought_into_form_and_counted(convert, pairs_of):
    row = TALK | {"prompt": [{"role": " USER", "content": "Hi", "weight": 1}]}
    artifact = convert([row])
    assert pairs_of(artifact)[0]["prompt"] == [user("Hi")]
    assert notes(artifact) == {"message key 'weight' dropped": 1, "role ' USER' -> user": 1}


@catalogue(63)
def test_a_call_needs_no_content_and_other_messages_do(convert, pairs_of, quarantine_of):
    call = {"function": {"name": "add", "arguments": {}}}
    turns = [user("Hi"), assistant(None, tool_calls=[call]), {"role": "tool", "content": "3"}]
    artifact = convert([TALK | {"prompt": turns}, TALK | {"prompt": [user(None)]}])
    assert pairs_of(artifact)[0]["prompt"][1]["content"] is None
    (entry,) = quarantine_of(artifact)
    assert (entry["row"], entry["reason"], entry["field"]) == (
        2,
        "null_content",
        "prompt[0].content",
    )
    assert "expected its text" in entry["message"]


def tool(stated=None):
    turn = {"role": "tool", "content": "3"}
    return turn if stated is None else turn | {"tool_call_id": stated}


def call(made):
    return assistant(None, tool_calls=[{"id": made, "function": {"name": "add", "arguments": {}}}])


TOOL_ROWS = [
    TALK | {"prompt": [user("Hi"), tool()]},
    TALK | {"prompt": [user("Hi 1"), call("a"), tool("a")]},
    TALK | {"prompt": [user("Hi 2"), call("a"), tool("b")]},
    TALK | {"prompt": [user("Hi 3"), call("a"), tool()]},
    TALK | {"chosen": [call("c"), tool("x"), assistant("Yes.")]},
    TALK | {"prompt": "What is a tool?"},
    text(1) | {"chat_template_kwargs": {"last": {"role": "tool"}}},
]


@catalogue(67)
def test_tool_turns_without_their_call_are_counted(convert):
    artifact = convert(TOOL_ROWS)
    assert notes(artifact)["tool turn without its call"] == 3
    assert artifact.report["pairs"] == 7


@catalogue(67)
def test_tool_turns_without_their_call_are_quarantined_where_the_source_asks_for_it(
    convert, pairs_of, quarantine_of
):
    strict = {"tool_turns": "quarantine"}
    artifact = convert(TOOL_ROWS, layout="trl", options=strict)
    assert [pair["row"] for pair in pairs_of(artifact)] == [2, 4, 6, 7]
    assert "tool turn without its call" not in notes(artifact)
    found = [(e["file"], e["row"], e["field"]) for e in quarantine_of(artifact)]
    assert found == [("votes.jsonl", 1, "prompt[1]"), ("votes.jsonl", 3, "prompt[2]"),
                     ("votes.jsonl", 5, "chosen[1]")]  # fmt: skip
    for entry, stated in zip(quarantine_of(artifact), ("None", "'b'", "'x'"), strict=True):
        assert entry["reason"] == "unmatched_tool_turn"
        assert f"found a tool's turn with tool_call_id {stated}" in entry["message"]
        assert "correct the ids" in entry["message"]
    with pytest.raises(DataError, match=r"unmatched_tool_turn \(3x\), first votes\.jsonl row 1"):
        convert(TOOL_ROWS, layout="trl", options=strict, max_bad_fraction=0.1)
    rows = [
        {"messages": [user("Hi"), *middle, assistant(said)], "label": label}
        for middle, said, label in (([], "Yes.", True), ([tool("b")], "No.", False),
                                    ([], "Well.", False))
    ]  # fmt: skip
    joined = convert(rows, layout="unpaired", options=strict)
    assert [e["reason"] for e in quarantine_of(joined)] == ["unmatched_tool_turn"]
    assert len(pairs_of(joined)) == 1
    answers = [[assistant("Yes.")], [assistant("No.")]]
    rows = [{"prompt": [user("Hi"), *middle], "responses": answers, "scores": scores}
            for middle, scores in (([], [1, 0]), ([tool()], [1, 1]))]  # fmt: skip
    ranked = convert(rows, layout="scored", options=strict)
    assert [e["reason"] for e in quarantine_of(ranked)] == ["unmatched_tool_turn"]


def test_turns_that_are_written_in_a_text_are_counted(convert):
    """As of a transcript that is read by another layout than its own."""
    turns = "\n\nHuman: Hi\n\nAssistant: "
    whole = {"chosen": turns + "Hello.", "rejected": turns + "Go."}
    told = TALK | {"prompt": [user("What is\n\nAssistant: ?")]}
    apart = {"prompt": turns, "chosen": "a", "rejected": "b"}
    found = convert([whole, text(1), apart, told], layout="trl")
    assert notes(found) == {"turns written in a text (Assistant:): it gets no chat template": 2}
    assert notes(convert([whole], layout="hh_rlhf")) == {}


def test_messages_that_are_written_in_a_text_are_counted(convert):
    """As in one file of several, whose first has texts."""
    sides = {side: json.dumps(TALK[side]) for side in ("chosen", "rejected")}
    rows = [text(1), text(2, prompt="Hi", **sides), sides, text(3, chosen="[{} and so on")]
    found = notes(convert(rows, layout="trl", options={"json_columns": []}))
    assert found == {"messages written in a text as JSON: it gets no chat template": 2}


@catalogue(52, 72)
def test_white_space_is_kept_to_the_byte_and_alone_makes_no_pair(convert, pairs_of, quarantine_of):
    kept = text(1, chosen="  Yes.\t\n", rejected="\nNo. ")
    artifact = convert([kept, text(2, chosen="Yes.", rejected="Yes.\n")])
    (pair,) = pairs_of(artifact)
    assert (pair["chosen"], pair["rejected"]) == ("  Yes.\t\n", "\nNo. ")
    (entry,) = quarantine_of(artifact)
    assert (entry["reason"], entry["field"]) == ("identical_normalised", "rejected")
    assert (entry["file"], entry["row"]) == ("votes.jsonl", 2)
    assert "only in surrounding whitespace" in entry["message"]


@catalogue(73, 93)
def test_unicode_is_kept_and_what_changes_its_display_or_script_is_counted(convert, pairs_of):
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u0631\u062d\u0628\u0627 e\u0301"
    rows = [
        text(1, chosen=family),
        text(2, chosen="safe \u202eevil"),
        text(3, chosen="\u041f\u0440\u0438\u0432\u0435\u0442", rejected="\u041d\u0435\u0442"),
    ]
    artifact = convert(rows)
    assert pairs_of(artifact)[0]["chosen"] == family
    assert notes(artifact) == {
        "answers in ARABIC script": 1,
        "answers in CYRILLIC script": 1,
        "text that is displayed in another order (bidirectional controls)": 1,
    }
    assert visible("safe \u202eevil") == "safe \\u202eevil"


@catalogue(74, 77)
def test_text_that_is_not_composed_is_kept_and_only_compared_composed(convert, pairs_of):
    rows = [text(1, chosen="cafe\u0301"), text(1, chosen="caf\u00e9"), text(1, chosen="cafe\u0301")]
    artifact = convert(rows, shard_rows=1)
    assert [pair["chosen"] for pair in pairs_of(artifact)] == ["cafe\u0301"]
    counts = {"exact": 1, "normalised": 1, "other_margin": 0}
    assert artifact.report["duplicates"] == counts


@catalogue(79)
def test_of_pairs_with_differing_margins_the_first_is_kept_and_the_others_counted(
    convert, pairs_of
):
    artifact = convert([text(1, margin=2), text(1, margin=1), text(1, margin=2)])
    assert [pair["margin"] for pair in pairs_of(artifact)] == [2.0]
    assert artifact.report["duplicates"]["other_margin"] == 1


@catalogue(80)
def test_cycles_of_preferences_are_counted(convert):
    def over(better, worse, prompt="Hi"):
        return {"prompt": prompt, "chosen": better, "rejected": worse}

    cycle = [over("a", "b"), over("b", "c"), over("c", "a"), over("a", "x"), over("y", "a")]
    order = [over(x, y, "Ho") for x, y in ("ab", "bc", "ac", "cd", "de", "ef")]
    rows = [*cycle, *order, *cycle]  # each pair once
    assert convert(rows, shard_rows=2).report["cycles"] == {"pairs": 3, "prompts": 1}
    assert convert(order).report["cycles"] == {"pairs": 0, "prompts": 0}


@catalogue(81)
def test_held_out_prompts_that_are_nearly_training_prompts_are_counted(convert, pairs_of):
    def long(number):
        draw = random.Random(number)
        return " ".join(f"word{draw.randrange(10**6)}" for _ in range(40))

    rows = [text(i, prompt=long(i)) for i in range(80)]
    alone = convert(rows, eval_fraction=0.2)
    held_out = [pair["prompt"] for pair in pairs_of(alone) if pair["split"] == "eval"]
    assert alone.report["near_duplicates"] == {"looked_at": len(held_out), "near_duplicates": 0}
    changed = [text(i, prompt=f"{p} again {i}") for i, p in enumerate(held_out)]
    both = convert(rows + changed, eval_fraction=0.2).report
    assert both["near_duplicates"]["near_duplicates"] >= len(held_out) // 2
    groups = {}
    for pair in pairs_of(convert(rows + [r | {"chosen": "Ja."} for r in rows], eval_fraction=0.2)):
        groups.setdefault(pair["group"], set()).add(pair["split"])
    assert all(len(splits) == 1 for splits in groups.values())


@catalogue(83)
def test_preferring_the_longer_answer_is_measured_per_source(convert):
    rows = [text(i, chosen="a longer answer") for i in range(3)] + [text(9, rejected="much longer")]
    report = convert(rows).report
    assert report["length_baseline"]["all"] == 0.75
    assert report["sources"]["votes"]["length_baseline"] == 0.75


@catalogue(84)
def test_a_margin_in_a_text_is_a_number_only_if_it_is_exact(convert, pairs_of, quarantine_of):
    artifact = convert([text(1, margin="0.25"), text(2, margin="ca. 2"), text(3, margin="inf")])
    assert [pair["margin"] for pair in pairs_of(artifact)] == [0.25]
    for entry, row in zip(quarantine_of(artifact), (2, 3), strict=True):
        assert (entry["row"], entry["reason"], entry["field"]) == (row, "bad_margin", "margin")
        assert "expected a finite number" in entry["message"]


@catalogue(85, 86)
def test_scores_against_most_labels_fail_as_swapped_columns_whatever_is_allowed(
    convert, quarantine_of
):
    right = [text(i, up=2, down=1) for i in range(8)]
    wrong = [text(i, up=1, down=2) for i in range(8, 11)]
    with pytest.raises(DataError) as caught:
        convert(right + wrong, columns=SCORES, max_bad_fraction=1.0)
    message = str(caught.value)
    assert "in 3 of 11 rows the rejected answer has the higher score" in message
    assert "probably swapped" in message
    assert "first votes.jsonl row 9, score_chosen" in message
    artifact = convert(right + wrong[:1], columns=SCORES)
    (entry,) = quarantine_of(artifact)
    assert (entry["reason"], entry["row"]) == ("score_contradicts_label", 9)
    assert entry["field"] == "score_chosen"
    assert "the columns are swapped in the mapping" in entry["message"]


@catalogue(87)
def test_labels_are_counted_per_source(convert):
    rows = [{"prompt": "Hi", "completion": c, "label": c == "a"} for c in "abcd"]
    assert convert(rows).report["labels"] == {"votes": {"bad": 3, "good": 1}}


@catalogue(88)
def test_fewer_pairs_than_asked_for_fail(convert):
    rows = [text(i) for i in range(3)]
    with pytest.raises(DataError, match=r"3 pairs are left of 3 rows, fewer than conversion\.min_"):
        convert(rows, min_rows=4)
    assert convert(rows, min_rows=3).report["pairs"] == 3


@catalogue(92)
def test_text_that_looks_like_a_secret_is_counted_and_never_shown(convert):
    secret = "AKIA" + "ABCDEFGH12345678"
    rows = [text(1, chosen=f"My key is {secret}, ok?"), text(2, chosen="write to ann@example.org")]
    artifact = convert(rows)
    assert notes(artifact) == {
        "text that looks like an access key": 1,
        "text that looks like an e-mail address": 1,
    }
    assert secret not in json.dumps(artifact.report)


@catalogue(44)
def test_columns_that_nobody_asked_for_are_named_once(convert, pairs_of, caplog):
    caplog.set_level("INFO", "tasks.conversion")
    rows = [text(i, id=i, score_chosen=2, **{"x\x1b[2J": 1}) for i in range(50)]
    assert len(pairs_of(convert(rows))) == 50
    (told,) = [r.getMessage() for r in caplog.records if "does not read" in r.getMessage()]
    assert told == (
        "source 'votes': columns that layout 'trl' does not read: 'id', 'score_chosen', 'x\\x1b[2J'"
    )
    caplog.clear()
    convert(rows[:2], columns={"score_chosen": "score_chosen", "score_rejected": "id"})
    (told,) = [r.getMessage() for r in caplog.records if "does not read" in r.getMessage()]
    assert told.endswith("layout 'columns' does not read: 'x\\x1b[2J'")
    caplog.clear()
    scored = [{"q": "Hi", "response": "a" * n, "score": n, "id": 1, "tip": 2} for n in (1, 2)]
    convert(scored, layout="scored", columns={"prompt": "q"}, options={"by": "id"})
    (told,) = [r.getMessage() for r in caplog.records if "does not read" in r.getMessage()]
    assert told == "source 'votes': columns that layout 'scored' does not read: 'tip'"


@catalogue(44)
@pytest.mark.parametrize("layout", ["scored", None])
def test_a_system_that_the_layout_does_not_read_is_a_warning(convert, layout, caplog):
    asked = {"prompt": "Hi", "system_prompt": " "}
    rows = [asked | {"response": text, "score": len(text)} for text in ("Hello.", "No.")]
    convert(rows, layout=layout)
    assert [r for r in caplog.records if r.levelname == "WARNING"] == []
    for row, system in zip(rows, ("Be kind.", "Be rude."), strict=True):
        row["system_prompt"] = system
    assert convert(rows, layout=layout).report["pairs"] == 1
    (told,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "'system_prompt' holds 'Be kind.', which layout 'scored' does not read" in told


@pytest.mark.parametrize("layout", ["trl", "columns"])
def test_what_is_asked_in_a_column_that_is_not_read_is_told(caplog, layout):
    def told(row, columns=None):
        caplog.clear()
        recognise("votes", layout, columns or {}, [row])
        return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]

    texts, asked = {"chosen": "a", "rejected": "b"}, [{"role": "user", "content": "Hi"}]
    for name, held in (("messages", asked), ("question", "Hi?"), ("dialogue", asked)):
        (said,) = told(texts | {name: held})
        assert f"its column '{name}' holds" in said
        assert said.endswith(f"have no prompt: it is lost; write columns: {{..., prompt: {name}}}")
        assert told(texts | {name: held}, {"prompt": name}) == []
        assert told(texts | {name: held, "prompt": "Hi!"}) == []
    assert told({"question": "Hi?", "chosen": "Hi? a", "rejected": "Hi? b"}) == []
    whole = {side: [*asked, {"role": "assistant", "content": side}] for side in texts}
    assert told(whole | {"messages": whole["chosen"]}) == []
    cells = {side: json.dumps(whole[side]) for side in texts}
    assert told(cells | {"messages": whole["chosen"]}) == []


@catalogue(44, 94)
def test_ids_of_any_kind_name_no_pair(convert, pairs_of):
    rows = [text(i, id=value) for i, value in enumerate((7, 7, "7", None, [1], 2**70))]
    pairs = pairs_of(convert(rows))
    assert len({pair["pair_id"] for pair in pairs}) == 6
    assert pairs_of(convert([text(0)]))[0]["pair_id"] == pairs[0]["pair_id"]
