"""What goes to the model together: in its order, within its bound, not before its time."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tasks.registration.serving.batching import Batcher, Piece
from tasks.registration.serving.meters import Meters
from tasks.registration.serving.settings import ServeSettings


def test_the_first_waits_for_others_until_a_batch_is_full_and_no_batch_is_more_than_that(model):
    batcher = Batcher(model, ServeSettings(batch_tokens=10), Meters())
    first, second, third, small = (Piece([[7] * n], [0]) for n in (4, 5, 2, 1))
    first.arrived = time.monotonic() + 600  # its window closes then

    def come(piece: Piece) -> None:
        with batcher.changed:
            batcher.queue.append(piece)
            batcher.waiting += piece.tokens
            batcher.changed.notify()

    with ThreadPoolExecutor(1) as pool:
        come(first)
        gathering = pool.submit(batcher._gather)
        come(second)
        with pytest.raises(TimeoutError):
            gathering.result(0.1)
        come(third)
        assert gathering.result(60) == [first, second]
        come(small)
        assert pool.submit(batcher._gather).result(60) == [third, small]  # theirs has closed
        assert batcher.waiting == 0
        come(Piece([[7] * 11], [0]))  # a sequence that is longer goes alone
        come(small)
        assert [p.tokens for p in pool.submit(batcher._gather).result(60)] == [11]
        batcher.stopped = True
        assert pool.submit(batcher._gather).result(60) == [small]
        assert pool.submit(batcher._gather).result(60) == []
