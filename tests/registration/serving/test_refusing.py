"""Refusals reach clients that are still sending, over a real connection."""

import http.client
import json
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest
import uvicorn

from tasks.registration.serving import body_timeouts
from tasks.registration.serving.app import build_app
from tasks.registration.serving.service import Service
from tasks.registration.serving.settings import ServeSettings

TOKEN = "a-token-of-some-length"
JSON = {"content-type": "application/json"}
LARGE = json.dumps({"query": ["blue " * 2**21]}).encode()  # more than a connection's buffers hold


@contextmanager
def listening(model, **settings):
    """The port of a server in a thread of this process."""
    app = build_app(Service(model, "m", ServeSettings(**settings)))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def post(port, body, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with closing(connection):
        connection.request("POST", "/get_reward", body, JSON | headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["error"]["type"]


def parts():
    for start in range(0, len(LARGE), 2**16):
        yield LARGE[start : start + 2**16]


@pytest.mark.parametrize("form", [lambda: LARGE, parts], ids=["whole", "chunked"])
def test_a_client_with_a_large_body_reads_why_it_is_refused(model, form):
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with listening(model, token=TOKEN, max_bytes=2**20) as port:
        assert post(port, form()) == (401, "no_token")
        assert post(port, form(), host="evil.example") == (421, "wrong_host")
        assert post(port, form(), **bearer, **{"content-type": "text/plain"}) == (415, "not_json")
        assert post(port, form(), **bearer) == (413, "too_large")
    with listening(model, max_bytes=2**30, max_waiting_bytes=2**23) as port:
        assert post(port, form()) == (503, "busy")


def test_a_client_that_asks_first_is_refused_before_it_sends_its_body(model):
    asked = (
        "POST /get_reward HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(LARGE)}\r\nexpect: 100-continue\r\n\r\n"
    )
    with (
        listening(model, token=TOKEN) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        connection.makefile() as answer,
    ):
        connection.sendall(asked.encode())
        assert answer.readline().split()[1] == "401"


def begun(connection):
    """Sends the head of a request, and a part of its body."""
    head = "POST /get_reward HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    connection.sendall(f'{head}content-length: 900\r\n\r\n{{"query": ['.encode())


def test_a_body_that_does_not_come_is_not_waited_for(model, monkeypatch):
    monkeypatch.setattr(body_timeouts, "BODY_SECONDS", 0.5)
    with (
        listening(model) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        connection.makefile() as answer,
    ):
        begun(connection)
        for _ in range(4):  # slow, and not stalled
            time.sleep(0.2)
            connection.sendall(b" ")
        assert answer.readline().split()[1] == "408"
        assert "none of it came for 0.5 s; send the request again" in answer.read()
