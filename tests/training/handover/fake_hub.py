"""The hub's API as far as a push goes, on this machine.

Weights come as large files: asked for in a batch, put at once or in parts, and named in the commit
by their hashes alone.
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 50_000
COMMIT = "0" * 40


@contextmanager
def hub(in_parts=False):
    """Yields the hub's address and what it was asked and given."""
    server = _Server(("127.0.0.1", 0), _Hub)
    server.in_parts = in_parts
    server.seen = {"requests": [], "files": {}, "objects": {}, "verified": [], "parts": {}}
    server.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.address, server.seen
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def instructions(self, wanted):
        """Where a large file goes; in parts where it is longer than one."""
        oid, size = wanted["oid"], wanted["size"]
        upload = {"href": f"{self.address}/put/{oid}"}
        if self.in_parts:
            numbers = range(1, -(-size // CHUNK) + 1)
            parts = {f"{n:05d}": f"{self.address}/part/{n}" for n in numbers}
            upload = {
                "href": f"{self.address}/complete/{oid}",
                "header": {"chunk_size": str(CHUNK), **parts},
            }
        verify = {"href": f"{self.address}/verify"}
        return {"oid": oid, "size": size, "actions": {"upload": upload, "verify": verify}}

    def keep(self, oid, data):
        assert hashlib.sha256(data).hexdigest() == oid
        self.seen["objects"][oid] = data


class _Hub(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({"id": "someone/a-reward-model", "siblings": []})

    def do_PUT(self):
        data = self.body()
        place = self.path.rpartition("/")[2]
        if "/part/" in self.path:
            self.server.seen["parts"][place] = data
        else:
            self.server.keep(place, data)
        self.answer({}, etag=f"etag-{place}")

    def do_POST(self):
        body = self.body()
        self.server.seen["requests"].append((self.path, self.headers.get("Authorization")))
        for part, asked in (
            ("/api/repos/create", self.create),
            ("/preupload/", self.modes),
            ("/info/lfs/objects/batch", self.batch),
            ("/complete/", self.complete),
            ("/verify", self.verify),
            ("/commit/", self.commit),
        ):
            if part in self.path:
                return self.answer(asked(body))
        return self.answer({})

    def create(self, body):
        name = json.loads(body)["name"]
        return {"url": f"{self.server.address}/someone/{name}", "id": f"someone/{name}"}

    def modes(self, body):
        paths = [file["path"] for file in json.loads(body)["files"]]
        kinds = {True: "lfs", False: "regular"}
        modes = [{"path": p, "uploadMode": kinds[p.endswith(".safetensors")]} for p in paths]
        return {"files": [mode | {"shouldIgnore": False} for mode in modes]}

    def batch(self, body):
        return {
            "transfer": "multipart" if self.server.in_parts else "basic",
            "objects": [self.server.instructions(o) for o in json.loads(body)["objects"]],
        }

    def complete(self, body):
        oid, parts = self.path.rpartition("/")[2], self.server.seen["parts"]
        given = json.loads(body)
        assert given["oid"] == oid
        assert [p["partNumber"] for p in given["parts"]] == [*range(1, len(parts) + 1)]
        self.server.keep(oid, b"".join(parts[str(p["partNumber"])] for p in given["parts"]))
        return {}

    def verify(self, body):
        self.server.seen["verified"].append(json.loads(body)["oid"])
        return {}

    def commit(self, body):
        seen = self.server.seen
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                seen["files"][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                seen["files"][value["path"]] = seen["objects"][value["oid"]]
                assert value["size"] == len(seen["objects"][value["oid"]])
            elif line["key"] == "header":
                seen["message"] = value["summary"]
        url = f"{self.server.address}/someone/a-reward-model/commit/{COMMIT}"
        return {"commitUrl": url, "commitOid": COMMIT}

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def answer(self, value, etag=None):
        data = json.dumps(value).encode()
        self.send_response(200)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
