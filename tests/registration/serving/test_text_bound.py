"""Texts that are far too long are refused before they are encoded, and none that fits is."""

import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tasks.registration.serving.text_bound import FALLBACKS, TextBound


def byte_level(**changes):
    """A byte-level tokenizer whose longest token is a run of 16 spaces."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<end>"], show_progress=False
    )
    made.train_from_iterator([" " * 64, "the sky is blue", "ΐ ΐ ΐ 각 각 ﬁ"] * 9, trainer)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def whole(made):
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


DENSE = [" " * 640, "\u1fbe\u0308\u0301" * 50, "\u1100\u1161\u11a8" * 50, "\u212a" * 90, "ﬁ" * 40]


@pytest.mark.parametrize("normalizer", [None, normalizers.NFC()])
def test_no_text_has_fewer_tokens_than_it_is_said_to_have(normalizer):
    tokenizer = whole(byte_level(normalizer=normalizer) if normalizer else byte_level())
    bound = TextBound.of(tokenizer)
    assert bound.least("x" * bound.longest * 5) == 5
    draw = random.Random(0)
    signs = [*"ab  \n\t<>", "the sky", "<end>", "\u0301", "é", "\u212b", "漢", "🦩", *DENSE]
    for text in [*DENSE, *("".join(draw.choices(signs, k=30)) for _ in range(300))]:
        assert bound.least(text) <= len(tokenizer(text)["input_ids"]), text


def test_of_a_tokenizer_that_leaves_text_out_nothing_is_known(model):
    lower = normalizers.Sequence([normalizers.NFC(), normalizers.Strip()])
    assert TextBound.of(whole(byte_level(normalizer=lower))) is None
    words = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel()])
    assert TextBound.of(whole(byte_level(pre_tokenizer=words))) is None
    pieces = Tokenizer(models.WordPiece({"[UNK]": 0, "<end>": 1}, unk_token="[UNK]"))
    assert TextBound.of(whole(pieces)) is None
    assert TextBound.of(whole(Tokenizer(models.BPE({"a": 0, "<end>": 1}, [])))) is None
    fallback = {name: n for n, name in enumerate(["<end>", *sorted(FALLBACKS), "▁▁▁▁"])}
    metaspace = Tokenizer(models.BPE(fallback, [], byte_fallback=True))
    metaspace.normalizer = normalizers.Replace(" ", "▁")
    assert TextBound.of(whole(metaspace)).longest == 12
    assert TextBound.of(model.tokenizer) is not None

    made = byte_level()
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    bound = TextBound.of(whole(made))
    assert (bound.least(" " * 640 + "<mask>"), bound.least(" " * 640) > 0) == (0, True)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/get_reward", {"query": ["{}"]}),
        ("/v1/rewards", {"input": [{"text": "{}"}]}),
        ("/v1/rewards", {"messages": [{"role": "user", "content": "{}"}]}),
    ],
)
def test_a_text_that_is_far_too_long_is_refused_before_it_is_encoded(
    client, model, monkeypatch, path, body
):
    encoded = []
    call = type(model.tokenizer).__call__

    def noted(self, text, *given, **more):
        encoded.append(len(text))
        return call(self, text, *given, **more)

    server = client(max_tokens=64)
    monkeypatch.setattr(type(model.tokenizer), "__call__", noted)
    body = json.dumps(body).replace("{}", "blue " * 100_000)
    answer = server.post(path, content=body, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (422, "too_long")
    assert " tokens or more, the limit is 64; shorten it" in error["message"]
    assert max(encoded, default=0) < 1000
