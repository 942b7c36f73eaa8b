"""Every reason for which a row cannot be used: where it is found, and what one is told to do."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Ledger, Store
from tasks.conversion import ConversionParams, step
from tasks.conversion.tolerance import check_bad_fraction
from tasks.errors import DataError
from tasks.ingestion import IngestionParams, Source
from tasks.ingestion import step as ingestion_step
from tests.conversion.messages import assistant, user

DEEP = '{"a":' * 300 + "1" + "}" * 300
TEXT = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
TALK = {
    "prompt": [user("Hi")],
    "chosen": [assistant("Hello.")],
    "rejected": [assistant("No.")],
}
IMAGE = {"type": "image_url", "image_url": {"url": "x.png"}}
CALL = {"role": "assistant", "content": None}


def calling(value):
    """A row whose chosen answer calls a tool with a value."""
    function = {"name": "f", "arguments": {"of": [{"wei": value}]}}
    return TALK | {"chosen": [CALL | {"tool_calls": [{"function": function}]}], "id": 10**30}


TRL = [
    (TEXT | {"chosen": ""}, "empty_response", "chosen", "drop the row"),
    (TEXT | {"rejected": " \n"}, "empty_response", "rejected", "expected some text"),
    (TALK | {"chosen": [assistant(" ")]}, "empty_response", "chosen", "drop the row"),
    ({"prompt": "What is it?", "chosen": "What is it?", "rejected": "What is it? A cat."},
     "empty_response", "chosen", "only the prompt again"),
    (TEXT | {"chosen": "No."}, "identical", "rejected", "two answers"),
    (TALK | {"chosen": [assistant("No.")]}, "identical", "rejected", "two answers"),
    (TEXT | {"chosen": "No. "}, "identical_normalised", "rejected", "surrounding whitespace"),
    (TEXT | {"chosen": "caf\u00e9", "rejected": "cafe\u0301"}, "identical_normalised", "rejected",
     "NFC"),
    (TALK | {"chosen": [assistant("\nNo.")]}, "identical_normalised", "rejected", "two answers"),
    ({"prompt": "Is it?", "chosen": "Is it?  Yes.", "rejected": "Is it? Yes."},
     "identical_normalised", "rejected", "surrounding whitespace"),
    ({"chosen": "Is it?  Yes.", "rejected": "Is it? Yes."}, "identical_normalised", "rejected",
     "surrounding whitespace"),
    (TEXT | {"chosen": [assistant("Hello.")]}, "mixed_format", "rejected", "same format"),
    (TEXT | {"chosen": 7}, "wrong_type", "chosen", "found the number 7, expected text"),
    (TEXT | {"chosen": True}, "wrong_type", "chosen", "found the boolean True"),
    (TEXT | {"rejected": {"text": "No."}}, "wrong_type", "rejected", "found an object"),
    (TEXT | {"rejected": assistant("No.")}, "mixed_format", "rejected", "same format"),
    (TEXT | {"prompt": 7}, "wrong_type", "prompt", "expected text or a list of messages"),
    (TALK | {"chosen": [{"role": "assistant", "content": 7}]}, "wrong_type", "chosen[0].content",
     "found the number 7, expected text"),
    (calling(2**64), "number_too_large", "chosen[0].tool_calls[0].function.arguments.of[0].wei",
     "found the number 18446744073709551616, expected whole numbers within 64 bits"),
    (TALK | {"chat_template_kwargs": {"n": -(2**63) - 1}}, "number_too_large",
     "chat_template_kwargs.n", "write it as text"),
    (TEXT | {"chosen": None}, "null", "chosen", "drop the row or fill it"),
    (TEXT | {"prompt": None}, "null", "prompt", "leave the column out"),
    ({"prompt": "Hi", "chosen": "a", "rejectd": "b"}, "missing_column", "rejected",
     "found the columns 'prompt', 'chosen', 'rejectd', expected 'rejected'; did you mean 'rejec"),
    (TALK | {"chosen": []}, "empty_messages", "chosen", "at least one message"),
    (TALK | {"prompt": []}, "empty_messages", "prompt", "at least one message"),
    (TALK | {"prompt": ["Hi"]}, "bad_message", "prompt[0]", "an object with 'role'"),
    (TALK | {"chosen": [None, assistant("Hello.")]}, "bad_message", "chosen[0]", "found null"),
    (TALK | {"prompt": [{"by": "human", "value": "Hi"}]}, "bad_message", "prompt[0]",
     "found the keys 'by', 'value' without a text 'role'"),
    (TALK | {"prompt": [{"role": "user", "content": [{"text": "Hi"}]}]}, "bad_message",
     "prompt[0].content[0]", '"type": "text"'),
    (TALK | {"chosen": [{"role": "narrator", "content": "Hello."}]}, "unknown_role",
     "chosen[0].role", "found 'narrator', expected one of assistant, developer, system, tool"),
    (TALK | {"prompt": [{"role": "user", "content": None}]}, "null_content", "prompt[0].content",
     '"content": ""'),
    (TALK | {"prompt": [{"role": "user", "content": [IMAGE]}]}, "unknown_part",
     "prompt[0].content[0]", "found a part of type 'image_url'"),
    (TALK | {"chosen": [assistant([{"type": "thinking", "thinking": "Hm."}])]}, "unknown_part",
     "chosen[0].content[0]", "write its text as the message's reasoning_content"),
    *((TALK | {"chosen": [assistant("Hello.") | {key: value}]}, "wrong_type", f"chosen[0].{key}",
       f"found {told}, expected text; write it so, or leave")
      for key, value, told in (("reasoning_content", ["Hm."], "a list of 1: ['Hm.']"),
                               ("thinking", False, "the boolean False"),
                               ("name", {"first": "Ann"}, "an object: {'first': 'Ann'}"))),
    (TEXT | {"images": ["x.png"]}, "image_part", "images", "leave such rows out"),
    (TALK | {"chosen": [CALL | {"tool_calls": [{"function": {}}]}]}, "bad_tool_call",
     "chosen[0].tool_calls[0]", '"arguments"'),
    (TALK | {"chosen": [CALL | {"tool_calls": [{"id": {}, "function": {"name": "add"}}]}]},
     "bad_tool_call", "chosen[0].tool_calls[0].id", "expected the id of a call, as text"),
    (TALK | {"chosen": [assistant("a") | {"tool_call_id": ["a"]}]}, "bad_tool_call",
     "chosen[0].tool_call_id", "found a list of 1"),
    (TALK | {"chosen": [CALL | {"tool_calls": {"name": "add"}}]}, "bad_tool_call",
     "chosen[0].tool_calls[0]", "expected a list"),
    (TALK | {"chosen": [CALL | {"tool_calls": [{"name": "a", "arguments": "{"}]}]},
     "bad_tool_call", "chosen[0].tool_calls[0].arguments", "expected a JSON object"),
    (TALK | {"prompt": [user("1+1?"), assistant("") | {"function_call": {"name": "add"}},
                        {"role": "function", "name": "add", "content": "2"}]},
     "bad_tool_call", "prompt[1].function_call", "expected the call in tool_calls"),
    (TALK | {"chosen": [assistant("Hello."), user("Bye")]}, "no_final_assistant", "chosen[1]",
     "found a last turn of role 'user'"),
    ({"chosen": [assistant("Hello.")], "rejected": [assistant("No.")]}, "no_prompt", "chosen",
     "give them in 'prompt'"),
    (TALK | {"chosen": [user("Ho"), assistant("Hello.")], "rejected": [user("Ho"), assistant("x")]},
     "prompt_not_prefix", "chosen[0]", "found the text 'Ho' at turn 1 where the prompt has"),
    ({"prompt": "Ho", "chosen": [user("Hi"), assistant("Hello.")],
      "rejected": [user("Hi"), assistant("No.")]}, "prompt_not_prefix", "prompt",
     "found the text 'Ho' as prompt but the text 'Hi'"),
    (TALK | {"chosen": [user("Hi"), assistant("Hello.")]}, "prompt_duplicated", "chosen",
     "on both sides, or on neither"),
    *((TALK | {"prompt": [user("Hi"), assistant(f" {answer}\n")]}, "prompt_duplicated",
       "prompt[1]", f"the answer that {side} begins with")
      for side, answer in (("chosen", "Hello."), ("rejected", "No."))),
    ({"chosen": [user("Hi"), assistant("Hello.")], "rejected": [user("Ho"), assistant("No.")]},
     "prompts_differ", "chosen[0]", "part at turn 1"),
    ({"prompt": [{"role": "system", "content": "S"}], "chosen": [user("a"), assistant("b")],
      "rejected": [user("c"), assistant("d")]}, "prompts_differ", "chosen[0]", "same prompt"),
    *((TEXT | {"margin": margin}, "bad_margin", "margin", hint) for margin, hint in (
        (-1, "expected 0 or more"), ("-0.5", "swap chosen and rejected"), ("1,5", "decimal commas"),
        ("nan", "finite"), ("1e999", "finite"), ("1_000", "finite"), (True, "the boolean True"),
        ([1], "a list of 1"))),
    (TEXT | {"tools": "[{"}, "bad_tools", "tools", "which is no JSON"),
    (TEXT | {"tools": f'[{{"name": "add", "parameters": {DEEP}}}]'}, "bad_tools", "tools",
     "more than 64 levels"),
    (TEXT | {"chat_template_kwargs": DEEP}, "bad_chat_template_kwargs", "chat_template_kwargs",
     "more than 64 levels"),
    (TEXT | {"tools": {"name": "add"}}, "bad_tools", "tools[0]", "a list of function schemas"),
    (TEXT | {"tools": [{"type": "function"}]}, "bad_tools", "tools[0]", "function schemas"),
    (TEXT | {"chat_template_kwargs": [1]}, "bad_chat_template_kwargs", "chat_template_kwargs",
     '{"name": value}'),
    *((TALK | {"chat_template_kwargs": {"enable_thinking": False, name: value}},
       "bad_chat_template_kwargs", f"chat_template_kwargs.{name}", "for whoever renders to say")
      for name, value in (("tools", []), ("messages", []), ("continue_final_message", True),
                          ("add_generation_prompt", True), ("chat_template", "{{ 1 }}"))),
    ('{"prompt": "Hi", ', "bad_json", "raw", "which is no JSON"),
    ("[1, 2]", "not_object", "raw", "found a list of 2"),
]  # fmt: skip

HELLO = "\n\nHuman: Hi\n\nAssistant: Hello."
HH = [
    ({"chosen": "\n\nHuman: Hi\n\nAssistant: ", "rejected": HELLO}, "empty_response", "chosen",
     "drop the row"),
    ({"chosen": HELLO, "rejected": "\n\nHuman: Hi\n\nAssistant:"}, "empty_response", "rejected",
     "drop the row"),
    ({"chosen": HELLO, "rejected": "\n\nHuman: Ho\n\nAssistant: No."}, "prompts_differ", "rejected",
     "part at turn 1: the text 'Hi' in chosen, the text 'Ho' in rejected"),
    ({"chosen": HELLO, "rejected": "\n\nHuman: Hi\n\nAssistant: a\n\nHuman: b\n\nAssistant: c"},
     "prompts_differ", "rejected", "prompts of 1 and 3 turns that part at turn 2: no such turn"),
    ({"chosen": HELLO, "rejected": "Once upon a time"}, "bad_transcript", "rejected",
     "expected it to begin with"),
    ({"chosen": HELLO, "rejected": HELLO + "\n\nHuman: b"}, "no_final_assistant", "rejected",
     "expected an Assistant's"),
    ({"chosen": HELLO.replace("\n", "\r\n"), "rejected": HELLO}, "no_final_assistant", "chosen",
     "write its line ends as LF, not CR LF"),
    ({"chosen": "\n\nAssistant: a", "rejected": "\n\nAssistant: b"}, "no_prompt", "chosen",
     "a Human's before it"),
    ({"chosen": HELLO, "rejected": HELLO}, "identical", "rejected", "two answers"),
    ({"chosen": HELLO, "rejected": None}, "null", "rejected", "fill it"),
    ({"chosen": HELLO, "rejected": [assistant("a")]}, "wrong_type", "rejected", "layout trl"),
]  # fmt: skip

MAPPING = {name: name for name in ("score_chosen", "score_rejected", "weight", "system")}
FLAT = TEXT | {"score_chosen": 2, "score_rejected": 1, "weight": 1, "system": None}
COLUMNS = [
    (FLAT | {"score_chosen": 1}, "tie", "score_chosen", "prefers neither"),
    (FLAT | {"score_chosen": 0}, "score_contradicts_label", "score_chosen", "columns are swapped"),
    (FLAT | {"score_rejected": "N/A"}, "bad_score", "score_rejected", "found the text 'N/A'"),
    (FLAT | {"score_rejected": ""}, "bad_score", "score_rejected", "a number on both sides"),
    (FLAT | {"weight": 0}, "bad_weight", "weight", "above 0"),
    (FLAT | {"system": 3}, "wrong_type", "system", "text or null"),
    ({k: v for k, v in FLAT.items() if k != "weight"}, "missing_column", "weight", "found the"),
]


@pytest.mark.parametrize(
    ("layout", "columns", "good", "bad"),
    [
        ("trl", None, TEXT, TRL),
        ("hh_rlhf", None, {"chosen": HELLO, "rejected": HELLO + "!"}, HH),
        (None, MAPPING, FLAT, COLUMNS),
    ],
    ids=["trl", "hh_rlhf", "columns"],
)
@pytest.mark.catalogue(32, 43, 51, 52, 53, 54, 55, 56, 61, 62, 63, 64, 65, 66, 69, 70, 71, 84, 85)
def test_bad_rows_are_quarantined_with_origin_reason_and_hint(
    convert, pairs_of, quarantine_of, layout, columns, good, bad
):
    rows = [good, *(row for row, *_ in bad)]
    artifact = convert(rows, layout=layout, columns=columns, shard_rows=7)
    assert [pair["row"] for pair in pairs_of(artifact)] == [1]
    kept = quarantine_of(artifact)
    assert len(kept) == len(bad)
    for number, (entry, (row, reason, field, hint)) in enumerate(zip(kept, bad, strict=True), 2):
        assert (entry["stage"], entry["source"]) == ("conversion", "votes")
        assert (entry["file"], entry["row"]) == ("votes.jsonl", number)
        assert (entry["reason"], entry["field"]) == (reason, field)
        assert hint in entry["message"]
        assert entry["message"].isprintable()
        assert entry["raw"] == (
            row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
        )
    account = artifact.report["ledger"]["votes"]
    assert (account["rows_in"], account["rows_out"]) == (len(rows), 1)
    assert sum(account["dropped"].values()) == len(bad)


def test_numbers_that_are_read_exactly_are_no_fault(convert, pairs_of):
    kept = [2**64 - 1, -(2**63), 1e21, "1" * 30]
    pairs = pairs_of(convert([calling(value) for value in kept]))
    calls = [pair["chosen"][0]["tool_calls"][0]["function"] for pair in pairs]
    found = [call["arguments"]["of"][0]["wei"] for call in calls]
    assert sorted(map(str, found)) == sorted(map(str, kept))


def test_too_many_bad_rows_fail_with_the_three_most_frequent_reasons(convert):
    rows = [TEXT | {"prompt": str(i)} for i in range(90)]
    rows += [TEXT | {"chosen": None}] * 4 + [TEXT | {"chosen": ""}] * 3
    rows += [TEXT | {"margin": -1}] * 2 + [TEXT | {"chosen": "No."}]
    with pytest.raises(DataError) as caught:
        convert(rows, max_bad_fraction=0.09, shard_rows=30)
    message = str(caught.value)
    assert "source 'votes': 10 of 100 rows (10.00%) cannot be used" in message
    assert "more than conversion.max_bad_fraction 9.00%" in message
    assert "null (4x), first votes.jsonl row 91, chosen: found null" in message
    assert "empty_response (3x), first votes.jsonl row 95" in message
    assert "bad_margin (2x), first votes.jsonl row 98" in message
    assert "identical" not in message
    assert convert(rows, max_bad_fraction=0.1).report["pairs"] == 90


def test_every_source_over_the_limit_is_named():
    accounts = {
        name: {"rows_in": 100, "added": 0, "rows_out": 100 - bad, "dropped": {"null": bad}}
        for name, bad in {"a": 1, "b": 5, "c": 0, "d": 3}.items()
    }
    first = {"file": "b.csv", "row": 3, "field": "chosen", "message": "found null"}
    says = r"'b': 5 of 100 rows \(5.00%\).* than max 2.00%. Also more: source 'd' \(3.00%\). "
    with pytest.raises(DataError, match=says):
        check_bad_fraction(Ledger.from_json(accounts), 0.02, "max", {"b": {"null": first}}, "mend")


@pytest.fixture
def read_and_convert(tmp_path):
    """Runs ingestion and conversion on the lines of a file."""

    def run(lines, most, **source):
        (tmp_path / "votes.jsonl").write_text("\n".join(lines))
        given = Source(name="votes", path=str(tmp_path / "votes.jsonl"), layout="trl", **source)
        store = Store(tmp_path / "data")
        rows = store.obtain(ingestion_step(IngestionParams(sources=(given,))))
        params = ConversionParams(eval_fraction=0.0, max_bad_fraction=most)
        return store.obtain(step(params, (given,), rows)), rows.path

    return run


GOOD = [json.dumps(TEXT | {"prompt": str(i)}) for i in range(200)]
EMPTY = json.dumps(TEXT | {"chosen": ""})


def test_rows_that_ingestion_could_not_read_are_bad_rows(read_and_convert):
    lines = [*GOOD[:90], *["{bad"] * 6, "", "[]", *[EMPTY] * 3, *[""] * 900]
    with pytest.raises(DataError) as caught:
        read_and_convert(lines, 0.09)
    message = str(caught.value)
    assert "7 of 100 rows could not be read by ingestion, and of the others 3 of 93 rows" in message
    assert "cannot be used: 10.00%, more than conversion.max_bad_fraction 9.00%." in message
    assert "In ingestion: bad_json (6x), first" in message
    assert "votes.jsonl row 91: " in message
    assert "not_object (1x), first" in message
    assert "empty_response (3x), first" in message
    artifact, rows = read_and_convert(lines, 0.1)
    assert artifact.report["pairs"] == 90
    assert f"All of these are in {rows / 'quarantine.parquet'}." in message


def test_rows_that_a_source_leaves_out_make_its_bad_ones_no_larger_share(read_and_convert):
    lines = [*GOOD, "{bad", "{bad"]
    assert read_and_convert(lines, 0.01, cap=5)[0].report["pairs"] == 5
    assert read_and_convert(lines, 0.01, weight=0.1)[0].report["pairs"] < 60
    assert read_and_convert(lines, 0.0, limit=200)[0].report["pairs"] == 200
    with pytest.raises(DataError, match=r"2 of 202 rows could not be read .* 0 of 5 rows .* 0.99%"):
        read_and_convert(lines, 0.009, cap=5)
    with pytest.raises(DataError, match=r"1 of 1 rows \(100\.00%\) cannot be used"):
        read_and_convert([EMPTY] * 100, 0.1, cap=1)


def test_a_number_that_is_none_is_the_fault_of_a_row_only_where_it_is_read(tmp_path, quarantine_of):
    nan, infinity = float("nan"), float("inf")
    said = {"prompt": ["1", "2", "3"], "chosen": ["a"] * 3, "rejected": ["b"] * 3}
    seen = {"margin": [1.0, 2.0, infinity], "loss": [nan, 0.5, nan]}
    pq.write_table(pa.table(said | seen), tmp_path / "votes.parquet")
    source = Source(name="votes", path=str(tmp_path / "votes.parquet"), layout="trl")
    store = Store(tmp_path / "data")
    rows = store.obtain(ingestion_step(IngestionParams(sources=(source,))))
    params = ConversionParams(eval_fraction=0.0, max_bad_fraction=1.0)
    artifact = store.obtain(step(params, (source,), rows))
    assert artifact.report["pairs"] == 2
    (entry,) = quarantine_of(artifact)
    assert (entry["row"], entry["reason"], entry["field"]) == (3, "bad_margin", "margin")
    assert "found the number Infinity, expected a finite number" in entry["message"]


def test_ties_and_duplicates_are_not_bad(convert, quarantine_of):
    rows = [FLAT, FLAT, FLAT | {"score_chosen": 1}]
    artifact = convert(rows, columns=MAPPING, max_bad_fraction=0.0)
    assert artifact.report["ledger"]["votes"]["dropped"] == {"duplicate": 1, "tie": 1}
    assert artifact.report["ties"] == 1
    assert [entry["reason"] for entry in quarantine_of(artifact)] == ["tie"]


def test_where_no_row_is_at_fault_and_no_pair_is_left_the_reason_is_told_all_the_same(convert):
    labels = [{"prompt": f"Q{n}", "completion": "A", "label": n < 2} for n in range(20)]
    says = (
        r"dropped: {'unpaired_alone': 20}\. unpaired_alone \(20x\), first votes\.jsonl row 1, "
        r"completion: found no more than one row to this prompt, .*; add rows of the same "
        r"prompt\. Add"
    )
    for shard_rows in (20, 7):
        with pytest.raises(DataError, match=says):
            convert(labels, shard_rows=shard_rows)
    same = {"prompt": "Hi", "chosen": "a", "rejected": "b"}
    with pytest.raises(DataError, match=r"{'contradiction': 2}\. contradiction: .*: correct"):
        convert([same, same | {"chosen": "b", "rejected": "a"}])


def test_no_pair_left_fails_with_an_example(convert):
    with pytest.raises(DataError, match=r"no pair is left of 2 rows.*votes\.jsonl row 1, chosen"):
        convert([TEXT | {"chosen": ""}] * 2)


def test_an_empty_split_fails_with_what_to_do(convert):
    with pytest.raises(DataError, match=r"the eval split is empty: 1 prompt groups.*\(0 holds"):
        convert([TEXT], eval_fraction=0.001)
    with pytest.raises(DataError, match="the train split is empty"):
        convert([TEXT], eval_fraction=0.9999999)


def test_messages_of_errors_hold_no_control_characters(convert, quarantine_of):
    rows = [TEXT, TEXT | {"chosen": 1, "x\x1b[2J": 2}, {"\x1b]0;x\x07": 1}]
    for entry in quarantine_of(convert(rows, layout="trl")):
        assert "\x1b" not in entry["message"]
