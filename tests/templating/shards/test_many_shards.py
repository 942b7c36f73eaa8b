"""One process renders many shards: what it finds out in one serves the next, and changes none."""

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion.first_pass.tables import SCHEMA
from tasks.templating import TemplatingParams
from tasks.templating.replay import replaying
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards.shard import BATCH_ROWS, TemplateShard, renderers
from tasks.templating.shards.shard_rows import SAMPLE_FIRST
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tasks.templating.traced.text import Joint
from tests.templating.families import build_family
from tests.templating.outcomes import outcome, table
from tests.templating.stage_runs import read_arrow


@pytest.fixture(scope="module")
def chatml(tmp_path_factory):
    return plain_tokenizer(build_family("chatml", tmp_path_factory.mktemp("chatml")).path)


@pytest.mark.parametrize(
    ("template", "kept", "dropped"),
    [
        (
            "{% for m in messages %}{% if m.name != 'hidden' %}{{ m.content }}{% endif %}"
            "{% endfor %}",
            {"prompt": [{"role": "user", "content": "What?", "name": "x"}]},
            {"prompt": [{"role": "user", "content": "What?", "name": "hidden"}]},
        ),
        (
            "{% for t in tools or [] %}{% if t.function.description %}{{ t.function.name }}"
            "{% endif %}{% endfor %}"
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            {"tools": [{"function": {"name": "look", "description": "sees"}}]},
            {"tools": [{"function": {"name": "look", "description": ""}}]},
        ),
    ],
)
def test_a_shard_comes_out_the_same_whatever_shards_came_before(chatml, template, kept, dropped):
    tokenizer = dataclasses.replace(chatml, chat_template=template)
    usual = {"prompt": [{"role": "user", "content": "What?"}]}
    usual |= {s: [{"role": "assistant", "content": s}] for s in ("chosen", "rejected")}
    params = TemplatingParams(special_tokens_in_text="keep")
    shards = [[table([usual | row])] for row in (kept, dropped)]
    alone = [outcome(tokenizer, params, shard, replaying=True)[0] for shard in shards]
    assert [told[0][0].num_rows for told in alone] == [1, 0]
    for order in ((0, 1, 0), (1, 0, 1)):
        known = renderers(tokenizer, params)
        for n in order:
            told, _ = outcome(tokenizer, params, shards[n], replaying=True, known=known)
            assert told == alone[n]


@pytest.mark.parametrize("what", ["replay", "joint"])
def test_a_replay_that_was_wrong_once_is_not_used_for_the_next_shards(
    chatml, tmp_path, monkeypatch, what
):
    def rows(count, prompt):
        usual = {"prompt": prompt, "chosen": [{"role": "assistant", "content": "blue"}]}
        sides = ([{"role": "assistant", "content": f"green {n}"}] for n in range(count))
        return [usual | {"rejected": side} for side in sides]

    true = Replayer.learn

    def wrong(self, side, text):
        true(self, side, text)
        structure = self.structures[side[0]]
        if len(side[1]) == 2 and what == "replay":
            structure.paths[:] = structure.calm[:] = [lambda _, e: b"wrong" + e[1]]
            structure.joint = None
        elif len(side[1]) == 2:
            structure.joint = Joint((b"wrong", 0, 1), False, frozenset())

    monkeypatch.setattr(Replayer, "learn", wrong)
    short = [{"role": "user", "content": "What?"}]
    long = [*short, {"role": "assistant", "content": "That"}, *short]
    work = TemplateShard(Workspace(tmp_path / "work", -1), chatml, TemplatingParams())
    given = tmp_path / "given"
    given.mkdir()
    numbers = []
    for n, shard in enumerate([rows(BATCH_ROWS + 50, short), [*rows(20, long), *rows(20, short)]]):
        pq.write_table(pa.Table.from_batches([table(shard)]), given / f"{n}.parquet")
        numbers.append(work(given / f"{n}.parquet", Ledger(), Quarantine("templating")))
    assert [(n["replays_differed"], n["replayed"]) for n in numbers] == [(1, 0), (0, 0)]
    for n in range(2):
        texts = read_arrow(tmp_path / "work" / "texts" / f"{n}.arrow")["rejected"].to_pylist()
        assert not any("wrong" in text for text in texts)
    monkeypatch.setattr(Replayer, "learn", true)  # the next stage begins anew
    work = TemplateShard(Workspace(tmp_path / "next", -1), chatml, TemplatingParams())
    assert work(given / "0.parquet", Ledger(), Quarantine("templating"))["replayed"] > 0


def test_what_was_found_out_of_a_template_serves_the_next_stage_with_it_alone(
    chatml, tmp_path, monkeypatch
):
    """In the same thread; a structure is traced once, whatever workspace its rows stand in."""
    traced: list[str] = []
    learn = Replayer.learn
    monkeypatch.setattr(
        Replayer, "learn", lambda self, *told: (traced.append(told[1]), learn(self, *told))
    )
    prompt = [{"role": "user", "content": "What?"}]
    blue, green = ([{"role": "assistant", "content": word}] for word in ("blue", "green"))
    rows = [{"prompt": prompt, "chosen": blue, "rejected": green}]
    pq.write_table(pa.Table.from_batches([table(rows * 20)]), tmp_path / "0.parquet")
    texts, counts = [], []
    other = dataclasses.replace(
        chatml, chat_template=chatml.chat_template.replace("assistant", "a") + "!"
    )
    params = TemplatingParams()
    for n, told in enumerate([chatml, dataclasses.replace(chatml), other, chatml]):
        work = TemplateShard(Workspace(tmp_path / str(n), -1), told, params)
        work(tmp_path / "0.parquet", Ledger(), Quarantine("templating"))
        texts.append(read_arrow(tmp_path / str(n) / "texts" / "0.arrow").to_pylist())
        counts.append(len(traced))
    assert counts[0] == counts[1] < counts[2] < counts[3]
    assert texts[0] == texts[1] == texts[3] != texts[2]


def test_margins_preferences_and_comparisons_of_the_rows_that_are_kept_are_counted(
    chatml, tmp_path
):
    """Tokenization writes these columns only where there are any."""
    answers = [*(f"green {n}" for n in range(5)), "<|im_end|>"]  # the last one is not kept
    prompt, blue = [{"role": "user", "content": "What?"}], [{"role": "assistant", "content": "b"}]
    pairs = [
        {"prompt": prompt, "chosen": blue, "rejected": [{"role": "assistant", "content": text}]}
        for text in answers
    ]
    rows = table(pairs).to_pylist()
    for row, preference in zip(rows, (1.0, 0.25, 0.0, 1.0, 0.5, 0.5), strict=True):
        row |= {"preference": preference, "margin": preference or None}
        row |= {"comparison": "c"} if preference == 0.25 else {}
    for shard, expected in ((rows, [4, 3, 1]), (rows[:1], [1, 0, 0]), (rows[2:3], [0, 1, 0])):
        pq.write_table(pa.Table.from_pylist(shard, SCHEMA), tmp_path / "0.parquet")
        work = TemplateShard(Workspace(tmp_path / "work", -1), chatml, TemplatingParams())
        numbers = work(tmp_path / "0.parquet", Ledger(), Quarantine("templating"))
        assert [numbers[name] for name in ("margin", "preference", "comparison")] == expected


def test_where_no_more_structures_fit_the_next_shard_begins_anew(chatml, tmp_path, monkeypatch):
    monkeypatch.setattr(replaying, "MOST_STRUCTURES", 2)
    turns = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "That"}]
    params = TemplatingParams()
    work = TemplateShard(Workspace(tmp_path / "work", -1), chatml, params)
    replayed = []
    for n, length in enumerate((0, 0, 1, 1)):
        prompt = [*turns * length, turns[0]]
        sides = [[{"role": "assistant", "content": f"{word} {n}"}] for word in ("blue", "green")]
        many = [[*side, turns[0], *side] for side in sides]  # a structure of its own
        rows = [
            {"prompt": prompt, "chosen": chosen, "rejected": rejected}
            for chosen, rejected in ((sides[0], sides[1]), (many[0], many[1]))
        ]
        whole = table(rows * 20)
        pq.write_table(pa.Table.from_batches([whole]), tmp_path / f"{n}.parquet")
        numbers = work(tmp_path / f"{n}.parquet", Ledger(), Quarantine("templating"))
        replayed.append(numbers["replayed"])
        (plain,), *_ = outcome(chatml, params, [whole], replaying=False)[0]
        found = read_arrow(tmp_path / "work" / "texts" / f"{n}.arrow")
        assert found.to_pylist() == plain.to_pylist()
    assert replayed == [2 * 20 - SAMPLE_FIRST] * 4
