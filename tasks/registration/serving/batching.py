"""Dynamic batching: one thread owns the model and scores concurrent requests together.

    request A  [a1 a2]  \\
    request B  [b1]      >  queued while the model was busy  ->  one call of the model
    request C  [c1 ...] /

A request is split into pieces of at most `batch_tokens` tokens, which are queued first in, first
out. A batch takes pieces up to `batch_tokens`; its first piece waits at most `window_ms` for
others. If too many tokens are queued, a new request is refused (503).
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks.registration.loader.inference import ServedModel
from tasks.registration.serving.meters import Meters
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.settings import ServeSettings

LEAST_BATCH_TOKENS = 4096
"""Least default of `batch_tokens`: more than one forward pass on a CPU, since sequences sorted by
length over several passes need less padding."""


@dataclass
class Piece:
    """Sequences of one request that are scored in one call of the model."""

    ids: list[list[int]]
    prompts: list[Any]
    arrived: float = field(default_factory=time.monotonic)
    done: "Future[np.ndarray]" = field(default_factory=lambda: Future[np.ndarray]())

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, without padding."""
        return sum(map(len, self.ids))


class Batcher:
    """The queue of pieces, and the thread that scores them."""

    def __init__(self, model: ServedModel, settings: ServeSettings, meters: Meters) -> None:
        self.model, self.settings, self.meters = model, settings, meters
        self.batch_tokens = settings.batch_tokens or max(
            model.scorer.pass_tokens, LEAST_BATCH_TOKENS
        )
        self.queue: deque[Piece] = deque()
        self.waiting = 0  # tokens in the queue
        self.stopped = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._work, name="reward-model", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread after it has scored everything in the queue."""
        with self.changed:
            self.stopped = True
            self.changed.notify()
        self.thread.join()

    async def rewards(self, ids: Sequence[list[int]], prompts: Sequence[Any]) -> np.ndarray:
        """Raw rewards of N sequences, float32 `[N]`; called by the server's event loop.

        `prompts`: for each sequence a key that sequences of one prompt share.

        Raises:
            RequestProblem: too many tokens are queued (503).
        """
        pieces = list(_pieces(ids, prompts, self.batch_tokens))
        tokens = sum(piece.tokens for piece in pieces)
        with self.changed:
            if self.waiting and self.waiting + tokens > self.settings.max_waiting_tokens:
                raise RequestProblem(
                    503, "busy", f"{self.waiting} tokens wait for the model already; ask again"
                )
            self.queue.extend(pieces)
            self._add_waiting(tokens)
            self.changed.notify()
        futures = [asyncio.wrap_future(piece.done) for piece in pieces]
        return np.concatenate(await asyncio.gather(*futures))

    def _add_waiting(self, tokens: int) -> None:
        self.waiting += tokens
        self.meters.waiting_tokens.set(self.waiting)

    def _work(self) -> None:
        while batch := self._gather():
            # A caller that has gone away cancelled its future.
            batch = [piece for piece in batch if piece.done.set_running_or_notify_cancel()]
            if not batch:
                continue
            try:
                rewards = self._score(batch)
            except Exception as error:  # raised in the callers; the thread serves the next ones
                for piece in batch:
                    piece.done.set_exception(error)
                continue
            for piece, own_rewards in zip(batch, rewards, strict=True):
                piece.done.set_result(own_rewards)

    def _gather(self) -> list[Piece]:
        """The next batch, as soon as there is one; empty once stopped and the queue is empty."""
        with self.changed:
            while not self.queue:
                if self.stopped:
                    return []
                self.changed.wait()
            closing = self.queue[0].arrived + self.settings.window_ms / 1000
            while not self.stopped and self.waiting < self.batch_tokens:
                left = closing - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    break
            batch = [self.queue.popleft()]
            tokens = batch[0].tokens
            while self.queue and tokens + self.queue[0].tokens <= self.batch_tokens:
                batch.append(self.queue.popleft())
                tokens += batch[-1].tokens
            self._add_waiting(-tokens)
            return batch

    def _score(self, batch: list[Piece]) -> list[np.ndarray]:
        ids = [sequence for piece in batch for sequence in piece.ids]
        # Prompts are numbered within a request: those of two requests are kept apart.
        prompts = [(n, prompt) for n, piece in enumerate(batch) for prompt in piece.prompts]
        start = time.monotonic()
        rewards = self.model.rewards_of_ids(ids, prompts)
        self.meters.model_seconds.observe(time.monotonic() - start)
        self.meters.batch_sequences.observe(len(ids))
        self.meters.batch_tokens.observe(sum(map(len, ids)))
        self.meters.sequences.inc(len(ids))
        self.meters.tokens.inc(sum(map(len, ids)))
        ends = np.cumsum([len(piece.ids) for piece in batch])[:-1]
        return np.split(rewards, ends)


def _pieces(ids: Sequence[list[int]], prompts: Sequence[Any], tokens: int) -> list[Piece]:
    """A request split into pieces of at most `tokens`; a longer sequence is a piece of its own."""
    pieces: list[Piece] = []
    room = 0
    for sequence, prompt in zip(ids, prompts, strict=True):
        if not pieces or len(sequence) > room:
            pieces.append(Piece([], []))
            room = tokens
        pieces[-1].ids.append(sequence)
        pieces[-1].prompts.append(prompt)
        room -= len(sequence)
    return pieces
