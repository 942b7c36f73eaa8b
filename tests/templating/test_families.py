"""Families of chat templates: the stages' ids are those of the whole conversation, with one BOS."""

import json

import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer

from tasks.artifact import Artifact
from tasks.errors import TemplateError
from tasks.model import BaseModel
from tasks.model.directory import tokenizer_digest
from tasks.registration.loader.row_text import RowTexts
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.templating.template import merged_template
from tasks.training.batches.reading import RowReader
from tests.templating.families import FAMILIES, NEEDS_DATE, build_family, load_tokenizer
from tests.templating.stage_runs import DAY, quarantined, run

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What color is the sky?"}
AGAIN = {"role": "user", "content": "And so? naïve 🦩"}


def says(text):
    return {"role": "assistant", "content": text}


CONVERSATIONS = [
    {"prompt": [USER], "chosen": [says("It is blue.")], "rejected": [says("It is green.")]},
    {"chosen": [USER, says("It is blue.")], "rejected": [USER, says("It is green.")]},
    {
        "prompt": [SYSTEM, USER, says("<think>\nhm\n</think>\n\nblue"), AGAIN],
        "chosen": [says("<think>\nyes\n</think>\n\nblue ")],
        "rejected": [says("green")],
    },
    {
        "chosen": [USER, says("blue"), AGAIN, says("yes")],
        "rejected": [USER, says("blue"), AGAIN, says("no")],
    },
    {"prompt": "What color?", "chosen": [says("blue")], "rejected": [says("green")]},
]
TEXTS = [
    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
    {"chosen": "What color? It is blue.", "rejected": "What color? It is green."},
]


def whole(row, side):
    """The row's side as one conversation, just as it was written."""
    prompt = row.get("prompt", [])
    prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return [*prompt, *row[side]]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.catalogue(102)
def test_ids_of_every_shape_equal_the_tokenizers_own_and_hold_one_bos(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    family = FAMILIES[name]
    rendered, rows = run([*CONVERSATIONS, *TEXTS], model, tmp_path, date=DAY)
    assert quarantined(rendered) == {}
    assert len(rows) == len(CONVERSATIONS) + len(TEXTS)
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    tokenizer.chat_template = (rendered.path / "chat_template.jinja").read_text("utf-8")
    for given, row in zip([*CONVERSATIONS, *TEXTS], rows, strict=True):
        for side in ("chosen", "rejected"):
            if given in TEXTS:
                text = given.get("prompt", "") + given[side] + family.eos
                expected = tokenizer(text)["input_ids"]
            else:
                expected = tokenizer.apply_chat_template(whole(given, side), return_dict=False)
            ids = row[f"{side}_input_ids"]
            assert ids == expected
            if family.adds_bos:
                assert ids[0] == tokenizer.bos_token_id
                assert ids.count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("name", ["llama3", "granite", "harmony"])
def test_a_date_is_asked_for_pinned_and_in_the_key(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    with pytest.raises(TemplateError, match=r"strftime_now.*set templating\.date"):
        load_tokenizer(model.path, TemplatingParams())
    held = Artifact("conversion", "0" * 16, tmp_path, "d" * 64, {"report": {"notes": {}}})
    keys = {
        templating.step(TemplatingParams(date=day), held, model, held).key
        for day in (DAY, DAY.replace(day=3))
    }
    assert len(keys) == 2
    rendered, _ = run(CONVERSATIONS[:1], model, tmp_path, date=DAY)
    template = (rendered.path / "chat_template.jinja").read_text("utf-8")
    assert "2026" in template
    assert "strftime_now(" not in template
    assert name in NEEDS_DATE


def test_a_template_without_the_bos_of_its_tokenizer_gets_it_and_one_with_two_is_refused(tmp_path):
    model = build_family("zephyr", tmp_path / "model")
    tokenizer = load_tokenizer(model.path, TemplatingParams())
    assert tokenizer.chat_template.startswith("{{- bos_token }}")
    twice = tmp_path / "twice.jinja"
    twice.write_text("{{ bos_token + bos_token }}{{ messages[0].content }}")
    with pytest.raises(TemplateError, match="writes <s> twice"):
        load_tokenizer(model.path, TemplatingParams(chat_template_path=str(twice)))
    sometimes = tmp_path / "sometimes.jinja"
    sometimes.write_text(
        "{{ bos_token if messages | length < 3 }}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    rendered, rows = run(
        [CONVERSATIONS[0], CONVERSATIONS[3]],
        model,
        tmp_path,
        chat_template_path=str(sometimes),
    )
    assert len(rows) == 1
    assert "writes no <s> here" in quarantined(rendered)[2][1]


def test_an_eos_that_is_the_bos_as_well_is_no_beginning(tmp_path):
    """As of OPT, whose </s> is both."""
    model = build_family("granite", tmp_path / "model")
    backend = Tokenizer.from_file(str(model.path / "tokenizer.json"))
    both = backend.token_to_id("<|end_of_text|>")
    backend.post_processor = processors.TemplateProcessing(
        single="<|end_of_text|> $A", special_tokens=[("<|end_of_text|>", both)]
    )
    backend.save(str(model.path / "tokenizer.json"))
    template = tmp_path / "ended.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
    rows = [CONVERSATIONS[0], TEXTS[0]]
    _, tokenized = run(rows, model, tmp_path, chat_template_path=str(template))
    places = [[n for n, i in enumerate(row["chosen_input_ids"]) if i == both] for row in tokenized]
    assert [(place[0], len(place)) for place in places] == [(0, 3), (0, 2)]


def test_a_row_that_begins_with_a_bos_of_its_own_is_told_so_where_tokens_are_kept(tmp_path):
    model = build_family("llama2", tmp_path / "model")
    template = tmp_path / "plain.jinja"
    template.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
    row = CONVERSATIONS[0]
    own = {**row, "prompt": [{"role": "user", "content": "<s>What?"}]}
    rendered, rows = run(
        [row, own],
        model,
        tmp_path,
        chat_template_path=str(template),
        special_tokens_in_text="keep",
    )
    assert len(rows) == 1
    assert "the text begins with '<s>'" in quarantined(rendered)[2][1]


def test_a_bos_in_the_words_of_a_row_is_none_of_the_templates_where_it_is_ordinary_text(tmp_path):
    model = build_family("llama2", tmp_path / "model")
    template = tmp_path / "sometimes.jinja"
    template.write_text(
        "{{ bos_token if messages | length < 3 }}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    own = {"role": "user", "content": "<s> is"}
    answers = {"chosen": [says(" a BOS.")], "rejected": [says(" no BOS.")]}
    rendered, rows = run(
        [{"prompt": [own], **answers}, {"prompt": [USER, says("Blue."), own], **answers}],
        model,
        tmp_path,
        special_tokens_in_text="encode",
        chat_template_path=str(template),
    )
    assert [*quarantined(rendered)] == [2]
    assert "writes no <s> here" in quarantined(rendered)[2][1]
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    ids = rows[0]["chosen_input_ids"]
    assert [place for place, i in enumerate(ids) if i == tokenizer.bos_token_id] == [0]
    assert tokenizer.decode(ids[1:]) == "<s> is a BOS."


def test_text_that_has_the_tokens_around_it_already_has_them_once_when_they_are_kept(tmp_path):
    model = build_family("llama2", tmp_path / "model")
    row = {"prompt": "<s>The sky is", "chosen": " blue.</s>", "rejected": " green."}
    _, rows = run([row], model, tmp_path, special_tokens_in_text="keep")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    assert rows[0]["chosen_input_ids"] == tokenizer("The sky is blue.</s>")["input_ids"]
    closes = closing("llama with add_eos_token", tmp_path / "closing")
    _, rows = run([row], closes, tmp_path / "closed", special_tokens_in_text="keep")
    tokenizer = AutoTokenizer.from_pretrained(closes.path)
    assert rows[0]["chosen_input_ids"] == tokenizer("The sky is blue.")["input_ids"]


def closing(kind, directory):
    """A tokenizer that puts a token after every text, and what its EOS is."""
    from tokenizers import Tokenizer, processors
    from transformers import BertTokenizer, DebertaV2Tokenizer, RobertaTokenizer

    letters = [chr(c) for c in range(33, 127)]
    if kind == "bert":
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sky"]
        words += letters + [f"##{letter}" for letter in letters]
        BertTokenizer(vocab={w: n for n, w in enumerate(words)}).save_pretrained(directory)
    elif kind == "roberta":
        pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters, "Ġ"]
        tokenizer = RobertaTokenizer(vocab={w: n for n, w in enumerate(pieces)}, merges=[])
        tokenizer.save_pretrained(directory)
    elif kind == "deberta-v2":
        pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *letters, "▁", "[MASK]"]
        DebertaV2Tokenizer(vocab=[(w, -1.0) for w in pieces]).save_pretrained(directory)
    else:
        build_family("llama2", directory)
        path = str(directory / "tokenizer.json")
        tokenizer = Tokenizer.from_file(path)
        ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=ends
        )
        tokenizer.save(path)
    return BaseModel(directory, tokenizer_digest(directory), "0" * 64, {})


@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta-v2", "llama with add_eos_token"])
@pytest.mark.parametrize("policy", ["quarantine", "encode", "keep"])
def test_text_of_a_tokenizer_that_closes_it_gets_its_own_tokens_once(kind, policy, tmp_path):
    model = closing(kind, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    end = tokenizer.eos_token or "[SEP]"
    own = {"prompt": f"Say {end} now.", "chosen": " Yes.", "rejected": " No."}
    template = tmp_path / "chat.jinja"
    template.write_text('{% for m in messages %}{{ m.content + "' + end + '" }}{% endfor %}')
    rendered, [conversation, *rows] = run(
        [CONVERSATIONS[0], *TEXTS, own],
        model,
        tmp_path,
        special_tokens_in_text=policy,
        chat_template_path=str(template),
    )
    assert len(quarantined(rendered)) == (policy == "quarantine")
    whole = f"{tokenizer.bos_token or '[CLS]'}What color is the sky?{end}It is blue.{end}"
    expected = tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert conversation["chosen_input_ids"] == expected
    reader, loader = RowReader(tokenizer, policy), RowTexts(tokenizer, policy)
    for given, row in zip([*TEXTS, own], rows, strict=policy != "quarantine"):
        for side in ("chosen", "rejected"):
            text, ids = given.get("prompt", "") + given[side], row[f"{side}_input_ids"]
            closer = ids[-1]
            assert ids[:1] + ids[-1:] == tokenizer("")["input_ids"]
            assert ids.count(closer) == 1 + (given is own and policy == "keep")
            if given is not own or policy == "keep":
                assert ids == tokenizer(text)["input_ids"]
            assert ids == loader.ids(text, {})
        canonical = {n: json.dumps(given.get(n, "")) for n in ("prompt", "chosen", "rejected")}
        sides = reader.sides({"format": "standard", **canonical})
        read = [ids.tolist() for ids in reader.ids(sides, standard=True)]
        assert read == [row["chosen_input_ids"], row["rejected_input_ids"]]


def test_rows_that_a_template_refuses_or_makes_equal_are_reported_with_the_reason(tmp_path):
    model = build_family("gemma", tmp_path / "model")
    two = {"prompt": [USER, AGAIN], "chosen": [says("blue")], "rejected": [says("green")]}
    rendered, rows = run([two, CONVERSATIONS[0]], model, tmp_path)
    reason, message = quarantined(rendered)[1]
    assert (reason, len(rows)) == ("roles_do_not_alternate", 1)
    assert "turns must alternate" in message
    model = build_family("deepseek", tmp_path / "deepseek")
    path = tmp_path / "short.jinja"
    path.write_text(
        "{{ bos_token }}{% for m in messages %}{{ m.content.split('</think>')[-1][:30] }}"
        "{% endfor %}"
    )
    thought = [says(f"<think>{word}</think>blue") for word in ("a", "b")]
    equal = {"prompt": [USER], "chosen": thought[:1], "rejected": thought[1:]}
    rendered, _ = run(
        [equal, CONVERSATIONS[0]], model, tmp_path / "second", chat_template_path=str(path)
    )
    assert quarantined(rendered)[1][0] == "identical_rendered"


def test_named_templates_become_one_that_chooses_as_transformers_does(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    named = {"default": "plain {{ messages[0].content }}", "tool_use": "tools {{ tools[0].name }}"}
    for tools in (None, [{"name": "look"}]):
        tokenizer.chat_template = named
        expected = tokenizer.apply_chat_template([USER], tools=tools, tokenize=False)
        tokenizer.chat_template = merged_template(named)
        assert tokenizer.apply_chat_template([USER], tools=tools, tokenize=False) == expected
    with pytest.raises(TemplateError, match="no 'default'"):
        merged_template({"rag": "x"})
