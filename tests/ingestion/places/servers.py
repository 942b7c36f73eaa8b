"""Servers that the tests fetch from: of files, with faults on demand; of a hub; of a bucket."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

LINES = "".join(json.dumps({"n": n, "text": "x" * 100}) + "\n" for n in range(3000)).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[["_Handler"], None]

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None: ...

    def send(
        self, status: int, body: bytes = b"", cut: int | None = None, **headers: object
    ) -> None:
        """One answer; with `cut`, the connection ends after that many bytes of the body."""
        self.send_response(status)
        for name, value in ({"Content-Length": len(body)} | headers).items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serving(answer: Callable[[_Handler], None]) -> Iterator[str]:
    """The address of a server that answers so."""
    handler = type("Handler", (_Handler,), {"answer": lambda self: answer(self)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Files:
    """Path -> content; every request is remembered with its Range."""

    content: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """Bytes after which the next answers to downloads are cut."""
    statuses: list[int] = field(default_factory=list)
    """Given instead of the next answers."""
    headers: dict[str, str] = field(default_factory=dict)
    """Given with every file, in place of the usual ones."""
    etags: bool = True
    ranges: bool = True
    part_bytes: int | None = None
    """Of a range that is asked for at most, in one answer."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, request: _Handler) -> None:
        path, wanted = request.path.partition("?")[0], request.headers.get("Range")
        self.requests.append((path, wanted))
        if self.statuses:
            return request.send(self.statuses.pop(0), b"try later")
        if path.startswith("/to/"):
            target = path.removeprefix("/to/").replace("_", ":", 1)
            return request.send(302, Location=target)
        if path not in self.content:
            return request.send(404, b"\x1b[31mno such file")
        body = self.content[path]
        kind = "text/html; charset=utf-8" if path.endswith("login") else "binary/octet-stream"
        headers = {"Content-Type": kind} | self.headers
        if self.etags:
            headers["ETag"] = f'"{hashlib.md5(body).hexdigest()}"'
        status = 200
        if wanted and self.ranges:
            status, body = 206, body[int(wanted[6:-1]) :][: self.part_bytes]
            if not body:
                return request.send(416, **headers)
        return request.send(status, body, self.cuts.pop(0) if self.cuts else None, **headers)


@dataclass
class Hub:
    """One repository: revision -> commit, commit -> path -> content."""

    repository: str
    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    gated: bool = False
    kind: str = "datasets"
    """Or `models`, whose files have no prefix in their addresses."""
    requests: list[str] = field(default_factory=list)

    def answer(self, request: _Handler) -> None:
        self.requests.append(request.path)
        path = request.path.partition("?")[0]
        api = f"/api/{self.kind}/{self.repository}"
        prefix = "/datasets" if self.kind == "datasets" else ""
        files = f"{prefix}/{self.repository}/resolve/"
        if found := re.fullmatch(rf"{api}/revision/(.+)", path):
            commit = self.branches.get(found[1].replace("%2F", "/"))
            if commit is None:
                return request.send(404, b"{}", X_Error_Code="RevisionNotFound")
            info = {"id": self.repository, "sha": commit, "siblings": []}
            return request.send(200, json.dumps(info).encode(), Content_Type="application/json")
        if found := re.fullmatch(rf"{api}/tree/([0-9a-f]+)/?", path):
            tree = [_entry(*item) for item in self.commits[found[1]].items()]
            return request.send(200, json.dumps(tree).encode(), Content_Type="application/json")
        if path.startswith(files):
            if self.gated:
                return request.send(403, b"{}", X_Error_Code="GatedRepo")
            commit, _, name = path.removeprefix(files).partition("/")
            body = self.commits[commit][unquote(name)]
            return request.send(200, body, ETag=f'"{_blob(body)}"', X_Repo_Commit=commit)
        return request.send(401, b"{}", X_Error_Code="RepoNotFound")


def _blob(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


def _entry(path: str, body: bytes) -> dict[str, object]:
    return {"type": "file", "path": path, "size": len(body), "oid": _blob(body)}


@dataclass
class GoogleBucket:
    """One bucket of Google's store: what its JSON interface says of objects, and their bytes."""

    name: str
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def answer(self, request: _Handler) -> None:
        address = urlsplit(request.path)
        self.requests.append(address.path)
        found = re.fullmatch(r"(/download)?/storage/v1/b/([^/]+)/o/?(.*)", address.path)
        if found is None or found[2] != self.name:
            return self._send(request, 404, {"error": {"code": 404, "message": "no such bucket"}})
        name = unquote(found[3])
        if not name:
            return self._send(request, 200, self._listed(parse_qs(address.query)))
        if name not in self.objects:
            return self._send(request, 404, {"error": {"code": 404, "message": "no such object"}})
        if not found[1]:
            return self._send(request, 200, self._told(name))
        body, wanted = self.objects[name], request.headers.get("Range")
        first, _, last = (wanted or "bytes=0-").removeprefix("bytes=").partition("-")
        part = body[int(first) : int(last) + 1 if last else None]
        return request.send(206 if wanted else 200, part)

    def _told(self, name: str) -> dict[str, object]:
        body = self.objects[name]
        digest = base64.b64encode(hashlib.md5(body).digest()).decode()
        generation = str(int.from_bytes(hashlib.md5(body).digest()[:6], "big"))
        return {"kind": "storage#object", "name": name, "bucket": self.name, "md5Hash": digest,
                "size": str(len(body)), "generation": generation, "etag": digest}  # fmt: skip

    def _listed(self, query: dict[str, list[str]]) -> dict[str, object]:
        prefix, delimiter = (query.get(key, [""])[0] for key in ("prefix", "delimiter"))
        names = [name for name in sorted(self.objects) if name.startswith(prefix)]
        deeper = [n for n in names if delimiter and delimiter in n[len(prefix) :]]
        below = {prefix + n[len(prefix) :].partition(delimiter)[0] + delimiter for n in deeper}
        items = [self._told(name) for name in names if name not in deeper]
        return {"items": items, "prefixes": sorted(below)}

    @staticmethod
    def _send(request: _Handler, status: int, answer: dict[str, object]) -> None:
        request.send(status, json.dumps(answer).encode(), Content_Type="application/json")
