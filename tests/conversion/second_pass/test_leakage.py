"""Held-out prompts that are nearly prompts trained on: found by the stretches that they share."""

import random
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.first_pass import shard_records
from tasks.conversion.first_pass.shard_records import hashes, records, write_records
from tasks.conversion.first_pass.stretches import LONGEST, in_order, stretches_of, without_repeats
from tasks.conversion.first_pass.tables import KEYS
from tasks.conversion.second_pass import leakage
from tasks.conversion.second_pass.duplicates import CONTRADICTION, DUPLICATE, ELSEWHERE
from tasks.conversion.second_pass.leakage import near_duplicates


def words(number, count=40):
    draw = random.Random(number)
    return " ".join(f"word{draw.randrange(10**6)}" for _ in range(count))


def hashes_of(text, held_out=False):
    return stretches_of([text], np.array([held_out]))[0].tolist()


def shard(prompts):
    """Records and hashes of prompts, given as (text, held out)."""
    made = np.zeros(len(prompts), KEYS)
    made["eval"] = [held_out for _, held_out in prompts]
    made["group"] = [crc32(text.encode()) for text, _ in prompts]
    texts = [text.encode() for text, _ in prompts]
    hashes, made["stretches"] = stretches_of(texts, made["eval"])
    hashes, made = without_repeats(hashes, made)
    return made, hashes


@pytest.fixture
def near(tmp_path):
    """What is found of shards of prompts."""

    def found(*shards, codes=None):
        paths = [tmp_path / f"{number}.npy" for number in range(len(shards))]
        for path, prompts in zip(paths, shards, strict=True):
            write_records(path, *shard(prompts))
        keys = records(paths)
        none = np.zeros(sum(map(len, keys)), np.uint8)
        return near_duplicates(keys, none if codes is None else codes)

    return found


def _descriptors():
    return [*Path("/proc/self/fd").iterdir()]


def test_of_many_shards_only_some_hold_a_descriptor(tmp_path, near, monkeypatch):
    monkeypatch.setattr(shard_records, "MOST_MAPPED", 2)
    prompts = [[(words(n), n == 0), (words(n % 2) + "!", False)] for n in range(5)]
    before = len(_descriptors())
    some = near(*prompts)
    monkeypatch.setattr(shard_records, "MOST_MAPPED", 9)
    assert some == near(*prompts) == {"looked_at": 1, "near_duplicates": 1}
    monkeypatch.setattr(shard_records, "MOST_MAPPED", 2)
    read = records([tmp_path / f"{n}.npy" for n in range(5)])
    stretches = [hashes(each) for each in read]
    assert len(_descriptors()) == before + 2
    assert [(len(a), len(b)) for a, b in zip(read, stretches, strict=True)] == [
        (2, each["stretches"].sum()) for each in read
    ]
    for n, each in enumerate(read):
        assert (each == np.load(tmp_path / f"{n}.npy")).all()


def test_a_hash_is_seen_where_its_own_prompt_is_trained_on():
    def prompts(*trained):
        given = np.array([10, 20, 30, 40, 50], np.uint32)
        counts = np.array([1, 1, 0, 2, 1], np.uint16)
        none = np.zeros(5, bool)
        return [leakage._Prompts(given, counts, counts, none, np.array(trained, bool))]

    wanted = np.array([10, 20, 30, 40, 50, 60], np.uint32)
    for trained, seen in (
        ((1, 0, 1, 0, 0), [10]),
        ((0, 1, 0, 0, 0), [20]),
        ((0, 0, 1, 1, 0), [30, 40]),
        ((1, 0, 1, 0, 1), [10, 50]),
    ):
        assert wanted[leakage._seen(wanted, prompts(*trained))].tolist() == seen


def test_a_stretch_is_known_wherever_it_stands():
    shared = bytes(range(200)) * 2
    a, b = hashes_of(b"x" * 37 + shared), hashes_of(shared + b"y" * 91)
    assert set(hashes_of(shared)) <= set(a) & set(b)
    assert len(hashes_of(shared)) > 10
    assert len(hashes_of(b"x" * 63)) == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 900), min_size=1, max_size=8), st.integers(0, 99))
def test_prompts_side_by_side_have_the_stretches_that_each_has_alone(lengths, seed):
    texts = [words(seed + i, 200).encode()[:length] for i, length in enumerate(lengths)]
    held_out = np.array([i % 3 == 0 for i in range(len(texts))])
    hashes, counts = stretches_of(texts, held_out)
    alone = [hashes_of(text, out) for text, out in zip(texts, held_out, strict=True)]
    assert hashes.tolist() == [each for one in alone for each in one]
    assert counts.tolist() == [len(each) for each in alone]
    order = np.array(random.Random(seed).sample(range(len(texts)), len(texts)))
    assert in_order(hashes, counts, order).tolist() == [each for i in order for each in alone[i]]


def test_what_a_held_out_prompt_has_is_found_in_any_up_to_twice_as_long():
    for length in (100, 128, 200, 256, 500, 600, 1024, 1500, 3000):
        text = words(length, 400).encode()[:length]
        longer = words(1).encode()[: length // 2] + text + words(2).encode()[: length // 2]
        assert set(hashes_of(text, held_out=True)) <= set(hashes_of(longer))


def test_a_prompt_has_some_stretches_whatever_its_length():
    for length in (200, 500, 700, 2_000, 5_000, 30_000):
        counts = [len(hashes_of(words(i, 3000).encode()[:length])) for i in range(20)]
        assert 5 < np.mean(counts) < 80
        assert max(counts) < 110
    long = words(0, 3000).encode()
    assert hashes_of(long) == hashes_of(long[:LONGEST])


def test_prompts_that_differ_in_a_few_words_are_found_and_others_are_not(near):
    texts = [words(i) for i in range(200)]
    held_out = [(text, True) for text in texts]
    others = [(words(1000 + i), False) for i in range(300)]
    assert near(held_out, others) == {"looked_at": 200, "near_duplicates": 0}
    changed = [(text.replace(text.split()[20], "other"), False) for text in texts]
    assert near(held_out, others, changed)["near_duplicates"] > 150
    longer = [(f"{text} again and again {i}", False) for i, text in enumerate(texts)]
    assert near(others, held_out, longer) == {"looked_at": 200, "near_duplicates": 200}


def test_each_prompt_counts_once_and_only_where_a_pair_of_it_is_kept(near):
    a, b = words(1), words(2)
    shards = (
        [(a, True), (a, True), (b, True)],
        [(a + " too", False), (a, True), (b + " too", False)],
    )
    assert near(*shards) == {"looked_at": 2, "near_duplicates": 2}
    first_is_dropped = np.array([DUPLICATE, 0, 0, 0, DUPLICATE, 0], np.uint8)
    assert near(*shards, codes=first_is_dropped) == {"looked_at": 2, "near_duplicates": 2}
    none_is_trained_on = np.array([0, 0, 0, CONTRADICTION, 0, 0], np.uint8)
    assert near(*shards, codes=none_is_trained_on) == {"looked_at": 2, "near_duplicates": 1}
    none_is_held_out = np.array([CONTRADICTION, CONTRADICTION, 0, 0, CONTRADICTION, 0], np.uint8)
    assert near(*shards, codes=none_is_held_out) == {"looked_at": 1, "near_duplicates": 1}
    assert near([], [("short", True)]) == {"looked_at": 0, "near_duplicates": 0}


def test_a_training_pair_that_is_left_out_for_a_held_out_one_is_not_trained_on(near):
    gold, more = (words(1), True), (words(1), False)
    none = {"looked_at": 1, "near_duplicates": 0}
    assert near([gold], [more], codes=np.array([0, ELSEWHERE], np.uint8)) == none
    assert near([more], [gold], codes=np.array([ELSEWHERE, 0], np.uint8)) == none


def test_of_many_held_out_prompts_those_with_the_smallest_groups_are_looked_at(near, monkeypatch):
    texts = sorted((words(n, count=20 * n) for n in range(1, 6)), key=lambda t: crc32(t.encode()))
    for n, text in enumerate(texts):
        found = near([(each, True) for each in texts], [(text + " too", False)])
        assert found == {"looked_at": 5, "near_duplicates": 1}
        monkeypatch.setattr(leakage, "MOST_HELD_OUT", 3)
        found = near([(each, True) for each in texts], [(text + " too", False)])
        assert found == {"looked_at": 3, "near_duplicates": int(n < 3)}
        monkeypatch.undo()
