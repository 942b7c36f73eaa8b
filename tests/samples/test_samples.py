"""The sample data is what its generator writes, and neither length nor words alone decide it."""

import csv
import json
import math
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
FILES = ("conversations.jsonl", "votes.csv", "transcripts.jsonl")
FIELDS = ("chosen", "rejected")


def read_answers() -> dict[str, list[tuple[str, str]]]:
    """File -> (chosen, rejected) answers of its rows that have both, different and not empty."""
    answers: dict[str, list[tuple[str, str]]] = {}
    conversations = []
    for line in (SAMPLES / FILES[0]).read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row["rejected"] is not None:
            conversations.append((row["chosen"][0]["content"], row["rejected"][0]["content"]))
    with (SAMPLES / FILES[1]).open(encoding="utf-8", newline="") as file:
        votes = [(row["better"] or "", row["worse"] or "") for row in csv.DictReader(file)]
    transcripts = []
    for line in (SAMPLES / FILES[2]).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sides = [row[side].rpartition("\n\nAssistant: ") for side in ("chosen", "rejected")]
        transcripts.append((sides[0][2], sides[1][2]))
    for name, pairs in zip(FILES, (conversations, votes, transcripts), strict=True):
        answers[name] = [(c, r) for c, r in pairs if c and r and c != r]
    return answers


def test_the_generator_writes_the_committed_bytes_again(tmp_path: Path) -> None:
    command = [sys.executable, "-B", str(SAMPLES / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes(), name


def test_the_files_are_small_and_hold_about_two_thousand_pairs() -> None:
    assert sum((SAMPLES / name).stat().st_size for name in FILES) < 1_500_000
    counts = {name: len(pairs) for name, pairs in read_answers().items()}
    assert 2000 <= sum(counts.values()) <= 2200
    assert min(counts.values()) >= 500  # so that five bad rows stay below one percent


@pytest.mark.parametrize("measure", [len, lambda text: len(text.split())], ids=["chars", "words"])
def test_length_alone_does_not_decide(measure) -> None:
    per_file = read_answers()
    for pairs in (*per_file.values(), [pair for every in per_file.values() for pair in every]):
        gaps = [measure(chosen) - measure(rejected) for chosen, rejected in pairs]
        longer_wins = sum((gap > 0) + 0.5 * (gap == 0) for gap in gaps) / len(gaps)
        assert 0.47 <= longer_wins <= 0.53  # and so does "shorter wins"


def test_the_words_of_the_answers_alone_do_not_decide() -> None:
    pairs = [pair for pairs in read_answers().values() for pair in pairs]
    good: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    for chosen, rejected in pairs[::2]:
        good.update(chosen.split())
        bad.update(rejected.split())

    def score(answer: str) -> float:  # naive Bayes: log odds of every word, one added to each count
        return sum(math.log((good[word] + 1) / (bad[word] + 1)) for word in answer.split())

    held_out = pairs[1::2]
    hits = sum(score(chosen) > score(rejected) for chosen, rejected in held_out)
    assert hits / len(held_out) < 0.60


def test_each_rule_tells_the_two_answers_of_its_family_apart(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(SAMPLES))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    generate = import_module("generate")
    for name, family in generate.FAMILIES.items():
        for pair in generate.draw_pairs(Random(1), {name: 40}):
            assert family.follows(pair.request, pair.chosen), (name, pair)
            assert not family.follows(pair.request, pair.rejected), (name, pair)


def test_the_bad_rows_are_there() -> None:
    conversations = (SAMPLES / FILES[0]).read_text(encoding="utf-8").splitlines()
    assert sum(not line.endswith("}") for line in conversations) == 1
    assert sum('"rejected": null' in line for line in conversations) == 1
    with (SAMPLES / FILES[1]).open(encoding="utf-8", newline="") as file:
        records = list(csv.reader(file))
    assert sum(len(record) != 6 for record in records) == 1
    assert sum(record[-1] == "n/a" for record in records) == 1
    transcripts = (SAMPLES / FILES[2]).read_text(encoding="utf-8").splitlines()
    assert len(transcripts) - len(set(transcripts)) == 1
    prompts = [
        tuple(json.loads(line)[side].rpartition("\n\nAssistant: ")[0] for side in FIELDS)
        for line in transcripts
    ]
    assert sum(chosen != rejected for chosen, rejected in prompts) == 1
