"""Calls made behind the caller: in order, and with their failures told."""

import threading

import pytest

from tasks.artifact import Behind


def test_calls_are_made_in_their_order_in_one_thread():
    made, threads = [], set()

    def call(n):
        threads.add(threading.get_ident())
        made.append(n)

    with Behind() as behind:
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
        with Behind() as behind:
            for n in range(1000):
                behind.put(call, n)

    with pytest.raises(OSError, match="No space left"):
        all_of_them()
    assert made[:3] == [0, 1, 2]
    assert len(made) < 20
