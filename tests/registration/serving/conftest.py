"""A client of a running server."""

import pytest


@pytest.fixture
def client(model):
    """Makes a client of a running server with these settings."""
    from contextlib import ExitStack

    from starlette.testclient import TestClient

    from tasks.registration.serving.app import build_app
    from tasks.registration.serving.service import Service
    from tasks.registration.serving.settings import ServeSettings

    with ExitStack() as stack:

        def make(headers=None, base_url="http://127.0.0.1", served=model, **settings):
            app = build_app(Service(served, "models:/reward-model/4", ServeSettings(**settings)))
            asked = TestClient(app, base_url, headers=headers or {}, raise_server_exceptions=False)
            return stack.enter_context(asked)

        yield make
