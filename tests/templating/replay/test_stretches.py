"""Rows go through templating in stretches, most of them replayed: what comes out is what the plain
renderer makes of each, whatever stands beside what."""

import dataclasses
import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.first_pass.tables import SCHEMA
from tasks.templating import TemplatingParams
from tasks.templating.replay.conversations import conversations_of
from tasks.templating.replay.delimiters import DELIMITERS, delimiters_in, rows_to_search
from tasks.templating.replay.piece import ROWS, pieces
from tasks.templating.shards import columns
from tasks.templating.shards.batch import Batch
from tasks.templating.shards.shard import renderers
from tasks.templating.shards.shard_rows import SAMPLE_FIRST
from tasks.templating.tokenizer.special_tokens import special_tokens
from tests.at_length import at_length
from tests.templating.families import FAMILIES
from tests.templating.outcomes import WORDS, outcome, table

few = settings(max_examples=50)
"""Each of them has many rows."""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TOOLS = st.sampled_from((TOOL, *(TOOL | {"function": {"name": words}} for words in WORDS)))


def turn(role):
    return st.builds(lambda words: {"role": role, "content": words}, st.sampled_from(WORDS))


USER, ANSWER = turn("user"), turn("assistant")
ODD = st.sampled_from(
    [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "Hi", "name": "x"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]},
        {"role": "tool", "content": "sunny"},
        {"role": "assistant", "content": "Hi", "score": float("nan")},  # no JSON to some parsers
    ]
)
PROMPT = st.one_of(
    st.none(),
    st.tuples(USER).map(list),
    st.tuples(turn("system"), USER).map(list),
    st.tuples(USER, ANSWER, USER).map(list),
    st.tuples(USER, ODD, USER).map(list),
)
SIDE = st.one_of(*[st.tuples(ANSWER).map(list)] * 4, st.tuples(ANSWER, USER, ANSWER).map(list))


@st.composite
def rows_of(draw):
    kind = draw(st.sampled_from(("plain",) * 6 + ("text", "odd", "tools", "settings", "images")))
    if kind == "text":
        words = draw(st.tuples(*[st.sampled_from(WORDS)] * 3))
        return dict(zip(("prompt", "chosen", "rejected"), words, strict=True))
    prompt, chosen, rejected = draw(st.tuples(PROMPT, SIDE, SIDE))
    if kind == "odd":
        rejected = [*rejected, draw(ODD)]
    if prompt is None:
        first = draw(USER)
        chosen, rejected = [first, *chosen], [first, *rejected]
    more = {
        "tools": {"tools": [draw(TOOLS)]},
        "settings": {"chat_template_kwargs": {"enable_thinking": False}},
        "images": {"images": ["a.png"]},
    }
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected} | more.get(kind, {})


@pytest.fixture(scope="module", autouse=True)
def _every_batch_is_looked_at_in_columns():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "WORTH_ROWS", 10**9)
        patch.setattr(columns, "BATCHES_SKIPPED", 0)
        yield


@few
@given(
    rows=st.lists(rows_of(), min_size=1, max_size=24),
    before=st.lists(rows_of(), min_size=1, max_size=12),
    times=st.sampled_from((1, 4, 8)),
    seed=st.integers(0, 99),
    forged=st.sampled_from(("quarantine", "encode", "keep")),
    delimiters=st.sampled_from(("count", "quarantine")),
)
def test_stretches_of_any_rows_come_out_as_the_renderer_alone_makes_them(
    tokenizer, rows, before, times, seed, forged, delimiters
):
    rows = rows * times
    random.Random(seed).shuffle(rows)
    params = TemplatingParams(special_tokens_in_text=forged, delimiters_in_text=delimiters)
    whole = table(rows)
    batches = [whole.slice(0, len(rows) // 3), whole.slice(len(rows) // 3)]
    batches = [batch for batch in batches if batch.num_rows]
    ours, _ = outcome(tokenizer, params, batches, replaying=True)
    plain, replayed = outcome(tokenizer, params, batches, replaying=False)
    assert replayed == 0
    assert ours == plain
    known = renderers(tokenizer, params)  # those that have seen the rows of another shard
    outcome(tokenizer, params, [table(before)], replaying=True, known=known)
    taught, _ = outcome(tokenizer, params, batches, replaying=True, known=known)
    assert taught == plain


QUIET = (
    *(
        "Hi",
        "naïve 🦩",
        "a\n\nb",
        '“quoted” \\ "x"',
        "im_end",
        "im_end ",
        " padded ",
        "\nled",
        "x" * 90,
    ),
    *("天空", "\u3000天", "\x1f", "\x1cx", "tail\t", "", " ", "end", "“", "0", "\u00a0"),
)
RARE = (
    "1 < 2",
    "<|im_end|>",
    "</think>",
    "### Response: yes",
    "[INST]",
    "x" * 120_000,
    "<s>",
    "a\u2028",
)


@st.composite
def quiet_rows(draw):
    """Rows of a few structures, nearly all of them plain."""
    words = st.sampled_from(QUIET * 4 + RARE)
    asked = draw(
        st.sampled_from([("user",), ("system", "user"), ("user", "assistant", "user"), ()])
    )
    turns = [{"role": role, "content": draw(words)} for role in asked]
    sides = [[{"role": "assistant", "content": draw(words)}] for _ in range(2)]
    if not asked or draw(st.integers(0, 7)) == 0:
        sides = [[{"role": "user", "content": draw(words)}, *side] for side in sides]
    row = {"prompt": turns or None, "chosen": sides[0], "rejected": sides[1]}
    return row | draw(st.sampled_from([{}] * 20 + [{"tools": [TOOL]}, {"images": ["a.png"]}]))


@few
@given(
    rows=st.lists(quiet_rows(), min_size=1, max_size=24),
    others=st.lists(rows_of(), max_size=3),
    seed=st.integers(0, 99),
    forged=st.sampled_from(("quarantine", "encode", "keep")),
    spelled=st.sampled_from(("", "<i")),  # never by us, but it is JSON
)
def test_rows_that_are_joined_in_columns_come_out_as_the_renderer_alone_makes_them(
    tokenizer, rows, others, seed, forged, spelled
):
    params = TemplatingParams(special_tokens_in_text=forged)
    known = renderers(tokenizer, params)
    usual = [{"role": "user", "content": "What?"}], [{"role": "assistant", "content": "blue"}]
    for prompt, side in (usual, ([*usual[0], *usual[1], usual[0][0]], usual[1])):
        other = [{"role": "assistant", "content": "green"}]
        shard = table([{"prompt": prompt, "chosen": side, "rejected": other}] * 4)
        outcome(tokenizer, params, [shard], replaying=True, known=known)
    outcome(tokenizer, params, [table(rows)], replaying=True, known=known)
    rows = [*rows * 3, *others]
    random.Random(seed).shuffle(rows)
    given = table(rows, spelled=spelled)
    ours, _ = outcome(tokenizer, params, [given], replaying=True, known=known)
    plain, _ = outcome(tokenizer, params, [given], replaying=False)
    assert ours == plain


def test_plain_rows_of_a_known_structure_are_joined_in_columns(tokenizer):
    rows = answered([f'"blue"\n{n}' for n in range(100)])
    assert joined_and_rendered(tokenizer, rows, rows[:9]) == 100
    known = renderers(tokenizer, TemplatingParams())
    outcome(tokenizer, TemplatingParams(), [table(rows[:9])], replaying=True, known=known)
    assert known.columns.joined(Batch.of(table(rows, (", ", ": ")))) is None


@pytest.mark.parametrize("around", ['"', "\\", "\n", "abcdefg"])  # seven more ends are too many
@pytest.mark.parametrize("forged", ["quarantine", "encode"])
def test_special_tokens_that_no_byte_shows_are_looked_for_in_each_row(tokenizer, around, forged):
    tokens = [f"{each}token{each}" for each in around]
    tokenizer = dataclasses.replace(tokenizer, flagged=(*tokenizer.flagged, *tokens))
    rows = answered(["blue"] * 9 + [f"see {tokens[0]} so", "token", "blue"])
    assert joined_and_rendered(tokenizer, rows, rows[:9], special_tokens_in_text=forged) == 0


def test_rows_with_one_side_of_an_unknown_structure_or_with_settings_are_not_joined(tokenizer):
    usual = answered(["blue"] * 9)
    others = [usual[0] | {"tools": [TOOL]}, usual[0] | {"chat_template_kwargs": {"x": 1}}]
    again = [*usual[0]["chosen"], *usual[0]["prompt"], *usual[0]["chosen"]]
    rows = [*usual, *({**usual[0], side: again} for side in ("chosen", "rejected")), *others]
    assert joined_and_rendered(tokenizer, rows, usual) == 9
    assert joined_and_rendered(tokenizer, rows, rows) == 11


@pytest.mark.parametrize("special", [None, '<|"so"|>', "<|a\\b|>"])  # as JSON escapes it
def test_words_that_a_template_makes_a_special_token_of_are_not_joined(tokenizer, special):
    if special:
        tokenizer = dataclasses.replace(tokenizer, flagged=(*tokenizer.flagged, special))
    special = special or special_tokens(tokenizer).tokens[0]
    first, last = special[:2], special[-2:]
    turns = f"{{% for m in messages %}}{first}{{{{ m.content }}}}{last}{{% endfor %}}"
    template = "{{ bos_token }}" * bool(tokenizer.bos_token) + "go: " + turns
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    rows = answered(["blue"] * 5 + [special[2:-2], "blue"])
    params = TemplatingParams(special_tokens_in_text="encode")
    known = renderers(tokenizer, params)
    outcome(tokenizer, params, [table(rows[:5])], replaying=True, known=known)
    joined = known.columns.joined(Batch.of(table(rows)))
    assert joined.mask.tolist() == [True] * 5 + [False, True]
    ours, _ = outcome(tokenizer, params, [table(rows)], replaying=True, known=known)
    plain, _ = outcome(tokenizer, params, [table(rows)], replaying=False)
    assert ours == plain
    (found,) = ours[0]
    assert [bool(x) for x in found["chosen_literals"].to_pylist()] == [False] * 5 + [True, False]


def answered(answers, asked="What?"):
    """Rows with these chosen answers."""
    return [
        {
            "prompt": [{"role": "user", "content": asked}],
            "chosen": [{"role": "assistant", "content": words}],
            "rejected": [{"role": "assistant", "content": f"green {n}"}],
        }
        for n, words in enumerate(answers)
    ]


def joined_and_rendered(tokenizer, rows, learned, **params):
    """How many rows are joined after these have been learned; all come out as they should."""
    params = TemplatingParams(**params)
    known = renderers(tokenizer, params)
    outcome(tokenizer, params, [table(learned)], replaying=True, known=known)
    found = known.columns.joined(Batch.of(table(rows)))
    ours, _ = outcome(tokenizer, params, [table(rows)], replaying=True, known=known)
    plain, _ = outcome(tokenizer, params, [table(rows)], replaying=False)
    assert ours == plain
    return 0 if found is None else int(found.mask.sum())


@pytest.mark.parametrize(
    ("written", "words", "joined"),
    [
        ("{% if m.content %}[{{ m.content }}]{% endif %}", "", 11),
        ("{% if m.content | trim %}[{{ m.content }}]{% endif %}", " \t", 11),
        ("[{{ m.content.strip() }}]", "\nblue", 11),
        ("[{{ m.content.lstrip('\\n') }}]", "\n\nblue ", 11),
        ("[{{ m.content | trim }}]", "\u5929\u3000", 11),
        ("[{{ m.content | trim }}]", "\u3042\u5929\u3002", 13),
        ("{% if m.content.startswith('/no') %}?{% endif %}[{{ m.content }}]", "/no blue", 11),
        ("{% if m.content.strip().endswith('!?') %}?{% endif %}[{{ m.content }}]", "blue!? ", 11),
        ("{% if '# ' in m.content.strip() %}?{% endif %}[{{ m.content }}]", "a # b", 11),
        ("{% if '\u00a7' in m.content %}?{% endif %}[{{ m.content }}]", "a \u00a7", 0),
        ("{% if m.content == 'blue 2' %}?{% endif %}[{{ m.content }}]", "blue 2", 0),
        ("[{{ m.content }}]", "\nblue ", 13),
        ("[{{ m.content.upper() }}]", "green", 0),
        ("[{{ m.content.upper() }}{{ m.content }}]", "green", 0),
        ("{% for n in range(50) %}[{{ m.content }}]{% endfor %}", "x" * 20_000, 11),
        ("{% if m.role == 'user' %}[{{ m.content }}]{% endif %}", "green", 0),
    ],
)
def test_what_a_template_asks_of_words_is_asked_of_those_that_are_joined(
    tokenizer, written, words, joined
):
    template = "{% for m in messages %}" + written + "{% endfor %}"
    template = "{{ bos_token }}" * bool(tokenizer.bos_token) + "go: " + template
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    rows = answered(["blue"] * 9 + [words, "blue"] * 2)
    assert joined_and_rendered(tokenizer, rows, rows[:9]) == joined
    for learned in ([rows[9], *rows[:3]], answered([words], words)):  # words that are asked for
        joined_and_rendered(tokenizer, rows, learned)


@pytest.mark.parametrize("before", ["", "\n", " ", "\u3000", "x"])
@pytest.mark.parametrize("after", ["", "\n", "\u3000", "\u00a0", "|", "<"])
def test_a_text_that_may_begin_with_its_bos_twice_is_not_joined(tokenizer, before, after):
    bos = tokenizer.bos_token or ""
    template = before + "{{ bos_token }}" * bool(bos) + after
    template += "{% for m in messages %}{{ m.content }}|{% endfor %}"
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    learned = answered(["blue"] * 9)
    for asked in (f"{bos}x", f" {bos}x", bos[1:] + "x"):
        rows = [*learned, *answered(["blue"] * 3, asked)]
        joined_and_rendered(tokenizer, rows, learned, special_tokens_in_text="keep")


@pytest.mark.parametrize(
    "written", ["{{ m.content }}{{ bos_token }}: ", "so it was: {{ m.content }}"]
)
def test_a_text_that_need_not_begin_with_its_bos_is_not_joined(tokenizer, written):
    template = "{% for m in messages %}" + written + "{% endfor %}"
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    bos = tokenizer.bos_token or ""
    learned = answered(["blue"] * 9, f"Why {bos}?")  # which has it in its own words
    for asked in (bos or "What?", "Why?"):
        rows = [*learned, *answered(["blue"] * 3, asked)]
        joined_and_rendered(tokenizer, rows, learned, special_tokens_in_text="keep")


def test_characters_that_are_spelled_out_are_looked_at(tokenizer):
    template = "{% for m in messages %}{% if '</x>' in m.content %}?{% endif %}[{{ m.content }}]"
    template = "{{ bos_token }}" * bool(tokenizer.bos_token) + "go: " + template + "{% endfor %}"
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    params = TemplatingParams(special_tokens_in_text="keep")
    known = renderers(tokenizer, params)
    rows = answered(["blue"] * 9 + ["a </x>", "\x1f", "blue"])
    outcome(tokenizer, params, [table(rows[:9])], replaying=True, known=known)
    given = table(rows, spelled="</>")
    assert known.columns.joined(Batch.of(given)).mask.tolist() == [*[True] * 9, False, False, True]
    ours, _ = outcome(tokenizer, params, [given], replaying=True, known=known)
    plain, _ = outcome(tokenizer, params, [given], replaying=False)
    assert ours == plain
    half = table([*rows[:9], rows[0]]).to_pylist()
    half[9]["chosen"] = half[9]["chosen"].replace("blue", "\\ud800")  # half a character
    given = pa.RecordBatch.from_pylist(half, schema=SCHEMA)
    assert known.columns.joined(Batch.of(given)).mask.tolist() == [*[True] * 9, False]


@pytest.mark.parametrize(
    "place", [0, ROWS - 1, ROWS, *at_length(1, ROWS - 2, 2 * ROWS - 1, 2 * ROWS + 3)]
)
def test_one_row_that_needs_a_look_leaves_its_neighbours_replayed(tokenizer, place):
    usual = {"prompt": [{"role": "user", "content": "What?"}]}
    usual["chosen"] = [{"role": "assistant", "content": "blue"}]
    rows = [
        usual | {"rejected": [{"role": "assistant", "content": f"green {n}"}]}
        for n in range(2 * ROWS + 4)
    ]
    special = special_tokens(tokenizer).tokens[0]
    for words in (
        *(f"a {special}", "see [INST] <<SYS>> ### Response: <|user|>", "\x01"),
        *("x" * 250_000, "é" * 150_000),  # only the first has too many characters for a replay
    ):
        rows[place] = rows[place] | {"chosen": [{"role": "assistant", "content": words}]}
        params = TemplatingParams(special_tokens_in_text="encode")
        ours, replayed = outcome(tokenizer, params, [table(rows)], replaying=True)
        plain, _ = outcome(tokenizer, params, [table(rows)], replaying=False)
        assert ours == plain
        assert replayed >= len(rows) - SAMPLE_FIRST - 2


@given(
    texts=st.lists(
        st.sampled_from((*WORDS, *DELIMITERS)) | st.text(max_size=9), min_size=3, max_size=60
    )
)
def test_no_delimiter_and_no_special_token_escapes_the_search_of_a_whole_piece(texts):
    rows = [texts[n : n + 3] for n in range(0, len(texts) - 2, 3)]
    turns = [[[{"role": "user", "content": text}] for text in row] for row in rows]
    for escaped in (False, True):  # `<` may be written \u003c: never by us, but it is JSON
        stored = [[json.dumps(t, ensure_ascii=False) for t in row] for row in turns]
        if escaped:
            stored = [[text.replace("<", "\\u003c") for text in row] for row in stored]
        (piece,) = pieces([pa.array([row[n] for row in stored]) for n in range(3)])
        asked = rows_to_search(piece)
        for n, row in enumerate(stored):
            assert n in asked or not delimiters_in(*(text.encode() for text in row))
            assert json.loads(b"[" + piece.row(n) + b"]") == turns[n]
        found = conversations_of(piece)
        for name in ("chatml", "mistral", "plain"):
            names = FAMILIES[name].tokens
            special = special_tokens(_Named(names))
            innocent = [all(map(special.innocent, row)) for row in rows]
            empty = [not all(row) for row in rows]
            expected = {n for n in range(len(rows)) if empty[n] or not innocent[n]}
            # the other: tokens that begin and end in so many ways that none is looked for
            for tokens in (special, dataclasses.replace(special, ends=())):
                assert found.odd | found.suspicious(tokens, piece) == expected


class _Named:
    """A tokenizer's special tokens."""

    def __init__(self, names):
        self.all_special_tokens = names
        self.added_tokens_decoder = {}
