"""A model that answers requests: each is encoded, scored in a batch with others, and counted."""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from fastapi import FastAPI
from fastapi.responses import Response

from tasks.registration.loader.inference import ServedModel
from tasks.registration.serving.batching import Batcher
from tasks.registration.serving.meters import Meters
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import RowsToScore
from tasks.registration.serving.reading import Reader
from tasks.registration.serving.settings import ServeSettings


@dataclass(frozen=True)
class Answer:
    """Rewards of a request, in its order."""

    rewards: list[float]
    raw: np.ndarray
    tokens: int
    cut: int

    def reply(self, content: Any) -> Response:
        """The response; `x-cut-sequences` says how many lost their start."""
        headers = {"x-cut-sequences": str(self.cut)} if self.cut else None
        return Response(orjson.dumps(content), media_type="application/json", headers=headers)


class Service:
    """The model with its reader and batcher: everything that answering a request takes."""

    def __init__(self, model: ServedModel, name: str, settings: ServeSettings) -> None:
        self.model, self.name, self.settings = model, name, settings
        self.meters = Meters()
        self.reader = Reader(model, settings)
        self.batcher = Batcher(model, settings, self.meters)
        self.encoding = ThreadPoolExecutor(1, thread_name_prefix="reward-reader")

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncGenerator[None, None]:
        """Inside, requests are answered; at the end those in the queue still are."""
        self.batcher.start()
        yield
        self.batcher.stop()
        self.encoding.shutdown()

    async def answer(self, rows: RowsToScore, *, normalize: bool = False) -> Answer:
        """The rewards of a request's rows.

        Raises:
            RequestProblem: a row cannot be scored.
        """
        if normalize and self.model.scale is None:
            raise RequestProblem(
                422, "no_scale", "the model has no normalization.json: rewards can only be raw"
            )
        loop = asyncio.get_running_loop()
        read = await loop.run_in_executor(self.encoding, self.reader.read, rows)
        self.meters.cut.inc(read.cut)
        raw = await self.batcher.rewards(read.ids, read.prompts)
        scale = self.model.scale if normalize else None
        scaled = scale.normalized(raw) if scale else self.model.scaled(raw)
        rewards = [float(reward) for reward in scaled]
        for name, reward in zip(rows.names, rewards, strict=True):
            if not math.isfinite(reward):
                raise RequestProblem(
                    500, "not_finite", f"the reward of {name} is {reward}, no number", name
                )
        return Answer(rewards, raw, read.tokens, read.cut)

    def listed(self, answer: Answer, data: list[dict[str, Any]], kind: str) -> Response:
        """A list as OpenAI's and vLLM's servers answer it."""
        usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
        numbered = [{"index": i, **entry} for i, entry in enumerate(data)]
        content = {
            "id": f"{kind}-{uuid.uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": self.name,
            "data": numbered,
            "usage": {**usage, "completion_tokens": 0},
        }
        return answer.reply(content)
