"""What is read of a tokenizer.json without its vocabulary is what the whole file says."""

import json

import orjson
import pytest

from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, tokenizer_file
from tests.templating.families import FAMILIES, build_family

PARTS = ("normalizer", "pre_tokenizer", "post_processor")


def said(content: bytes):
    file = TokenizerFile(content)
    return file.added, file.parts, file.dropout


def expected(content: bytes):
    state = orjson.loads(content)
    return state["added_tokens"], {n: state[n] for n in PARTS}, bool(state["model"].get("dropout"))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_says_the_same_in_every_layout(name, tmp_path):
    path = build_family(name, tmp_path / "model").path / "tokenizer.json"
    state = json.loads(path.read_text())
    dropping = state | {"model": state["model"] | {"dropout": 0.1}}
    last = {**{key: item for key, item in state.items() if key != "added_tokens"},
            "added_tokens": state["added_tokens"]}  # fmt: skip
    for given in (state, dropping, last):
        for indent in (None, 1, 2, "\t"):
            content = json.dumps(given, indent=indent).encode()
            assert said(content) == expected(content)
    assert said(path.read_bytes()) == expected(path.read_bytes())


def test_a_model_within_another_value_is_not_taken_for_the_files_own():
    inner = b'{\n  "model": {\n    "dropout": 0.5,\n    "vocab": 1\n  }\n}'
    content = (
        b'{\n  "added_tokens": [],\n  "normalizer": ' + inner + b',\n  "pre_tokenizer": null,\n'
        b'  "post_processor": null,\n  "model": {\n    "dropout": null,\n    "vocab": {}\n  }\n}'
    )
    assert said(content) == expected(content)
    assert said(content)[1]["normalizer"]["model"]["dropout"] == 0.5


def test_a_file_that_cannot_be_read_is_none_and_copies_are_one_tokenizer(tmp_path):
    assert tokenizer_file(tmp_path) is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert tokenizer_file(tmp_path) is None
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    assert tokenizer_file(tmp_path) is None
    one = build_family("chatml", tmp_path / "one").path
    two = build_family("chatml", tmp_path / "two").path
    (two / "tokenizer.json").write_bytes((one / "tokenizer.json").read_bytes())
    assert tokenizer_file(one) is tokenizer_file(two)
