"""Special tokens in a row's own text: found wherever they arise, and encoded as ordinary text."""

from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tasks.registration.loader.row_text import RowTexts
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tasks.templating.tokenizer.special_tokens import special_tokens
from tasks.templating.tokenizer.stand_ins import StandIns
from tasks.tokenization.literal import literal_encoder
from tests.templating.families import FAMILIES, NEEDS_DATE, build_family
from tests.templating.stage_runs import DAY, quarantined, read_arrow, run


def user(text):
    return {"role": "user", "content": text}


def says(text):
    return {"role": "assistant", "content": text}


GREEN = [says("It is green.")]
SANITIZES = (
    "sanitize_control_tokens" in signature(PreTrainedTokenizerBase.apply_chat_template).parameters
)
"""Whether this transformers does the same to forged turns; 5.17 does not yet."""
JOINED = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}"


def spelled(tokenizer, ids):
    return "".join(tokenizer.decode(ids).split())


def control_count(ids, tokenizer):
    special = special_tokens(tokenizer).tokens
    return sum(name in special for name in tokenizer.convert_ids_to_tokens(ids))


@pytest.mark.parametrize("name", FAMILIES)
def test_forged_turns_get_ordinary_ids_and_the_templates_own_markup_keeps_its_ids(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    forged = "see ".join(("", *FAMILIES[name].tokens, " it"))
    row = {"prompt": [user("What?")], "chosen": [says(f"Go: {forged} blue")], "rejected": GREEN}
    day = DAY if name in NEEDS_DATE else None
    rendered, rows = run([row], model, tmp_path, special_tokens_in_text="encode", date=day)
    assert quarantined(rendered) == {}
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    tokenizer.chat_template = (rendered.path / "chat_template.jinja").read_text("utf-8")
    special = set(special_tokens(tokenizer).tokens)
    chosen, rejected = (rows[0][f"{side}_input_ids"] for side in ("chosen", "rejected"))
    markup = [
        [i for i in ids if tokenizer.convert_ids_to_tokens(i) in special]
        for ids in (chosen, rejected)
    ]
    assert markup[0] == markup[1] != []
    # Nothing is lost: the ids spell the rendered text.
    text = read_arrow(rendered.path / "texts/00000.arrow")["chosen"][0].as_py()
    ordinary = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert spelled(tokenizer, chosen) == spelled(tokenizer, ordinary)
    if SANITIZES and name != "harmony":  # its template throws at the forged text itself
        reference = tokenizer.apply_chat_template(
            [*row["prompt"], *row["chosen"]], sanitize_control_tokens=True, return_dict=False
        )
        assert chosen == reference
    plain = tokenizer(forged, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    inner = [i for i in plain if i not in tokenizer.all_special_ids][2:-2]
    assert any(chosen[n : n + len(inner)] == inner for n in range(len(chosen)))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_row_is_literal_from_end_to_end(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    family, text = FAMILIES[name], f"see {FAMILIES[name].tokens[0]} and {FAMILIES[name].eos}"
    row = {"prompt": "The sky", "chosen": f" {text}", "rejected": " is blue."}
    day = DAY if name in NEEDS_DATE else None
    _, rows = run([row], model, tmp_path, special_tokens_in_text="encode", date=day)
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    expected = tokenizer(f"The sky {text}", split_special_tokens=True)["input_ids"]
    assert rows[0]["chosen_input_ids"] == [*expected, tokenizer.eos_token_id]
    assert rows[0]["rejected_input_ids"] == tokenizer(f"The sky is blue.{family.eos}")["input_ids"]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "a <|im_", "chosen": "end|> blue", "rejected": " green"},
        {"prompt": [user("a <|im_")], "chosen": [says("end|> blue")], "rejected": GREEN},
        {"prompt": [user("<|"), says("im"), user("_end")], "chosen": [says("|>")]}
        | {"rejected": GREEN},
        {"prompt": [user("What?")], "chosen": [says("<|im_end|>")], "rejected": GREEN},
    ],
)
@pytest.mark.catalogue(75)
def test_a_token_is_found_even_where_only_the_joint_of_two_fields_makes_one(row, tmp_path):
    model = build_family("chatml", tmp_path / "model")
    path = tmp_path / "joined.jinja"
    path.write_text(JOINED)
    good = {"prompt": [user("a <")], "chosen": [says("> blue")], "rejected": GREEN}
    template = {"chat_template_path": str(path)}
    rendered, kept = run([row, good], model, tmp_path / "first", **template)
    assert len(kept) == 1
    reason, message = quarantined(rendered)[1]
    assert reason == "special_token_in_text"
    assert "'<|im_end|>'" in message
    _, rows = run(
        [row, good], model, tmp_path / "second", special_tokens_in_text="encode", **template
    )
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    text = isinstance(row["chosen"], str)
    prompt = row["prompt"] if text else "".join(turn["content"] for turn in row["prompt"])
    whole = prompt + (row["chosen"] if text else row["chosen"][0]["content"])
    expected = tokenizer(whole, split_special_tokens=True, add_special_tokens=False)["input_ids"]
    assert rows[0]["chosen_input_ids"] == [*expected, tokenizer.eos_token_id]
    assert rows[1] == {**kept[0]}


@pytest.mark.parametrize("what", ["m.content | length", "m.content[:5]", "m.content | upper"])
def test_a_template_that_looks_into_such_text_leaves_the_row_out(tmp_path, what):
    model = build_family("chatml", tmp_path / "model")
    path = tmp_path / "looks.jinja"
    path.write_text(JOINED.replace("m.content", f"m.content }}}}{{{{ {what}"))
    good = {"prompt": [user("why")], "chosen": [says("blue")], "rejected": GREEN}
    row = {"prompt": [user("a <|im_end|> b")], "chosen": [says("blue")], "rejected": GREEN}
    settings = {"chat_template_path": str(path), "max_bad_fraction": 0.6}
    rendered, rows = run(
        [row, good], model, tmp_path / "run", special_tokens_in_text="encode", **settings
    )
    assert len(rows) == 1
    reason, message = quarantined(rendered)[1]
    assert reason == "special_token_in_text"
    assert "looks into the text" in message


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "<|im_start|>"},
        {"<|im_start|>": "Rome"},
        {"role": "<|im_start|>"},  # no message's role
        {"who": [{"role": {"name": "<|im_start|>"}}]},
    ],
)
def test_tokens_in_tool_calls_and_their_results_count_as_well(tmp_path, arguments):
    model = build_family("qwen3", tmp_path / "model")
    function = {"name": "look", "arguments": arguments}
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
    turns = [user("What?"), call, {"role": "tool", "content": "sunny"}]
    alone = {"prompt": turns, "chosen": [says("blue")], "rejected": GREEN}
    turns = [user("What?"), call, {"role": "tool", "content": "<|im_end|>"}]
    row = {"prompt": turns, "chosen": [says("blue")], "rejected": GREEN}
    plain = {"prompt": [user("What?")], "chosen": [says("blue")], "rejected": GREEN}
    rendered, _ = run([row, alone, plain], model, tmp_path / "first")
    assert [quarantined(rendered)[n][0] for n in (1, 2)] == ["special_token_in_text"] * 2
    _, rows = run([row, alone], model, tmp_path / "second", special_tokens_in_text="encode")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    # user, call, result, answer: four turns, each with its start and its end
    assert [control_count(row["chosen_input_ids"], tokenizer) for row in rows] == [8, 8]


def test_tokens_in_documents_that_a_row_brings_along_count_as_well(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    path = tmp_path / "based.jinja"
    path.write_text("{{ own }}{% for d in documents or [] %}{{ d.text }}{% endfor %}" + JOINED)
    rows = [
        {"prompt": [user("end|> what?")], "chosen": [says("blue")], "rejected": GREEN}
        | {"chat_template_kwargs": {"documents": [{"text": text}], "own": "<|im_end|>"}}
        for text in ("see <|im_end|>", "see <|im_", "see |im_end|>")
    ]
    template = {"chat_template_path": str(path)}
    rendered, kept = run(rows, model, tmp_path / "first", **template)
    reasons = {number: reason for number, (reason, _) in quarantined(rendered).items()}
    assert reasons == dict.fromkeys((1, 2), "special_token_in_text")
    _, encoded = run(rows, model, tmp_path / "second", special_tokens_in_text="encode", **template)
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    ids = [row["chosen_input_ids"] for row in encoded]
    assert [control_count(each, tokenizer) for each in ids] == [2] * 3  # another setting's, and EOS
    assert encoded[2:] == kept
    tokenizer.chat_template = (rendered.path / "chat_template.jinja").read_text("utf-8")
    served = RowTexts(tokenizer, "encode")
    assert [served.ids([*row["prompt"], *row["chosen"]], row) for row in rows] == ids
    with pytest.raises(ValueError, match=r"documents holds the special token '<\|im_end\|>'"):
        RowTexts(tokenizer, "quarantine").ids(rows[0]["prompt"], rows[0])


def test_what_the_encoder_needs_as_names_is_refused_beside_a_forged_token(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    texts = ("<|im_end|> \U000f0001", "\U000f0001 \U00100000")
    rows = [{"prompt": [user("?")], "chosen": [says(t)], "rejected": GREEN} for t in texts]
    rendered, kept = run(rows, model, tmp_path, special_tokens_in_text="encode")
    assert "private-use character" in quarantined(rendered)[1][1]
    assert len(kept) == 1


@pytest.mark.parametrize(
    "text",
    ["<", "a <|im_", "\na <|im_ ", " im_end ", "|> b", " |> b\n", "<|im_end|>", "\U00100000 <"],
)
def test_stand_ins_give_the_text_back_and_say_where_they_stood(text, tmp_path):
    model = build_family("chatml", tmp_path / "model")
    special = special_tokens(AutoTokenizer.from_pretrained(model.path))
    hidden = StandIns(special, [user(text)])
    put = hidden.put([user(text)])
    assert put[0]["role"] == "user"
    assert hidden.resolved(put[0]["content"])[0] == text
    assert len(hidden.resolved(put[0]["content"])[1]) == 2


def test_a_text_whose_ends_are_parts_of_two_tokens_is_given_back_whole(tmp_path):
    tokenizer = plain_tokenizer(build_family("chatml", tmp_path / "model").path)
    special = special_tokens(replace(tokenizer, flagged=("qab", "bcz")))
    hidden = StandIns(special, [user("abc")])
    (put,) = hidden.put([user("abc")])
    assert hidden.resolved(f"q{put['content']}z") == ("qabcz", (1, 3, 3, 4))


def test_a_text_may_hold_more_special_tokens_than_there_are_characters_to_stand_for_them(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    many = "<|im_end|>" * 70_000  # as where a model repeated itself without end
    row = {"prompt": [user("What?")], "chosen": [says(f"{many} so")], "rejected": GREEN}
    rendered, rows = run([row], model, tmp_path, special_tokens_in_text="encode")
    assert quarantined(rendered) == {}
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    ids = rows[0]["chosen_input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 2  # the template's own
    assert tokenizer.decode(ids).endswith(f"assistant\n{many} so<|im_end|>\n")


PIECES = st.lists(st.sampled_from(["<", "|", "a", "b", ">", " "]), max_size=5).map("".join)


def known(tokens):
    return special_tokens(SimpleNamespace(all_special_tokens=tokens, added_tokens_decoder={}))


@settings(max_examples=600)
@given(st.lists(PIECES.map(str.strip).filter(bool), min_size=1, max_size=3), PIECES, PIECES, PIECES)
def test_no_token_is_made_of_a_text_that_is_innocent_whatever_stands_around_it(
    tokens, before, text, after
):
    special = known(tokens)
    if not text.strip() or not special.innocent(text):
        return
    for written in (text, text.strip()):  # templates strip contents
        start, end = len(before), len(before + written)
        spans = special.markup(f"{before}{written}{after}")
        assert not any(a < end and b > start for a, b in spans)


def test_a_text_is_innocent_or_not():
    special = known(["<|end|>", "<|pad|>", " "])  # white space alone is none of them
    assert special.tokens == ("<|end|>", "<|pad|>")
    for text in ("Hi", "3 + 4", "", " ", "end of it", "a|b", "<b> |"):
        assert special.innocent(text), text
    for text in (
        "n",
        "d|",
        "<|",
        "|>",
        " > ",
        "see <|end|>!",
        "<",
        "|",
        "so <",
        "|end|> x",
        "x <|end|",
    ):
        assert not special.innocent(text), text
    many = known([f"{letter}-{letter}" for letter in "abcdefgh"])  # too many ends to look for
    assert [many.innocent(text) for text in ("3 + 4", "x a-a x", "x h", "-b")] == [
        True,
        *[False] * 3,
    ]


def test_without_literals_the_encoder_is_the_tokenizer(tmp_path):
    for name in ("phi", "mistral", "deepseek"):
        model = build_family(name, tmp_path / name)
        tokenizer = AutoTokenizer.from_pretrained(model.path)
        markup = " x \n".join(("a", *FAMILIES[name].tokens, "b c"))
        encode = literal_encoder(tokenizer)
        for special in (True, False):
            ids = encode(markup, (), add_special_tokens=special).tolist()
            assert ids == tokenizer(markup, add_special_tokens=special)["input_ids"]
