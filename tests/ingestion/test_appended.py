"""A file that has grown, been edited or been cut since: the same artifact as from scratch, and only
what is new is read."""

import json

import pytest

from tasks.artifact import Store
from tasks.ingestion import row_shards

BAD = '{"a":1,"a":2}\n'


def lines(start: int, stop: int, bad: bool = True) -> str:
    """Rows, of which every 1,000th is bad and every 700th is followed by a blank line."""
    made: list[str] = []
    for n in range(start, stop):
        made.append(BAD if bad and n % 1000 == 999 else json.dumps({"n": n, "s": "x: y"}) + "\n")
        if n % 700 == 0:
            made.append(" \n")
    return "".join(made)


WHOLE = lines(0, 25_000)
FULL = 4
"""Shards of it: with 10,000 rows and three times 4,000; three small ones stand behind them."""
CHANGES = {
    "appended": WHOLE + lines(25_000, 25_300),
    "appended in many shards": WHOLE + lines(25_000, 40_000),
    "appended with a bad row only": WHOLE + BAD,
    "the same": WHOLE,
    "edited in the middle": WHOLE.replace('"n": 15000,', '"n": 15x00,'),
    "edited at the beginning": WHOLE.replace('{"n": 1,', '{"m": 1,', 1),
    "row put in": WHOLE.replace('{"n": 15001,', '{"n": 0}\n{"n": 15001,'),
    "cut": WHOLE[: len(WHOLE) * 2 // 3],
    "cut at its last shard's end": lines(0, 18_018),
    "last line left open, and appended": WHOLE[:-1] + " \n" + lines(0, 10),
    "other line ends": WHOLE.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("before", [WHOLE, WHOLE[:-1]], ids=["closed", "open"])
def test_a_changed_file_gives_what_it_gives_from_scratch(ingestion, name, before):
    path = ingestion.write("a.jsonl", before)
    other = ingestion.write("b.jsonl", lines(0, 50))
    sources = {"name": "s", "path": str(path)}, {"name": "t", "path": str(other)}
    ingestion.store.obtain(ingestion.step(*sources))
    path.write_text(CHANGES[name], newline="")
    again = ingestion.store.obtain(ingestion.step(*sources))
    alone = Store(ingestion.directory / "apart").obtain(ingestion.step(*sources))
    assert again.digest == alone.digest
    assert again.report == alone.report
    if name != "the same" and before is WHOLE:  # and so on, change after change
        path.write_text(CHANGES["appended"], newline="")
        third = ingestion.store.obtain(ingestion.step(*sources))
        apart = Store(ingestion.directory / "third").obtain(ingestion.step(*sources))
        assert (third.digest, third.report) == (apart.digest, apart.report)


def nodes(artifact) -> list[int]:
    """What tells one file on the disk from its copy."""
    return [shard.stat().st_ino for shard in row_shards(artifact)]


def test_shards_before_the_change_are_those_of_the_earlier_artifact(ingestion):
    path = ingestion.write("a.jsonl", WHOLE)
    first = ingestion.run(path)
    path.write_text(CHANGES["appended"])
    second = ingestion.run(path)
    assert nodes(second)[:FULL] == nodes(first)[:FULL]
    assert not {*nodes(second)[FULL:]} & {*nodes(first)}  # small ones: read again, the same bytes
    assert [shard.read_bytes() for shard in row_shards(second)[: FULL + 2]] == [
        shard.read_bytes() for shard in row_shards(first)[: FULL + 2]
    ]
    path.write_text(CHANGES["edited in the middle"] + lines(25_000, 25_010))
    third = ingestion.run(path)
    assert nodes(third)[:2] == nodes(first)[:2]
    assert not {*nodes(third)[2:]} & {*nodes(first)}


def test_an_unchanged_file_beside_a_new_one_is_not_written_again(ingestion):
    ingestion.write("raw/a.jsonl", WHOLE)
    first = ingestion.run(ingestion.directory / "raw")
    ingestion.write("raw/b.jsonl", lines(0, 10))
    second = ingestion.run(ingestion.directory / "raw")
    assert nodes(second)[:-1] == nodes(first)
    ingestion.write("raw/a.jsonl", CHANGES["appended"])
    third = ingestion.run(ingestion.directory / "raw")
    apart = Store(ingestion.directory / "apart")
    source = {"name": "s", "path": str(ingestion.directory / "raw")}
    assert third.digest == apart.obtain(ingestion.step(source)).digest
    assert nodes(third)[:4] == nodes(first)[:4]


def test_a_damaged_shard_of_the_earlier_artifact_is_not_taken(ingestion):
    path = ingestion.write("a.jsonl", WHOLE)
    first = ingestion.run(path)
    shard = row_shards(first)[1]
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    path.write_text(CHANGES["appended"])
    second = ingestion.run(path)
    alone = Store(ingestion.directory / "apart").obtain(
        ingestion.step({"name": "s", "path": str(path)})
    )
    assert second.digest == alone.digest
    assert nodes(second)[0] == nodes(first)[0]
