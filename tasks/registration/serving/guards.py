"""Checks of every request before its rows are read: Host, token, content type, size, server load.

Host and content type are checked since any web page can make a browser on this machine send
requests to 127.0.0.1: a foreign host name that resolves to it (DNS rebinding) shows in the Host
header, an HTML form in the content type. Trainers that cannot set headers put the token into the
URL, as `http://rl:TOKEN@host/...` (basic authentication).
"""

import base64
import binascii
import hmac
import ipaddress
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.registration.serving.body_timeouts import STALLED, BodyTimeouts
from tasks.registration.serving.disconnects import answered
from tasks.registration.serving.meters import Meters
from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.refusing import Incoming, refuse
from tasks.registration.serving.settings import LOCAL_NAMES, ServeSettings

OPEN = ("/healthz", "/health")
"""Health checks, which need no token; the second is vLLM's path."""
UNKNOWN = "other"
"""Name in the metrics for all paths that do not exist here."""


class Guards:
    """ASGI middleware that refuses, counts and times requests."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, meters: Meters, paths: frozenset[str]
    ) -> None:
        self.app, self.settings, self.meters, self.paths = app, settings, meters, paths
        self.hosts = {*LOCAL_NAMES, socket.gethostname().lower()}
        self.hosts |= {name.lower() for name in settings.allowed_hosts}
        self.load = Load()
        self.body_timeouts = BodyTimeouts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, and records its status and duration."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, path = time.monotonic(), scope["path"]
        path = path if path in self.paths else UNKNOWN
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._checked(scope, receive, counted)
        finally:
            self.meters.requests.labels(path, str(status)).inc()
            self.meters.request_seconds.labels(path).observe(time.monotonic() - start)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        incoming = Incoming(receive, waits="expect" in headers)
        mine = Load()
        try:
            self._check_host(headers.get("host", ""))
            if scope["path"] not in OPEN:
                self._check_token(headers.get("authorization", ""))
            body = b""
            if scope["method"] == "POST":
                _check_content_type(headers)
                body = await self._body(headers, incoming, mine)
            await answered(self.app, scope, body, incoming, send)
        except RequestProblem as problem:
            self._take(mine, -mine.requests, -mine.bytes)
            self.meters.errors.labels(problem.reason).inc()
            most = 0 if problem.reason == STALLED else self.settings.max_waiting_bytes
            await refuse(problem, incoming, send, most)
        finally:
            self._take(mine, -mine.requests, -mine.bytes)

    def _take(self, mine: "Load", requests: int, size: int) -> None:
        """Adds requests and bytes to a request's load and to the server's; negative: releases them.

        Raises:
            RequestProblem: the server's load is above its limits (503).
        """
        for load in (mine, self.load):
            load.requests += requests
            load.bytes += size
        most = self.settings
        if requests > 0 and self.load.requests > most.max_waiting_requests:
            raise _busy(f"{most.max_waiting_requests} requests")
        if size > 0 and self.load.bytes > most.max_waiting_bytes:
            raise _busy(f"{most.max_waiting_bytes} bytes")

    def _check_host(self, header: str) -> None:
        name = _host_name(header)
        if name not in self.hosts and not _is_address(name):
            raise RequestProblem(
                421,
                "wrong_host",
                f"this server is not known as {name[:80]!r}; start it with --allowed-host NAME",
            )

    def _check_token(self, header: str) -> None:
        expected = self.settings.token
        if expected is not None and not hmac.compare_digest(
            _shown_token(header), expected.encode()
        ):
            raise RequestProblem(
                401, "no_token", "expected 'Authorization: Bearer TOKEN' with the server's token"
            )

    async def _body(self, headers: Mapping[str, str], receive: Receive, mine: "Load") -> bytes:
        self._take(mine, 1, 0)
        limit = self.settings.max_bytes
        stated = headers.get("content-length", "0")
        if stated.isdecimal() and int(stated) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        more = True
        async with self.body_timeouts.waiting() as extend:
            while more:
                message = await receive()
                extend()
                if message["type"] == "http.disconnect":
                    raise RequestProblem(400, "gone", "the client left before its request was read")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._take(mine, 0, len(parts[-1]))
                if size > limit:
                    raise _too_large(limit)
                more = message.get("more_body", False)
        return b"".join(parts)


@dataclass
class Load:
    """Requests in progress, from first byte to response, and the bytes of their bodies."""

    requests: int = 0
    bytes: int = 0


def _busy(what: str) -> RequestProblem:
    return RequestProblem(503, "busy", f"{what} wait for the model already; ask again")


def _too_large(limit: int) -> RequestProblem:
    return RequestProblem(
        413, "too_large", f"the body has more than {limit} bytes; send fewer rows at a time"
    )


def _check_content_type(headers: Mapping[str, str]) -> None:
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise RequestProblem(
            415, "not_json", f"content type is {content_type[:80]!r}, expected 'application/json'"
        )
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise RequestProblem(
            415, "packed", f"content encoding is {encoding[:80]!r}; send the body as it is"
        )


def _host_name(header: str) -> str:
    """The host without the port, in lower case; an IPv6 address without its brackets."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def _is_address(name: str) -> bool:
    """Whether the host is an IP address, which DNS rebinding cannot fake."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown_token(header: str) -> bytes:
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.strip().encode()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
