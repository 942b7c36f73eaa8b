"""Batches of pairs get the ids that each row gets alone, and are refused for the same reasons."""

import random
from dataclasses import replace

import pytest
from transformers import AutoTokenizer

from tasks.conversion.layouts import columns as flat
from tasks.conversion.preference.pair import IMPLICIT, Pair, checked
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable
from tasks.templating.shards.row_by_row import Differs
from tasks.templating.shards.shard_rows import ShardRows
from tasks.training.batches.pair_ids import FAST_ENCODER_ROWS, PairIds
from tasks.training.batches.quick_rows import quick_pair, surely_differ
from tasks.training.batches.raw_pairs import _without_nulls
from tasks.training.batches.reading import RowReader, canonical_row
from tests.at_length import at_length
from tests.templating.families import FAMILIES, build_family

WORDS = (
    *("What color is the sky?", " It is blue.", "or so they say \n\n", "naïve 天空 🦩", "a  b\t"),
    *('"quoted" \\ back', "\u2028 line", "see and go " * 12, "<think>so</think>yes", "x" * 300),
)
USUAL = ("chatml", "gemma", "llama3", "plain", "qwen3")
OTHERS = sorted(FAMILIES.keys() - {*USUAL, "vision"})
TOOLS = '[{"type": "function", "function": {"name": "look", "parameters": {}}}]'


def pairs_of(family, count, seed=0):
    """Conversations of several shapes and texts; some with the family's tokens in their words."""
    draw = random.Random(seed)
    tokens = [*FAMILIES[family].tokens, "[INST]", "<|im_end|>"]

    def words():
        said = "".join(draw.choices(WORDS, k=draw.randint(1, 3)))
        return said + draw.choice(tokens) + "!" if draw.random() < 0.1 else said

    def turn(role):
        return {"role": role, "content": words()}

    made = []
    while len(made) < count:
        if draw.random() < 0.25:
            prompt = draw.choice([IMPLICIT, words()])
            sides = words(), words()
        else:
            prompt = [turn("system")] * (draw.random() < 0.3)
            for _ in range(draw.randint(0, 2)):
                prompt += [turn("user"), turn("assistant")]
            prompt += [turn("user")] * draw.choice([1, 1, 1, 2])  # some templates refuse two
            sides = [turn("assistant")], [turn("assistant")]
        pair = Pair(prompt, *sides, tools=TOOLS if draw.random() < 0.1 else None)
        try:
            made.append(checked(pair))
        except Unusable:
            continue
    return dict(enumerate(made))


def alone(reader, pair, end):
    """Ids of one row as `RowReader` has them, or why it has none."""
    try:
        sides = reader.sides(canonical_row(pair, end))
    except Unusable as problem:
        return problem.reason, problem.field, problem.message
    found = reader.ids(sides, standard=pair.format == "standard")
    return [ids.tolist() for ids in found]


def together(made, places):
    known, refused = made
    assert known.keys().isdisjoint(refused)
    assert known.keys() | refused.keys() == set(places)
    told = {place: (bad.reason, bad.field, bad.message) for place, bad in refused.items()}
    return told | {place: [side.tolist() for side in both] for place, both in known.items()}


@pytest.mark.parametrize("policy", ["quarantine", "encode", *at_length("keep")])
@pytest.mark.parametrize("family", [*USUAL, *at_length(*OTHERS)])
def test_a_batch_has_the_ids_of_its_rows(family, policy, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(build_family(family, tmp_path / "model").path)
    made, reader = PairIds(tokenizer, policy), RowReader(tokenizer, policy)
    for seed in range(2):  # the second batch meets what the first one has learned
        pairs = pairs_of(family, (100, FAST_ENCODER_ROWS + 99)[seed], seed)
        if tokenizer.chat_template is None:
            pairs = {n: pair for n, pair in pairs.items() if pair.format == "standard"}
        expected = {n: alone(reader, p, tokenizer.eos_token) for n, p in pairs.items()}
        assert together(made(pairs), pairs) == expected
        assert sum(isinstance(found, list) for found in expected.values()) > 20


def test_a_replay_that_is_wrong_is_noticed_and_the_template_has_the_word(tmp_path, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(build_family("qwen3", tmp_path / "model").path)
    asked, said = ([{"role": role, "content": "Yes, so"}] for role in ("user", "assistant"))
    other = [{"role": "assistant", "content": "No."}]
    pairs = dict(enumerate([checked(Pair(asked, said, other))] * 9))
    reader = RowReader(tokenizer, "keep")
    expected = {n: alone(reader, p, tokenizer.eos_token) for n, p in pairs.items()}
    made = PairIds(tokenizer, "keep")

    def differs(*_):
        raise Differs

    monkeypatch.setattr(ShardRows, "_compare", differs)  # the first row of a shape, held against
    for _ in range(2):  # rows are joined once their shape is known
        assert together(made(pairs), pairs) == expected
    assert made._renderers.replayer.tracer is None


@pytest.mark.parametrize("count", [1, 2 * FAST_ENCODER_ROWS])
def test_the_tokenizer_that_encodes_is_the_one_in_memory(count, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(build_family("qwen3", tmp_path / "model").path)
    pair = checked(Pair("Say it.", " blueberry", " green"))
    swapped = replace(pair, chosen=pair.rejected, rejected=pair.chosen)
    before, _ = PairIds(tokenizer, "keep")(dict.fromkeys(range(count), pair))
    tokenizer.add_tokens(["blueberry"])
    after, _ = PairIds(tokenizer, "keep")(dict.fromkeys(range(count), pair))
    turned, _ = PairIds(tokenizer, "keep")(dict.fromkeys(range(count), swapped))
    token = tokenizer.convert_tokens_to_ids("blueberry")
    for place in range(count):
        assert token not in before[place][0]
        assert token in after[place][0]
        assert after[place][0].tolist() == turned[place][1].tolist()


def rows_of(draw):
    """A row in one of many forms, most of them usual."""

    def words():
        return draw.choice(["", "é", "e\u0301", "yes", " yes\n", "no ’", "ok", "ａ", "yes\u0301"])

    def message(role):
        made = {"role": role, "content": words()}
        if draw.random() < 0.1:
            made = dict(reversed(made.items()))
        odd = [{"name": "x"}, {"tool_calls": None}, {"content": None}, {"role": 3}]
        return made | draw.choice(odd) if draw.random() < 0.05 else made

    usual = [("user",), ("system", "user"), ("user", "assistant", "user")]
    prompt = [message(role) for role in draw.choice([*usual, *usual, ("tool",), ()])]
    answers = ["assistant"] * 9 + ["user"]
    sides = {name: [message(draw.choice(answers))] for name in ("chosen", "rejected")}
    if draw.random() < 0.3:
        row = {name: [*prompt, *answer] for name, answer in sides.items()}
    else:
        row = {"prompt": prompt, **sides}
    odd = [{"margin": 0.5}, {"margin": "a"}, {"margin": None}, {"tools": "[]"}, {"prompt": None}]
    odd += [{"chosen": "text"}, {"rejected": []}, {"preference": 0.2}, {"weight": 2.0}]
    return row | draw.choice(odd) if draw.random() < 0.3 else row


def test_a_pair_at_a_glance_is_the_one_that_is_read_with_care():
    draw = random.Random(1)
    quick = 0
    for _ in range(8000):
        row = rows_of(draw)
        glanced = quick_pair(row)
        if glanced is not None:
            quick += 1
            item = flat.pairs({name: _without_nulls(value) for name, value in row.items()})[0]
            assert glanced == checked(item.kept[0] if isinstance(item, Tie) else item)
    assert quick > 300


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ("no", "yes", True),
        ("é", "e\u0301", False),
        ("e’", "e\u0301’", False),
        ("’a", "’b", True),
        ("’", "’ b", True),
        ("’", "’\u0301", False),
        ("ab’", "ac’", False),
    ],
)
def test_texts_that_could_be_composed_alike_are_looked_at(a, b, differ):
    assert surely_differ(a, b) is surely_differ(b, a) is differ
