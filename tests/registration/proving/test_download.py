"""A version's files that do not come: gone, or behind a server that does not answer now."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from tasks.errors import RegistrationError
from tasks.registration import RegistrationParams
from tasks.registration.aliases.judgement import _is_passing
from tasks.registration.proving.download import download
from tasks.registration.store import refusals_told
from tasks.registration.tracking import client_for

VERSION = ModelVersion("reward-model", "1", 0, run_id="abc")
FILES = ("config.json", "model.safetensors")


@contextmanager
def tracking_server(refuse):
    """The address of a server that has the version's list of files; `refuse(handler)` answers
    whoever wants one of them."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path.endswith("get-download-uri"):
                self._send({"artifact_uri": "mlflow-artifacts:/1/models/m/artifacts"})
            elif query:
                listed = [{"path": n, "is_dir": False, "file_size": 9} for n in FILES]
                self._send({"files": [] if "safetensors" in query else listed})
            elif path.endswith("get"):
                found = {"name": "reward-model", "version": "1"}
                self._send({"registered_model": found, "model_version": found})
            else:
                refuse(self)

        def _send(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def s3(listed):
    """The address of an S3 that hangs up on whoever wants a file, and on whoever wants their list
    unless it is `listed`."""

    class S3(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not (listed and "list-type=2" in self.path):
                hangs_up(self)
                return
            keys = (f"<Contents><Key>m/{n}</Key><Size>9</Size></Contents>" for n in FILES)
            body = f"<ListBucketResult>{''.join(keys)}</ListBucketResult>".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            hangs_up(self)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), S3) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def hangs_up(handler):
    handler.connection.close()


def breaks_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "9")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.wfile.flush()
    handler.connection.close()


def is_busy(handler):
    handler.send_error(503)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")


@pytest.mark.parametrize("refuse", [hangs_up, breaks_off, is_busy])
def test_a_server_that_goes_away_amid_the_files_is_told_in_one_line_and_blames_no_version(
    tmp_path, refuse
):
    with tracking_server(refuse) as uri:
        client = client_for(RegistrationParams(tracking_uri=uri), tmp_path)
        with pytest.raises(RegistrationError, match="version 1 of 'reward-model'") as told:
            download(client, VERSION, tmp_path / "copy")
    assert str(told.value).startswith(f"MLflow's store {uri} did not hand out the files of ")
    assert str(told.value).endswith("; run again once it answers")
    assert "\n" not in str(told.value)
    assert _is_passing(told.value)


def test_files_that_a_server_has_no_more_are_the_versions_own_fault(tmp_path):
    with tracking_server(lambda handler: handler.send_error(404)) as uri:
        client = client_for(RegistrationParams(tracking_uri=uri), tmp_path)
        with pytest.raises(MlflowException, match="404 Client Error") as told:
            download(client, VERSION, tmp_path / "copy")
    assert not _is_passing(told.value)


@pytest.mark.parametrize("listed", [True, False])
def test_a_cloud_that_is_away_is_told_in_one_line_and_blames_no_version(
    place, tmp_path, monkeypatch, listed
):
    place.client.create_registered_model("m")
    version = place.client.create_model_version("m", "s3://bucket/m")
    with s3(listed) as address:
        for name, value in {
            "MLFLOW_S3_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_MAX_ATTEMPTS": "1",
        }.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(RegistrationError) as told, refusals_told(place.params, place.root):
            download(place.client, version, tmp_path / "copy")
    assert f'response from endpoint URL: "{address}/bucket' in str(told.value)
    assert "\n" not in str(told.value)
    assert _is_passing(told.value)
