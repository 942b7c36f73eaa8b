"""Calls made behind the caller: in order, and with their failures told."""

import threading
import time

import pytest

from tasks.artifact import BackgroundCalls, prefetch, threaded_map
from tasks.artifact.threads import MOST_THREADS, without_threads


def test_calls_are_made_in_their_order_in_one_thread():
    made, threads = [], set()

    def call(n):
        threads.add(threading.get_ident())
        made.append(n)

    with BackgroundCalls() as behind:
        for n in range(50):
            behind.put(call, n)
    assert made == [*range(50)]
    assert threads.isdisjoint({threading.get_ident()})
    assert len(threads) == 1


def test_a_failure_is_raised_to_the_caller_and_nothing_after_it_is_begun():
    made = []

    def call(n):
        if n == 3:
            raise OSError(28, "No space left on device")
        made.append(n)

    def all_of_them():
        with BackgroundCalls() as behind:
            for n in range(1000):
                behind.put(call, n)

    with pytest.raises(OSError, match="No space left"):
        all_of_them()
    assert made[:3] == [0, 1, 2]
    assert len(made) < 20


def test_items_come_in_order_one_ahead_and_a_failure_comes_where_it_belongs():
    begun = []

    def made():
        for n in range(5):
            begun.append(n)
            if n == 4:
                raise ValueError("the fifth")
            yield n

    items = prefetch(made())
    assert next(items) == 0
    assert next(items) == 1
    assert max(begun) <= 2  # one ahead, no more
    assert [next(items), next(items)] == [2, 3]
    with pytest.raises(ValueError, match="the fifth"):
        next(items)


def test_side_by_side_other_threads_take_part_in_what_takes_time_alone(monkeypatch):
    def call(seconds):
        time.sleep(seconds)
        return threading.get_ident()

    here = threading.get_ident()
    monkeypatch.setattr("tasks.artifact.threads.WORTH_THREADS_SECONDS", 60.0)
    assert {*threaded_map(call, [0.0] * 3)} == {here}
    monkeypatch.setattr("tasks.artifact.threads.WORTH_THREADS_SECONDS", 0.001)
    slow = threaded_map(call, [0.02] * 12, most=3)
    assert slow[0] == here
    assert len({*slow}) == 3
    assert {*threaded_map(call, [0.02] * 3, most=1)} == {here}
    assert threaded_map(call, []) == []


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_side_by_side_nothing_is_begun_after_a_failure(failure):
    begun = []

    def call(n):
        begun.append(n)
        if n == 3:
            raise failure
        time.sleep(0.01)
        return -n

    with pytest.raises(type(failure)):
        threaded_map(call, range(1000))
    assert len(begun) < 3 * MOST_THREADS
    assert threaded_map(lambda n: -n, range(1000)) == [-n for n in range(1000)]


def test_where_no_core_is_free_no_thread_is_begun_and_a_failure_is_raised_at_once():
    here, made = threading.get_ident(), []

    def note(what):
        assert threading.get_ident() == here
        if what == 7:
            raise OSError(28, "No space left on device")
        made.append(what)

    def noted():
        for n in range(3):
            note(n)
            yield n

    with without_threads():
        items = prefetch(noted())
        assert next(items) == 0
        assert made == [0]  # none is made before it is asked for
        with BackgroundCalls() as behind:
            behind.put(note, "put")
            assert made == [0, "put"]
            with pytest.raises(OSError, match="No space left"):
                behind.put(note, 7)
            behind.put(note, "after a failure")
            behind.finish()
        assert [*items] == [1, 2]
    assert made == [0, "put", 1, 2]
    with BackgroundCalls() as behind:
        behind.put(lambda: made.append(threading.get_ident()))
    assert made[-1] != here
