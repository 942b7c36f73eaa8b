"""What a registry says of versions, asked without a run."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tasks.registration import RegistrationParams, came_of, still_registered

ATTEMPTS = 3


def test_a_server_that_is_away_is_asked_for_a_training_as_often_as_we_set(monkeypatch, tmp_path):
    """MLflow's own retries take minutes, and more than these."""
    asked: list[str] = []

    class Away(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(503)

        def log_message(self, *_: object) -> None: ...

    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    with ThreadingHTTPServer(("127.0.0.1", 0), Away) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert came_of("key", f"http://127.0.0.1:{server.server_port}", Path(tmp_path))
        server.shutdown()
    assert len(asked) == ATTEMPTS


def test_no_password_of_the_store_is_told_with_the_reason_to_register_again(tmp_path):
    params = RegistrationParams(tracking_uri="unknown://me:sesame@store/db?password=sesame")
    said = still_registered({"name": "reward-model", "version": 1}, params.tracking_uri, tmp_path)
    assert said is not None
    assert said.startswith("REGISTRY unknown://***@store/db?*** cannot be asked for version 1 of")
    assert "sesame" not in said
