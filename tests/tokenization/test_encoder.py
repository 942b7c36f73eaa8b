"""Every encoder gives the tokenizer's own ids, or is not used; pairs are compared without loops."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Whitespace
from transformers import AutoTokenizer

from tasks.errors import DataError
from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tasks.templating.tokenizer.special_tokens import ALIASES
from tasks.templating.tokenizer.tokenizer_file import TokenizerFile, has_fastokens, tokenizer_file
from tasks.tokenization.encoder import CASES, encoders_of, slow_engine, stage_encoder
from tasks.tokenization.engines import TokenizersEngine
from tasks.tokenization.flat import FIRST_WINDOW, common_lengths, join, shared_prefixes
from tasks.tokenization.literal import literal_encoder
from tests.templating.families import FAMILIES, build_family


def texts_for(name):
    tokens = FAMILIES[name].tokens
    turns = [f"{a}user\n{text}{b}\n" for a, b in itertools.pairwise(tokens) for text in CASES[:24]]
    return [*CASES, *turns, *(x + y for x, y in itertools.pairwise(turns))]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("choice", ["auto", "tokenizers"])
def test_ids_of_every_family_are_the_tokenizers(name, choice, tmp_path):
    model = build_family(name, tmp_path / "model")
    encoder = stage_encoder(model.path, choice)
    texts = texts_for(name)
    backend = Tokenizer.from_file(str(model.path / "tokenizer.json"))
    for special in (False, True):
        engine, used, _ = encoder.engine_for(texts[:9], add_special_tokens=special)
        expected = [backend.encode(text, add_special_tokens=special).ids for text in texts]
        assert [
            ids.tolist() for ids in engine(texts, add_special_tokens=special).lists()
        ] == expected
        assert choice == "auto" or used.startswith("tokenizers")
    metaspace = FAMILIES[name].metaspace or FAMILIES[name].rstrip
    assert (encoder.reference.boundaries is None) == metaspace


def test_each_distinct_piece_is_encoded_once_and_the_memory_is_bounded(tmp_path, monkeypatch):
    from tasks.tokenization import engines

    model = build_family("chatml", tmp_path / "model")
    engine = TokenizersEngine(tokenizer_file(model.path))
    texts = texts_for("chatml")
    expected = engine.whole(texts, add_special_tokens=False)
    monkeypatch.setattr(engines, "CACHED_PIECES", 20)
    for start in range(0, len(texts), 7):
        part = engine(texts[start : start + 7], add_special_tokens=False)
        assert [a.tolist() for a in part.lists()] == [
            a.tolist() for a in expected.lists()[start : start + 7]
        ]
        assert len(engine._known) <= 20  # no seven texts have more pieces


@pytest.mark.skipif(not has_fastokens(), reason="fastokens (extra `fast`) is not installed")
def test_an_encoder_with_other_ids_is_found_by_the_probe_and_not_used(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    encoder = stage_encoder(model.path, "auto")
    assert encoder.engine_for(["a", "b"], add_special_tokens=False)[1] == "fastokens"
    right = encoder.fast

    def wrong(texts, *, add_special_tokens):
        found = right(texts, add_special_tokens=add_special_tokens)
        return join([ids[::-1] for ids in found.lists()])

    encoder.fast = wrong
    try:
        _, used, why = encoder.engine_for(["The sky is blue"], add_special_tokens=False)
        assert used == "tokenizers by pieces"
        assert "other ids than the tokenizer's for 'The sky is blue'" in why
        encoder.choice = "fastokens"
        with pytest.raises(DataError, match="use auto or tokenizers"):
            encoder.engine_for(["The sky is blue"], add_special_tokens=False)
    finally:
        encoders_of.cache_clear()


def test_pieces_whose_ids_are_others_than_the_whole_texts_are_not_used(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    encoder = stage_encoder(model.path, "tokenizers")
    encoder.reference._known["The sky"] = np.array([1], np.int32)
    texts = ["The sky<|im_end|>", "The sky"]
    try:
        engine, used, why = encoder.engine_for(texts, add_special_tokens=False)
        assert (used, why) == (
            "tokenizers",
            "by pieces: other ids than the tokenizer's for 'The sky<|im_end|>'",
        )
        backend = Tokenizer.from_file(str(model.path / "tokenizer.json"))
        found = engine(texts, add_special_tokens=False).lists()
        assert [a.tolist() for a in found] == [backend.encode(text).ids for text in texts]
    finally:
        encoders_of.cache_clear()


@pytest.mark.skipif(not has_fastokens(), reason="fastokens (extra `fast`) is not installed")
def test_a_tokenizer_that_fastokens_does_not_load_goes_to_tokenizers(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    path = model.path / "tokenizer.json"
    state = json.loads(path.read_text())
    vocabulary = [[t, -float(n)] for t, n in state["model"]["vocab"].items()]
    state["model"] = {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False}
    path.write_text(json.dumps(state))
    encoder = stage_encoder(model.path, "auto")
    backend = Tokenizer.from_file(str(path))
    engine, _, _ = encoder.engine_for(list(CASES), add_special_tokens=False)
    found = engine(CASES, add_special_tokens=False).lists()
    assert [a.tolist() for a in found] == [backend.encode(t).ids for t in CASES]


@pytest.mark.skipif(not has_fastokens(), reason="fastokens (extra `fast`) is not installed")
def test_white_space_that_is_a_token_goes_to_the_token_that_takes_it_in():
    letters = sorted(ByteLevel.alphabet())
    backend = Tokenizer(BPE({letter: i for i, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    backend.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    backend.add_special_tokens([AddedToken("[SEP]", normalized=False)])
    backend.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    encoder = encoders_of(TokenizerFile(backend.to_str().encode()), "fastokens")
    texts = ["a  [MASK] b", "a  [SEP]  b", "a   [MASK]", "no token", "a\n  [MASK]   [SEP]", "    b"]
    found = encoder.fast(texts, add_special_tokens=False).lists()
    assert [ids.tolist() for ids in found] == [backend.encode(text).ids for text in texts]


@pytest.mark.skipif(not has_fastokens(), reason="fastokens (extra `fast`) is not installed")
def test_a_token_that_is_a_word_and_normalized_goes_to_tokenizers(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    path = model.path / "tokenizer.json"
    state = json.loads(path.read_text())
    flags = {"single_word": True, "lstrip": False, "rstrip": False, "special": False}
    for token, normalized in (("zebra", False), ("crane", True)):
        number = max(entry["id"] for entry in state["added_tokens"]) + 1
        state["added_tokens"].append(
            {"id": number, "content": token, "normalized": normalized, **flags}
        )
        path.write_text(json.dumps(state))
        encoder = stage_encoder(model.path, "auto")
        assert (encoder.fast is None) == normalized
    assert "'crane', a single word and normalized" in encoder.why
    with pytest.raises(
        DataError, match=r"encoder: fastokens: .*'crane', .*; use auto or tokenizers"
    ):
        stage_encoder(model.path, "fastokens")


@pytest.mark.parametrize("choice", ["auto", "tokenizers"])
def test_a_tokenizer_that_is_saved_to_cut_and_pad_texts_does_neither_here(choice, tmp_path):
    model = build_family("llama3", tmp_path / "model")
    path = str(model.path / "tokenizer.json")
    backend = Tokenizer.from_file(path)
    texts = [text for text in texts_for("llama3") if not ALIASES.search(text)]
    wanted = {
        special: [backend.encode(text, add_special_tokens=special).ids for text in texts]
        for special in (False, True)
    }
    own = own_tokens(plain_tokenizer(model.path))
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    backend.save(path)
    encoder = stage_encoder(model.path, choice)
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    engines = [encoder.reference, encoder.reference.whole, slow_engine(tokenizer)]
    engines += [encoder.fast] if encoder.fast else []
    literal = literal_encoder(tokenizer)
    for special, ids in wanted.items():
        for engine in (*engines, encoder.engine_for(texts[:9], add_special_tokens=special)[0]):
            found = engine(texts, add_special_tokens=special).lists()
            assert [each.tolist() for each in found] == ids
        assert [literal(t, (), add_special_tokens=special).tolist() for t in texts] == ids
    assert own_tokens(plain_tokenizer(model.path)) == own == own_tokens(tokenizer)


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
DIGITS = {"type": "Digits", "individual_digits": True}


@pytest.mark.parametrize(
    ("said", "apart"),
    [
        ({}, True),
        ({"normalizer": {"type": "NFC"}}, True),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS]}}, True),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS, METASPACE]}}, False),
        ({"normalizer": {"type": "Prepend", "prepend": "▁"}}, False),
        ({"added_tokens": []}, False),
        ({"dropout": 0.5}, False),
        *(({flag: True}, False) for flag in ("lstrip", "rstrip", "single_word", "normalized")),
    ],
)
def test_texts_are_split_at_special_tokens_only_where_nothing_looks_across_one(
    said, apart, tmp_path
):
    path = build_family("chatml", tmp_path / "model").path / "tokenizer.json"
    state = json.loads(path.read_text())
    flags = {name: value for name, value in said.items() if value is True}
    state["added_tokens"][-1] |= flags
    state["model"]["dropout"] = said.get("dropout")
    state |= {name: said[name] for name in said.keys() & state.keys()}
    engine = TokenizersEngine(TokenizerFile(json.dumps(state).encode()))
    assert (engine.boundaries is not None) == apart


def test_common_beginnings_of_many_pairs_equal_those_of_each_pair():
    rng = np.random.default_rng(0)
    pairs = []
    for n in range(600):
        shared = rng.integers(0, 3, rng.integers(0, 9) + (n % 6) * FIRST_WINDOW // 2)
        sides = [np.append(shared, rng.integers(0, 3, rng.integers(0, 5))) for _ in range(2)]
        pairs.append([side.astype(np.int32) for side in (sides if n % 7 else (sides[0], sides[0]))])
    both = join([*(a for a, _ in pairs), *(b for _, b in pairs)])
    found = common_lengths(both)
    equal = [[a == b for a, b in zip(*pair, strict=False)] for pair in pairs]
    assert found.tolist() == [len([*itertools.takewhile(bool, sides)]) for sides in equal]
    assert both.arrow().to_pylist() == [a.tolist() for a in both.lists()]
    assert isinstance(both.arrow(), pa.ListArray)


def test_a_pair_of_which_one_side_is_empty_shares_nothing():
    both = join([np.array(ids, np.int32) for ids in ([], [], [1, 2], [], [3], [1, 2])])
    assert common_lengths(both).tolist() == [0, 0, 2]
    assert common_lengths(join([])).tolist() == []


@pytest.mark.parametrize(
    ("chosen", "rejected", "shared"),
    [
        ([1, 2, 3], [1, 2, 4], 2),
        ([1, 2], [1, 2, 3], 1),
        ([1, 2, 3], [1, 2, 3], 2),
        ([5], [6], 0),
        ([5], [5, 6], 0),
        ([], [1], 0),
    ],
)
def test_each_side_keeps_an_id_of_its_own(chosen, rejected, shared):
    both = join([np.array(side, np.int32) for side in (chosen, rejected)])
    shorter = both.lengths.min(keepdims=True)
    assert shared_prefixes(common_lengths(both), shorter).tolist() == [shared]


def test_a_tokenizer_is_probed_once_in_a_process_wherever_its_copies_are(tmp_path):
    one = build_family("qwen3", tmp_path / "one").path
    (tmp_path / "two").mkdir()
    (tmp_path / "two/tokenizer.json").write_bytes((one / "tokenizer.json").read_bytes())
    assert stage_encoder(one, "auto") is stage_encoder(tmp_path / "two", "auto")


def test_a_text_on_which_native_code_gives_up_is_named(tmp_path):
    made = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.add_tokens([AddedToken("\t", normalized=False, lstrip=True)])
    made.add_special_tokens([AddedToken("[MASK]", normalized=False, rstrip=True)])
    made.save(str(tmp_path / "tokenizer.json"))
    engine = encoders_of(tokenizer_file(tmp_path), "auto").reference
    assert len(engine(["a b", "b"], add_special_tokens=False).lists()) == 2
    with pytest.raises(DataError, match=r"tokenizers fails on the text 'a \[MASK\] \\t b': Added"):
        engine(["a b", "a [MASK] \t b", "b"], add_special_tokens=False)
