"""Every layout on worked rows: what comes out, and what is told apart row by row."""

import re

import pytest

from tasks.conversion import Unusable, checked
from tasks.conversion.layouts import LAYOUTS, NAMES, check_declared, reader, recognise, trl
from tasks.errors import DataError, ParamsError
from tests.conversion.messages import assistant, user


def system(text):
    return {"role": "system", "content": text}


def turn(speaker, text):
    return {"from": speaker, "value": text}


def one(layout, row, mapping=None, options=None):
    (pair,) = reader(layout, mapping or {}, options)(row)
    if isinstance(pair, Unusable):
        raise pair
    return checked(pair)


def sides(pair):
    return pair.prompt, pair.chosen, pair.rejected


TALK = ([user("Hi")], [assistant("Hello.")], [assistant("No.")])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
         ("The sky is", " blue.", " green.")),
        ({"chosen": "The sky is blue.", "rejected": "The sky is green."},
         ("The sky is", " blue.", " green.")),
        ({"chosen": "Blue.", "rejected": "Green."}, (None, "Blue.", "Green.")),
        ({"prompt": [user("Hi")], "chosen": [assistant("Hello.")], "rejected": [assistant("No.")]},
         TALK),
        ({"chosen": [user("Hi"), assistant("Hello.")], "rejected": [user("Hi"), assistant("No.")]},
         TALK),
        # a text prompt beside messages, repeated in them or not
        ({"prompt": "Hi", "chosen": [user("Hi"), assistant("Hello.")],
          "rejected": [user("Hi"), assistant("No.")]}, TALK),
        ({"prompt": "Hi ", "chosen": [system("Be brief."), user("Hi"), assistant("Hello.")],
          "rejected": [system("Be brief."), user("Hi"), assistant("No.")]},
         ([system("Be brief."), user("Hi")], TALK[1], TALK[2])),
        ({"prompt": "Hi", "chosen": [assistant("Hello.")], "rejected": [assistant("No.")]}, TALK),
        # messages as prompt, repeated in the answers; answers as text; a prompt of a system turn
        ({"prompt": [user("Hi")], "chosen": [user("Hi"), assistant("Hello.")],
          "rejected": [user("Hi"), assistant("No.")]}, TALK),
        ({"prompt": [user("Hi")], "chosen": "Hello.", "rejected": "No."}, TALK),
        ({"prompt": [system("S")], "chosen": [user("Hi"), assistant("Hello.")],
          "rejected": [user("Hi"), assistant("No.")]},
         ([system("S"), user("Hi")], TALK[1], TALK[2])),
        # a text prompt of several words that both answers repeat, and look-alikes that stay
        ({"prompt": "The sky is", "chosen": "The sky is blue.", "rejected": "The sky is green."},
         ("The sky is", " blue.", " green.")),
        ({"prompt": "Hi", "chosen": "Hi there", "rejected": "High five"},
         ("Hi", "Hi there", "High five")),
        ({"prompt": "What is it?", "chosen": "What is it? A cat.", "rejected": "A dog."},
         ("What is it?", "What is it? A cat.", "A dog.")),
        ({"prompt": "Say the", "chosen": "Say them", "rejected": "Say there"},
         ("Say the", "Say them", "Say there")),
        # several turns after the prompt
        ({"chosen": [user("a"), assistant("b"), user("c"), assistant("d")],
          "rejected": [user("a"), assistant("x")]},
         ([user("a")], [assistant("b"), user("c"), assistant("d")], [assistant("x")])),
    ],
)  # fmt: skip
def test_trl_rows_of_every_shape(row, expected):
    assert LAYOUTS["trl"].fits(set(row), row)
    assert sides(one("trl", row)) == expected


def test_trl_margin_tools_and_template_arguments():
    schema = [{"type": "function", "function": {"name": "add", "parameters": {"b": 1, "a": 2}}}]
    row = {"prompt": "1+1", "chosen": "2", "rejected": "3", "margin": "0.30"}
    text = '[{"type":"function","function":{"name":"add","parameters":{"b":1,"a":2}}}]'
    for tools in (schema, text):
        pair = one("trl", row | {"tools": tools, "chat_template_kwargs": {"think": False}})
        assert (pair.margin, pair.tools, pair.chat_template_kwargs) == (
            0.3,
            text,
            '{"think":false}',
        )
    for nothing in ({}, {"tools": [], "margin": None}, {"tools": "", "margin": " "}):
        pair = one("trl", row | {"margin": None} | nothing)
        assert (pair.margin, pair.tools, pair.chat_template_kwargs) == (None, None, None)


def test_tool_call_turns_keep_their_keys():
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call], "name": None}
    result = {"role": "tool", "content": "2", "tool_call_id": "1"}
    row = {
        "prompt": [user("1+1")],
        "chosen": [asks, result, assistant("2")],
        "rejected": [assistant("3")],
    }
    kept = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert one("trl", row).chosen == [kept, result, assistant("2")]
    assert one("trl", row | {"chosen": [asks]}).chosen == [kept]  # a final call is an answer


def test_roles_and_parts_are_brought_into_form_and_noted():
    row = {
        "prompt": [{"role": "Human", "content": [{"type": "text", "text": "Hi"}], "weight": 0}],
        "chosen": [{"role": "gpt", "content": "Hello."}],
        "rejected": [{"role": " Assistant", "content": "No."}],
    }
    pair = one("trl", row)
    assert sides(pair) == TALK
    assert sorted(pair.notes) == [
        "message key 'weight' dropped",
        "role ' Assistant' -> assistant",
        "role 'Human' -> user",
        "role gpt -> assistant",
        "text parts joined",
    ]


@pytest.mark.parametrize(
    ("chosen", "rejected", "expected"),
    [
        ("\n\nHuman: Hi\n\nAssistant: Hello.", "\n\nHuman: Hi\n\nAssistant: No.", TALK),
        ("Human: Hi\n\nAssistant: Hello.", "\n\nHuman: Hi\n\nAssistant: No.", TALK),
        ("\n\nHuman: a\n\nAssistant:  b \n\nHuman:\nc\n\nAssistant: d",
         "\n\nHuman: a\n\nAssistant:  b \n\nHuman:\nc\n\nAssistant: e",
         ([user("a"), assistant(" b "), user("\nc")], [assistant("d")], [assistant("e")])),
        # words that only look like a turn stay in the text
        ("\n\nHuman: a\nHuman: b\n\nAssistant: x\n\nHumans: y",
         "\n\nHuman: a\nHuman: b\n\nAssistant: z",
         ([user("a\nHuman: b")], [assistant("x\n\nHumans: y")], [assistant("z")])),
        # two turns of one speaker in a row are the source's own
        ("\n\nHuman: a\n\nAssistant: b\n\nAssistant: c",
         "\n\nHuman: a\n\nAssistant: b\n\nAssistant: d",
         ([user("a"), assistant("b")], [assistant("c")], [assistant("d")])),
    ],
)  # fmt: skip
def test_hh_rlhf_transcripts(chosen, rejected, expected):
    row = {"chosen": chosen, "rejected": rejected}
    assert recognise("hh", None, {}, [row]) == "hh_rlhf"
    assert sides(one("hh_rlhf", row)) == expected


def test_columns_are_mapped_and_answers_keep_their_spaces():
    mapping = {"prompt": "question", "chosen": "better", "rejected": "worse", "margin": "gap"}
    row = {"question": "Red?", "better": " Yes", "worse": " No", "gap": "1.5", "chosen": 3}
    pair = one("columns", row, mapping)
    assert (*sides(pair), pair.margin) == ("Red?", " Yes", " No", 1.5)
    swapped = {"chosen": "rejected", "rejected": "chosen"}
    row = {"prompt": "Red?", "chosen": "No", "rejected": "Yes"}
    assert sides(one("columns", row, swapped)) == ("Red?", "Yes", "No")
    assert sides(one("trl", row, swapped)) == ("Red?", "Yes", "No")


def test_columns_with_a_system_become_messages():
    mapping = {"prompt": "q", "chosen": "a", "rejected": "b", "system": "s", "weight": "w"}
    pair = one("columns", {"q": "Hi", "a": "Hello.", "b": "No.", "s": "Be brief.", "w": 2}, mapping)
    assert sides(pair) == ([system("Be brief."), user("Hi")], TALK[1], TALK[2])
    assert pair.weight == 2.0
    blank = one("columns", {"q": "Hi", "a": "Hello.", "b": "No.", "s": "", "w": None}, mapping)
    assert sides(blank) == TALK
    assert blank.weight == 1.0


def test_scores_give_an_exact_margin_only_where_they_are_mapped():
    row = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No.", "up": "0.3", "down": 0.1}
    mapping = {"score_chosen": "up", "score_rejected": "down"}
    assert one("columns", row, mapping).margin == 0.2  # 0.3 - 0.1 in binary is 0.19999999999999998
    scored = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
    assert one("trl", scored | {"score_chosen": 1, "score_rejected": 2}).margin is None
    with pytest.raises(Unusable, match="tie"):
        one("columns", row | {"down": "0.30"}, mapping)


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("sharegpt_ranking", {
            "conversations": [{"from": "human", "value": "Hi"}],
            "chosen": {"from": "gpt", "value": "Hello."},
            "rejected": {"from": "gpt", "value": "No."}}),
        ("sharegpt_ranking", {
            "conversations": [{"from": "human", "value": "Hi"}], "chosen": "Hello.",
            "rejected": "No.", "system": " "}),
        ("sharegpt_ranking", {
            "conversations": [turn("human", "Hi")], "chosen": [turn("gpt", "Hello.")],
            "rejected": [turn("gpt", "No.")]}),
        ("trl", {
            "prompt": [turn("human", "Hi")], "chosen": [turn("gpt", "Hello.")],
            "rejected": [turn("gpt", "No.")]}),
        ("trl", {
            "chosen": [turn("human", "Hi"), turn("gpt", "Hello.")],
            "rejected": [turn("human", "Hi"), turn("gpt", "No.")]}),
        ("trl", {
            "prompt": "Hi", "chosen": [turn("human", "Hi"), turn("gpt", "Hello.")],
            "rejected": [turn("human", "Hi"), assistant("No.")]}),
        ("sharegpt_ranking", {
            "messages": [user("Hi")], "chosen": assistant("Hello."),
            "rejected": assistant("No."), "tools": "[]"}),
        ("sharegpt_ranking", {
            "messages": [user("Hi")], "chosen": [assistant("Hello.")],
            "rejected": [assistant("No.")]}),
        ("sharegpt_ranking", {
            "conversations": [user("Hi")], "chosen": assistant("Hello."),
            "rejected": assistant("No.")}),
        ("trl", {
            "prompt": [user("Hi")], "chosen": assistant("Hello."), "rejected": assistant("No.")}),
        ("trl", {
            "prompt": "Hi", "chosen": turn("gpt", "Hello."), "rejected": turn("gpt", "No.")}),
        ("openai_dpo", {
            "input": {"messages": [user("Hi")], "parallel_tool_calls": True},
            "preferred_output": [assistant("Hello.")], "non_preferred_output": [assistant("No.")]}),
        ("typed_parts", {
            f"{side}_messages": [
                {"role": "user", "content": [{"type": "text", "value": "Hi"}], "loss_weight": 0.0},
                {"role": "assistant", "content": [{"type": "text", "value": said}]},
            ] for side, said in (("chosen", "Hello."), ("rejected", "No."))}),
    ],
)  # fmt: skip
def test_other_nested_layouts(layout, row):
    assert recognise("nested", None, {}, [row]) == layout
    assert sides(one(layout, row)) == TALK


ANSWERS = {"chosen": "Hello.", "rejected": "No."}


def test_turns_under_from_and_value_are_read_by_a_mapping_too_and_beside_a_prompt_left_alone():
    row = {"q": [turn("human", "Hi")], "a": [turn("gpt", "Hello.")], "b": [turn("gpt", "No.")]}
    mapping = {"prompt": "q", "chosen": "a", "rejected": "b"}
    assert sides(one("columns", row, mapping)) == TALK
    named = one("columns", row | {"s": "Be kind."}, mapping | {"system": "s"})
    assert sides(named)[0] == [{"role": "system", "content": "Be kind."}, user("Hi")]
    asked = turn("human", "Hi")
    whole = {"chosen": [asked, turn("gpt", "Hello.")], "rejected": [asked, turn("gpt", "No.")]}
    in_answers = trl.TrlOptions(prompt="in_answers")
    assert sides(one("trl", whole | {"prompt": "hi!"}, options=in_answers)) == TALK
    apart = {"prompt": "Hi", "chosen": row["a"], "rejected": row["b"]}
    assert sides(one("trl", apart, options=in_answers)) == TALK
    capital = apart | {side: [turn("Assistant", said)] for side, said in ANSWERS.items()}
    assert sides(one("trl", capital, options=in_answers)) == TALK
    with pytest.raises(DataError, match="no layout fits the columns 'question', 'chosen', 'rej"):
        recognise("votes", None, {}, [{"question": "Hi"} | whole])


def test_a_turn_without_a_list_around_it_is_read_by_the_lines_that_a_refusal_says_to_write():
    row = {"question": [user("Hi")], "chosen": assistant("Hello."), "rejected": assistant("No.")}
    said = "Write columns: {prompt: question, chosen: chosen, rejected: rejected} if"
    with pytest.raises(DataError, match=re.escape(said)):
        recognise("votes", None, {}, [row])
    assert sides(one("columns", row, {"prompt": "question"})) == TALK


def test_turns_that_answer_a_question_in_another_column_are_not_taken_without_it():
    row = {"question": "Hi", "chosen": [assistant("Hello.")], "rejected": [assistant("No.")]}
    capital = {name: [{"role": "Assistant", "content": said}] for name, said in ANSWERS.items()}
    with pytest.raises(DataError, match="no layout fits the columns 'question', 'chosen', 'rej"):
        recognise("votes", None, {}, [{"question": "Hi"} | capital])
    with pytest.raises(DataError, match=re.escape("columns: {prompt: question, chosen: chosen")):
        recognise("votes", None, {}, [row])


def test_an_older_call_that_a_table_leaves_empty_is_none():
    empty = {"function_call": {"name": None, "arguments": None}}
    row = {"prompt": [user("Hi") | empty], "chosen": [assistant("Hello.") | {"function_call": ""}],
           "rejected": [assistant("No.")]}  # fmt: skip
    assert sides(one("trl", row)) == TALK


def test_layout_is_recognised_by_most_of_the_first_rows():
    good = {"prompt": "a", "chosen": "b", "rejected": "c"}
    bad = {"prompt": "a", "chosen": None, "rejected": "c"}
    assert recognise("votes", None, {}, [bad, good, good]) == "trl"
    with pytest.raises(DataError, match="no layout fits the columns"):
        recognise("votes", None, {}, [bad, good])
    with pytest.raises(DataError, match="no row to recognise a layout by"):
        recognise("votes", None, {}, [])


def test_no_fitting_layout_lists_columns_and_candidates():
    with pytest.raises(DataError) as caught:
        recognise("votes", None, {}, [{"question": "a", "better": "b", "worse": "c"}])
    message = str(caught.value)
    assert "'votes': no layout fits the columns 'question', 'better', 'worse'" in message
    assert all(name in message for name in NAMES)


def test_several_fitting_layouts_are_listed():
    row = {
        "chosen": [user("a"), assistant("b")],
        "rejected": [user("a"), assistant("c")],
        "input": {"messages": []},
        "preferred_output": [],
        "non_preferred_output": [],
    }
    with pytest.raises(DataError, match=r"several layouts fit.*trl, openai_dpo; name one"):
        recognise("votes", None, {}, [row])


@pytest.mark.catalogue(43)
def test_misspelt_names_are_answered_with_the_nearest():
    with pytest.raises(ParamsError, match="layout 'hh_rhlf' is unknown; did you mean 'hh_rlhf'"):
        check_declared("hh", "hh_rhlf", {})
    with pytest.raises(ParamsError, match=r"columns\.choosen is unknown.*did you mean 'chosen'"):
        check_declared("votes", None, {"choosen": "better"})
    with pytest.raises(DataError, match=r"columns\.chosen names 'beter'.*did you mean 'better'"):
        recognise("votes", None, {"chosen": "beter"}, [{"better": "a", "worse": "b"}])


@pytest.mark.catalogue(43)
@pytest.mark.parametrize(
    ("layout", "name", "options", "says"),
    [
        (
            "trl",
            "system",
            {},
            "to layout 'trl'; layouts columns, sharegpt_ranking, alpaca, pairwise_label, distil",
        ),
        (
            "hh_rlhf",
            "weight",
            {},
            "to layout 'hh_rlhf'; layouts columns, pairwise_label read it: name one",
        ),
        ("scored", "promt", {}, "to layout 'scored'; did you mean 'prompt'? It reads prompt, resp"),
        ("pairwise_label", "prefrence", {"preference": "first"}, "to layout 'pairwise_label'. It "),
        ("pairwise_label", "vot", {"labels": ["vote"], "first": 1, "second": 2}, "mean 'vote'? It"),
        ("helpsteer", "corectness", {"attributes": {"correctness": 1}}, "mean 'correctness'? It"),
        ("scored", "by", {"by": "id"}, "It reads prompt, response, score, responses, scores, tool"),
        (
            None,
            "response",
            {},
            "to layout 'columns', which a mapping without 'layout' means; layou",
        ),
    ],
)
def test_a_mapped_column_that_the_layout_would_not_read_is_refused(layout, name, options, says):
    with pytest.raises(ParamsError) as caught:
        check_declared("votes", layout, {name: "x"}, options)
    assert f"source 'votes': columns.{name} is unknown to layout" in str(caught.value)
    assert says in str(caught.value)


def test_a_mapping_may_name_what_the_options_name():
    paths = {"responses": ["small.text"], "scores": ["small.ok"], "by": "id"}
    check_declared("votes", "scored", {"small": "s", "small.ok": "o", "id": "key"}, paths)
    check_declared("votes", "helpsteer", {"verbosity": "v"}, {"attributes": {"verbosity": -1}})


TABLE = {"prompt": ["Hi", "Ho"], "chosen": ["a", "b"], "rejected": ["c", "d"]}


@pytest.mark.parametrize(
    "one",
    [
        TABLE,
        {name: dict(enumerate(values)) for name, values in TABLE.items()},
        {"data": [{"prompt": "Hi", "chosen": "a", "rejected": "c"}]},
        {"train": [{"prompt": "Hi"}], "test": []},
        {"version": "0.1", "data": [{"prompt": "Hi", "chosen": "a", "rejected": "c"}]},
        {str(n): {"prompt": "Hi", "chosen": "a", "rejected": "c"} for n in range(1000)},
    ],
    ids=["lists", "columns", "data", "splits", "data beside a version", "rows by id"],
)
def test_a_whole_table_in_one_object_is_answered_with_how_its_rows_are_written(one):
    with pytest.raises(DataError, match=r"no layout fits .*array of objects.*orient='records'"):
        recognise("votes", None, {}, [one])
    with pytest.raises(DataError, match="no layout fits the columns") as caught:
        recognise("votes", None, {}, [one, one])
    assert "orient" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_very_many_columns_are_named_in_part():
    row = {f"c{n}": n for n in range(5000)}
    with pytest.raises(DataError, match=r"fits the columns 'c0', .*'c59' and 4940 more\. Known"):
        recognise("votes", None, {}, [row])
    with pytest.raises(DataError, match=r"Found are 'c0', .*'c59' and 4940 more$"):
        recognise("votes", None, {"prompt": "question"}, [row])
