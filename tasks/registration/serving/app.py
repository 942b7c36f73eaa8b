"""The application: endpoints around one reader and one batcher.

Every endpoint reads its form, has it encoded and scored, and answers in its own form. Errors have
one form (problems.py). There are no pages of documentation: they would load scripts from elsewhere.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tasks.registration.serving.guards import OPEN, Guards
from tasks.registration.serving.meters import CONTENT_TYPE, Meters
from tasks.registration.serving.own_form import RewardsRequest
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import (
    ClassifyRequest,
    OpenRlhfRequest,
    ScoreRequest,
    SlimeRequest,
)
from tasks.registration.serving.service import Service

JSON = "application/json"


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
    """Adds the endpoints of other trainers' and servers' protocols."""

    async def get_reward(form: OpenRlhfRequest) -> Response:
        answer = await service.answer(form.to_score())
        return answer.reply({"rewards": answer.rewards})

    async def reward(form: SlimeRequest) -> Response:
        answer = await service.answer(form.to_score())
        return answer.reply(answer.rewards[0])

    async def classify(form: ClassifyRequest) -> Response:
        answer = await service.answer(form.to_score())
        data = [{"label": "reward", "probs": [r], "num_classes": 1} for r in answer.rewards]
        return service.listed(answer, data, "classify")

    async def score(form: ScoreRequest) -> Response:
        answer = await service.answer(form.to_score(service.reader.conversational))
        data = [{"object": "score", "score": r} for r in answer.rewards]
        return service.listed(answer, data, "score")

    async def models() -> Response:
        card = {"id": service.name, "object": "model", "max_model_len": service.reader.limit}
        return Response(orjson.dumps({"object": "list", "data": [card]}), media_type=JSON)

    app.get("/v1/models")(models)
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
        rows = form.to_score()
        answer = await service.answer(rows, normalize=form.normalize)
        data = [
            {"object": "reward", "input": name, "reward": r}
            for name, r in zip(rows.names, answer.rewards, strict=True)
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
        return Response(service.meters.text(), media_type=CONTENT_TYPE)

    app.post("/v1/rewards")(rewards)
    for path in OPEN:
        app.get(path)(healthz)
    app.get("/metrics")(metrics)


def _add_problems(app: FastAPI, meters: Meters) -> None:
    def respond(problem: RequestProblem) -> Response:
        meters.errors.labels(problem.reason).inc()
        return Response(problem.body(), problem.status, problem.headers, media_type=JSON)

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestProblem)
        return respond(error)

    async def malformed(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            message = f"the body is no JSON: {first['ctx']['error']} at {first['loc'][-1]}"
            return respond(RequestProblem(422, "bad_request", message))
        where = ".".join(str(part) for part in first["loc"] if part != "body") or None
        message = f"{where or 'body'}: {first['msg']}"
        return respond(RequestProblem(422, "bad_request", message, where))

    async def unknown(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reason = "no_such_endpoint" if error.status_code in (404, 405) else "bad_request"
        cause = error.__cause__  # of a body that the parser could not even begin or end
        message = f"the body is no JSON: {cause}" if cause else str(error.detail)
        return respond(RequestProblem(error.status_code, reason, message))

    async def failed(_request: Request, error: Exception) -> Response:
        return respond(RequestProblem(500, "failed", f"scoring failed: {type(error).__name__}"))

    app.add_exception_handler(RequestProblem, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, failed)
