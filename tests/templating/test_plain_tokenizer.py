"""A tokenizer that is read from its files alone is the one that transformers loads."""

import json

import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer
from transformers.models.auto import tokenization_auto

from tasks.errors import ModelError, TemplateError
from tasks.model.directory import tokenizer_digest
from tasks.model.tokenizer_class import CHOOSING_TYPES, PLAIN_CLASSES
from tasks.templating.render import render
from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.templating.tokenizer.plain_files import is_plain
from tasks.templating.tokenizer.plain_tokenizer import UNUSED, plain_tokenizer
from tasks.templating.tokenizer.saving import _file_as_saved, save
from tasks.templating.tokenizer.special_tokens import special_tokens
from tasks.templating.tokenizer.tokenizer_file import tokenizer_file
from tests.templating.families import build_family

NEW = {"content": "<new>", "lstrip": False, "rstrip": False, "single_word": False}
NEW |= {"normalized": False, "special": True}


def setting(**fields):
    def change(directory):
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change


def beside(name, content):
    return lambda directory: (directory / name).write_text(json.dumps(content))


def ordinary(directory):
    """An EOS that the tokenizer.json does not call special."""
    path = directory / "tokenizer.json"
    state = json.loads(path.read_text())
    for token in state["added_tokens"]:
        token["special"] = token["content"] != "<|im_end|>"
    path.write_text(json.dumps(state))


def unflagged(directory):
    """One more token, which is ordinary text."""
    path = directory / "tokenizer.json"
    state = json.loads(path.read_text())
    number = max(token["id"] for token in state["added_tokens"]) + 1
    state["added_tokens"].append(NEW | {"id": number, "special": False})
    path.write_text(json.dumps(state))


def around(text, alone=False, **named):
    """A post-processor that puts tokens around a text, or none, and what they are called."""

    def change(directory):
        path = str(directory / "tokenizer.json")
        tokenizer = Tokenizer.from_file(path)
        parts = [processors.ByteLevel(trim_offsets=False)]
        if text:
            ends = [(word, tokenizer.token_to_id(word)) for word in text.split() if word != "$A"]
            parts.append(processors.TemplateProcessing(single=text, special_tokens=ends))
        tokenizer.post_processor = parts[-1] if alone else processors.Sequence(parts)
        tokenizer.save(path)
        setting(**named)(directory)

    return change


def both(*changes):
    def change(directory):
        for one in changes:
            one(directory)

    return change


BEGUN = around("<|im_start|> $A", alone=True, bos_token="<|im_start|>")


def named_template(directory):
    (directory / "additional_chat_templates").mkdir()
    (directory / "additional_chat_templates/tool_use.jinja").write_text("tools {{ tools }}")


CHANGES = {
    "as it is": lambda _: None,
    "no matter": setting(model_max_length=99, padding_side="left", pad_token=None),
    "one that is ordinary text": unflagged,
    "nothing around texts": around(""),
    "a beginning": BEGUN,
    "an encoder's ends": around("<|im_start|> $A <|im_end|>", cls_token="<|im_start|>"),
    "another token": setting(bos_token="<|endoftext|>"),
    "a token told in full": setting(
        eos_token=NEW | {"content": "<|endoftext|>", "__type": "AddedToken"}
    ),
    "a token that the file has not": setting(bos_token="<new>"),
    "a token that is not special": ordinary,
    "more special tokens": setting(extra_special_tokens=["is", "<new>"]),
    "a table of tokens": setting(added_tokens_decoder={"999": NEW}),
    "a class of its own": setting(tokenizer_class="LlamaTokenizerFast", bos_token="<|endoftext|>"),
    "a class of the model's type": beside("config.json", {"model_type": "qwen2"}),
    "a map of special tokens": beside("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
    "added tokens": beside("added_tokens.json", {"<new>": 999}),
    "named templates": named_template,
    "a beginning, and more tokens": both(BEGUN, setting(extra_special_tokens=["is"])),
}
PLAIN = [*CHANGES][: [*CHANGES].index("another token") + 1]
TEXT = "The sky <|im_start|>is<new> blue in 1234, e\u0301.<|im_end|> \n<|endoftext|>"


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_files_alone_say_is_what_transformers_loads(name, tmp_path):
    directory = build_family("chatml", tmp_path / "model").path
    CHANGES[name](directory)
    assert is_plain(directory) == (name in PLAIN)
    ours, theirs = plain_tokenizer(directory), AutoTokenizer.from_pretrained(directory)
    assert ours.chat_template == theirs.chat_template
    assert dict(ours.special_tokens_map) == dict(theirs.special_tokens_map)
    assert special_tokens(ours) == special_tokens(theirs)
    assert own_tokens(ours) == own_tokens(theirs)
    assert ours.is_fast == theirs.is_fast
    for which in ("bos_token", "eos_token", "cls_token"):
        assert getattr(ours, which) == getattr(theirs, which)
        assert getattr(ours, f"{which}_id") == getattr(theirs, f"{which}_id")
    # What tokenization keeps for the model reads texts alike.
    template = tmp_path / "chat_template.jinja"
    template.write_text("{{ messages[0].content }}")
    saved = tmp_path / "saved"
    saved.mkdir()
    begun = _file_as_saved(directory)  # whose encoder is built while rows are rendered
    save(directory, template, saved)
    assert tokenizer_file(saved) is begun
    again = AutoTokenizer.from_pretrained(saved)
    assert again(TEXT)["input_ids"] == theirs(TEXT)["input_ids"]
    assert tokenizer_file(saved).backend.encode(TEXT).ids == theirs(TEXT)["input_ids"]
    assert dict(again.special_tokens_map) == dict(theirs.special_tokens_map)
    assert again.chat_template == template.read_text()


def test_no_model_type_by_which_transformers_chooses_the_class_is_read_from_the_files(tmp_path):
    directory = build_family("chatml", tmp_path / "model").path
    known = tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    digests = {tokenizer_digest(directory)}
    for kind in (*sorted(known | CHOOSING_TYPES), "llama", "qwen3", ["no name"]):
        (directory / "config.json").write_text(json.dumps({"model_type": kind}))
        digests.add(tokenizer_digest(directory))
        assert is_plain(directory) == (kind not in [*CHOOSING_TYPES])
        if is_plain(directory) and isinstance(kind, str):
            assert type(AutoTokenizer.from_pretrained(directory)).__name__ in PLAIN_CLASSES, kind
    # Rows are tokenized anew where the same files are another tokenizer.
    assert len(digests) == 1 + len(CHOOSING_TYPES)


def test_what_says_nothing_about_the_text_is_no_variable_of_the_template(tmp_path):
    directory = build_family("chatml", tmp_path / "model").path
    settings = dict.fromkeys([*UNUSED, "own"], True) | {"max_length": 9, "tokenizer_kwargs": {}}
    settings["return_tensors"] = "np"
    (directory / "chat_template.jinja").write_text(f"{{{{ [{', '.join(settings)}] }}}}")
    ours, theirs = plain_tokenizer(directory), AutoTokenizer.from_pretrained(directory)
    said = [{"role": "user", "content": "a"}]
    assert render(said, ours, **settings) == render(said, theirs, **settings)
    assert "True" in render(said, ours, **settings)
    for tokenizer in (ours, theirs):
        with pytest.raises(TemplateError, match=r"(expected|either be) a JSON schema"):
            render(said, tokenizer, ["no object"])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("tokenizer.json", "{", "JSONDecodeError"),
        ("tokenizer_config.json", '{"eos_token": {"content": "a"}}', "eos_token has to be"),
        ("tokenizer_config.json", "[]", "(Attribute|Type)Error"),
        ("tokenizer.model", "none", "is required to read a"),  # SentencePiece's, not installed here
    ],
)
def test_a_tokenizer_that_cannot_be_loaded_is_named_with_its_directory(
    name, content, told, tmp_path
):
    directory = build_family("chatml", tmp_path / "model").path
    (directory / name).write_text(content)
    if name == "tokenizer.model":
        (directory / "tokenizer.json").unlink()
    with pytest.raises(
        ModelError, match=rf"the tokenizer in {directory} cannot be loaded .*{told}"
    ):
        plain_tokenizer(directory)


def test_the_template_beside_a_tokenizer_is_read_like_one_of_a_path(tmp_path):
    directory = build_family("chatml", tmp_path / "model").path
    path = directory / "chat_template.jinja"
    path.write_text("{{ messages }}", "utf-8-sig")
    assert plain_tokenizer(directory).chat_template == "{{ messages }}"
    path.write_text("{{ 'é' }}", "latin-1")
    with pytest.raises(
        TemplateError, match=r"model/chat_template\.jinja is not UTF-8: .*; save it"
    ):
        plain_tokenizer(directory)


def test_no_code_out_of_a_tokenizers_directory_is_run_even_if_somebody_says_yes(
    tmp_path, monkeypatch
):
    directory = build_family("chatml", tmp_path / "model").path
    ran = tmp_path / "ran"
    (directory / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass Own: pass\n")
    setting(tokenizer_class="Own", auto_map={"AutoTokenizer": ["own.Own", None]})(directory)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ModelError, match=r"the tokenizer in .* cannot be loaded .*custom code"):
        plain_tokenizer(directory)
    assert not ran.exists()
