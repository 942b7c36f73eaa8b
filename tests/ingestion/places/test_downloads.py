"""Downloads that go on where they were cut, whatever cut them and what a server makes of it."""

import json
import socket
import struct
import time
from email.utils import formatdate

import pytest

from tasks.errors import DataError
from tasks.ingestion.places import downloads
from tests.ingestion.places.servers import serving

LINES = "".join(json.dumps({"n": n, "text": "x" * 100}) + "\n" for n in range(3000)).encode()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.001)


class Cutting:
    """Answers with at most `part_bytes` of what is asked for, then cuts in its way."""

    part_bytes = 40_000

    def __init__(self, way):
        self.way = way
        self.requests = []

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.requests.append(wanted)
        start = int(wanted[6:-1]) if wanted else 0
        part, whole = LINES[start:][: self.part_bytes], start + self.part_bytes >= len(LINES)
        request.send_response(206 if wanted else 200)
        request.send_header("ETag", '"1"')
        if self.way == "chunk":
            request.send_header("Transfer-Encoding", "chunked")
        else:
            request.send_header("Content-Length", str(len(LINES) - start))
        request.end_headers()
        if self.way == "chunk":
            part = b"%x\r\n%b\r\n" % (len(part), part) + (b"0\r\n\r\n" if whole else b"")
        request.wfile.write(part)
        request.close_connection = True
        if self.way == "reset" and not whole:
            linger = struct.pack("ii", 1, 0)
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@pytest.mark.parametrize("way", ["end", "chunk", "reset"])
@pytest.mark.catalogue(48)
def test_a_download_continues_where_it_was_cut_as_long_as_every_try_comes_further(ingestion, way):
    server = Cutting(way)
    with serving(server.answer) as url:
        artifact = ingestion.run(f"{url}/a.jsonl")
    assert [row["raw"]["n"] for row in ingestion.rows(artifact)] == [*range(3000)]
    starts = [f"bytes={n}-" for n in range(40_000, len(LINES), 40_000)]
    assert server.requests == [None, None, *starts]  # the version, the start, and what was left
    assert len(starts) > downloads.TRIES


@pytest.mark.catalogue(48)
def test_what_came_of_a_download_is_on_disk_at_once(tmp_path):
    part, sizes = tmp_path / "a.part", []
    remote = downloads.Remote("http://x/a", "etag:1", 500, lambda _: (0, iter([b"x" * 100] * 5)))
    downloads.download(remote, tmp_path / "a", lambda _: sizes.append(part.stat().st_size))
    assert sizes == [100, 200, 300, 400, 500]


def test_a_server_that_cannot_continue_and_is_always_cut_is_given_up(tmp_path):
    asked = []

    def read(offset):
        asked.append(offset)
        return 0, iter([b"x" * 100])

    remote = downloads.Remote("http://x/a", "etag:1", 1000, read)
    with pytest.raises(DataError, match=r"not fetched in 5 tries .*100 of 1,000 bytes came"):
        downloads.download(remote, tmp_path / "a", lambda _: None)
    assert asked[0] == 0
    assert len(asked) < 2 * downloads.TRIES


REFUSALS = {
    "bad_request": (400, 0, {}),
    "forbidden": (403, 0, {}),
    "not_satisfiable": (416, 0, {}),
    "not_implemented": (501, 0, {}),
    "weak": (206, 5_000, {"ETag": 'W/"1"', "Content_Range": "bytes 5000-"}),
    "unversioned": (206, 5_000, {"ETag": None, "Content_Range": "bytes 5000-"}),
    "later": (206, 5_010, {"Content_Range": "bytes 5010-"}),
}
"""What is answered to a Range: status, where the body begins, headers."""


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.catalogue(48)
def test_a_download_that_its_server_does_not_continue_is_begun_anew(ingestion, caplog, refusal):
    status, start, headers = REFUSALS[refusal]
    cuts = [None, 5_000]

    def answer(request):
        if request.headers.get("Range"):
            return request.send(status, LINES[start:], **{"ETag": '"1"'} | headers)
        return request.send(200, LINES, cuts.pop(0) if cuts else None, ETag='"1"')

    with serving(answer) as url:
        artifact = ingestion.run(f"{url}/a.jsonl")
    assert [row["raw"]["n"] for row in ingestion.rows(artifact)] == [*range(3000)]
    assert "/a.jsonl: its server does not continue at byte 5,000; begun anew" in caplog.text


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("20", 20), ("3600", 60), (20, 20), (-20, 0), ("soon", 0), ("²", 0), (None, 0)],
    ids=["seconds", "too_long", "date", "past", "neither", "no_decimal", "nothing"],
)
def test_a_server_that_names_the_time_to_wait_is_asked_then(ingestion, monkeypatch, told, seconds):
    """`told`: text as it is, a number as the date in so many seconds."""
    paused, answers = [], [429, 503]
    monkeypatch.setattr(time, "sleep", paused.append)
    when = formatdate(time.time() + told, usegmt=True) if isinstance(told, int) else told

    def answer(request):
        if answers:
            return request.send(answers.pop(0), b"later", Retry_After=when)
        return request.send(200, LINES, ETag='"1"')

    with serving(answer) as url:
        ingestion.run(f"{url}/a.jsonl")
    waits = [pause for pause in paused if pause >= downloads.PAUSE_SECONDS][:2]
    assert waits == pytest.approx([max(seconds, 0.001), max(seconds, 0.002)], abs=3 * bool(seconds))
