"""The application: endpoints around one reader and one batcher.

Every endpoint reads its form, has it encoded and scored, and answers in its own form. Errors have
one form (problems.py). There are no pages of documentation: they would load scripts from elsewhere.
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tasks.registration.loader.inference import ServedModel
from tasks.registration.serving import meters as metering
from tasks.registration.serving.batching import Batcher
from tasks.registration.serving.guards import Guards
from tasks.registration.serving.meters import Meters
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import (
    Asked,
    ClassifyRequest,
    OpenRlhfRequest,
    RewardsRequest,
    ScoreRequest,
    SlimeRequest,
)
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
    """A model that answers requests."""

    def __init__(self, model: ServedModel, name: str, settings: ServeSettings) -> None:
        self.model, self.name, self.settings = model, name, settings
        self.meters = Meters()
        self.reader = Reader(model, settings)
        self.batcher = Batcher(model, settings, self.meters)
        self.encoding = ThreadPoolExecutor(1, thread_name_prefix="reward-reader")

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncGenerator[None, None]:
        """While the server runs; what is in the line is answered at the end."""
        self.batcher.start()
        yield
        self.batcher.stop()
        self.encoding.shutdown()

    async def answer(self, asked: Asked, *, normalize: bool = False) -> Answer:
        """The rewards of what a request asks for.

        Raises:
            RequestProblem: it cannot be scored.
        """
        if normalize and self.model.scale is None:
            raise RequestProblem(
                422, "no_scale", "the model has no normalization.json: rewards can only be raw"
            )
        loop = asyncio.get_running_loop()
        read = await loop.run_in_executor(self.encoding, self.reader.read, asked)
        self.meters.cut.inc(read.cut)
        raw = await self.batcher.rewards(read.ids, read.prompts)
        own = self.model.scale if normalize else None
        scaled = own.normalized(raw) if own else self.model.scaled(raw)
        rewards = [float(reward) for reward in scaled]
        for name, reward in zip(asked.names, rewards, strict=True):
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


def build_app(service: Service) -> Guards:
    """The ASGI application of a service."""
    app = FastAPI(
        title="reward-pipeline", lifespan=service.running, openapi_url=None, redirect_slashes=False
    )
    _add_forms(app, service)
    _add_own_forms(app, service)
    _add_problems(app, service.meters)
    paths = frozenset(str(getattr(route, "path", "")) for route in app.routes)
    return Guards(app, service.settings, service.meters, paths)


def _add_forms(app: FastAPI, service: Service) -> None:
    """The forms of others."""

    async def get_reward(form: OpenRlhfRequest) -> Response:
        answer = await service.answer(form.asked())
        return answer.reply({"rewards": answer.rewards})

    async def reward(form: SlimeRequest) -> Response:
        answer = await service.answer(form.asked())
        return answer.reply(answer.rewards[0])

    async def classify(form: ClassifyRequest) -> Response:
        answer = await service.answer(form.asked())
        data = [{"label": "reward", "probs": [r], "num_classes": 1} for r in answer.rewards]
        return service.listed(answer, data, "classify")

    async def score(form: ScoreRequest) -> Response:
        answer = await service.answer(form.asked(service.reader.conversational))
        data = [{"object": "score", "score": r} for r in answer.rewards]
        return service.listed(answer, data, "score")

    endpoints: dict[str, Callable[..., Awaitable[Response]]] = {
        "/get_reward": get_reward,
        "/reward": reward,
        "/classify": classify,
        "/v1/classify": classify,
        "/score": score,
        "/v1/score": score,
    }
    for path, endpoint in endpoints.items():
        app.post(path)(endpoint)


def _add_own_forms(app: FastAPI, service: Service) -> None:
    async def rewards(form: RewardsRequest) -> Response:
        asked = form.asked()
        answer = await service.answer(asked, normalize=form.normalize)
        data = [
            {"object": "reward", "input": name, "reward": r}
            for name, r in zip(asked.names, answer.rewards, strict=True)
        ]
        if service.model.scale:
            outside = service.model.scale.outside(answer.raw).tolist()
            for entry, beyond in zip(data, outside, strict=True):
                entry["outside_held_out_range"] = beyond
        return service.listed(answer, data, "reward")

    async def healthz() -> dict[str, Any]:
        # Nothing listens before the model is loaded and its contract has been replayed.
        return {
            "status": "ready",
            "model": service.name,
            "golden_sequences": service.model.golden,
            "max_tokens": service.reader.limit,
            "device": service.model.device,
            "threads": torch.get_num_threads(),
        }

    async def metrics() -> Response:
        return Response(service.meters.text(), media_type=metering.CONTENT_TYPE)

    app.post("/v1/rewards")(rewards)
    app.get("/healthz")(healthz)
    app.get("/metrics")(metrics)


def _add_problems(app: FastAPI, meters: Meters) -> None:
    def told(problem: RequestProblem) -> Response:
        meters.errors.labels(problem.reason).inc()
        return Response(
            problem.body(), problem.status, problem.headers, media_type="application/json"
        )

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestProblem)
        return told(error)

    async def malformed(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return told(RequestProblem(422, "bad_request", "the body is no JSON"))
        where = ".".join(str(part) for part in first["loc"] if part != "body") or None
        return told(RequestProblem(422, "bad_request", f"{where or 'body'}: {first['msg']}", where))

    async def unknown(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reason = "no_such_endpoint" if error.status_code in (404, 405) else "bad_request"
        return told(RequestProblem(error.status_code, reason, str(error.detail)))

    async def failed(_request: Request, error: Exception) -> Response:
        return told(RequestProblem(500, "failed", f"scoring failed: {type(error).__name__}"))

    app.add_exception_handler(RequestProblem, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, failed)
