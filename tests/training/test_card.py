"""The model card tells the truth, and `push_to_hub` carries the model to a hub: here a stand-in."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from datasets import Dataset
from huggingface_hub import HfApi, ModelCard

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import head_digest, load_reward_model
from tasks.training.scoring import score
from tests.training.tiny import make_rows

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "max_steps": 3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}


@pytest.fixture
def trainer(base, tmp_path):
    rows = [{**row, "source": "votes" if n % 4 else "talks"} for n, row in enumerate(make_rows(16))]
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(tmp_path / "a-reward-model"), learning_rate=3e-3, **FIELDS),
        train_dataset=Dataset.from_list(rows),
        eval_dataset={"held": Dataset.from_list(make_rows(5, seed=2))},
    )
    trainer.train()
    trainer.evaluate()
    return trainer


def test_the_card_says_what_the_model_was_made_from_and_how_to_read_it(trainer, base, tmp_path):
    trainer.create_model_card(model_name="someone/model", tags=["mine"])
    text = (tmp_path / "a-reward-model" / "README.md").read_text()
    card = ModelCard(text)
    assert {"reward-trainer", "mine"} <= set(card.data.tags)
    assert card.data.pipeline_tag == "text-classification"
    assert f"Trained from `{base.name}`, with a head that was drawn from the seed" in text
    assert str(base.parent) not in text
    assert "| votes | 12 |\n| talks | 4 |" in text
    assert "| learning_rate | 0.003 |" in text
    assert "| eval_held |" in text
    assert "| torch |" in text
    assert 'from_pretrained("someone/model", dtype=torch.float32)' in text


CHUNK = 50_000


@contextmanager
def hub(in_parts=False):
    """The hub's API as far as a push goes; yields its address and what was committed.

    Weights come as large files: asked for in a batch, put at once or `in_parts`, and named in the
    commit by their hashes alone.
    """
    seen = {"requests": [], "files": {}, "objects": {}, "verified": []}

    class Hub(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.body()
            seen["requests"].append((self.path, self.headers.get("Authorization")))
            if self.path == "/api/repos/create":
                name = json.loads(body)["name"]
                return self.answer({"url": f"{address}/someone/{name}", "id": f"someone/{name}"})
            if "/preupload/" in self.path:
                files = json.loads(body)["files"]
                modes = [
                    {
                        "path": f["path"],
                        "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular",
                        "shouldIgnore": False,
                    }
                    for f in files
                ]
                return self.answer({"files": modes})
            if self.path.endswith("/info/lfs/objects/batch"):
                return self.answer(
                    {
                        "transfer": "multipart" if in_parts else "basic",
                        "objects": [instructions(o) for o in json.loads(body)["objects"]],
                    }
                )
            if "/complete/" in self.path:
                oid, parts = self.path.rpartition("/")[2], seen["parts"]
                given = json.loads(body)
                assert given["oid"] == oid
                assert [p["partNumber"] for p in given["parts"]] == [*range(1, len(parts) + 1)]
                keep(oid, b"".join(parts[str(p["partNumber"])] for p in given["parts"]))
                return self.answer({})
            if self.path == "/verify":
                seen["verified"].append(json.loads(body)["oid"])
                return self.answer({})
            if "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        value = line["value"]
                        seen["files"][value["path"]] = base64.b64decode(value["content"])
                    elif line["key"] == "lfsFile":
                        value = line["value"]
                        seen["files"][value["path"]] = seen["objects"][value["oid"]]
                        assert value["size"] == len(seen["objects"][value["oid"]])
                    elif line["key"] == "header":
                        seen["message"] = line["value"]["summary"]
                url = f"{address}/someone/a-reward-model/commit/{'0' * 40}"
                return self.answer({"commitUrl": url, "commitOid": "0" * 40})
            return self.answer({}, 200)

        def body(self):
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def do_PUT(self):
            data = self.body()
            place = self.path.rpartition("/")[2]
            if "/part/" in self.path:
                seen.setdefault("parts", {})[place] = data
            else:
                keep(place, data)
            self.answer({}, etag=f"etag-{place}")

        def do_GET(self):
            self.answer({"id": "someone/a-reward-model", "siblings": []})

        def answer(self, value, status=200, etag=None):
            data = json.dumps(value).encode()
            self.send_response(status)
            if etag:
                self.send_header("ETag", etag)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def instructions(wanted):
        """Where a large file goes; in parts where it is longer than one."""
        oid, size = wanted["oid"], wanted["size"]
        upload = {"href": f"{address}/put/{oid}"}
        if in_parts:
            numbers = range(1, -(-size // CHUNK) + 1)
            parts = {f"{n:05d}": f"{address}/part/{n}" for n in numbers}
            upload = {
                "href": f"{address}/complete/{oid}",
                "header": {"chunk_size": str(CHUNK), **parts},
            }
        verify = {"href": f"{address}/verify"}
        return {"oid": oid, "size": size, "actions": {"upload": upload, "verify": verify}}

    def keep(oid, data):
        assert hashlib.sha256(data).hexdigest() == oid
        seen["objects"][oid] = data

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address, seen
    finally:
        server.shutdown()
        server.server_close()


# huggingface_hub hands its files to httpx by an older name
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
def test_push_to_hub_commits_a_model_that_scores(trainer, tmp_path, monkeypatch, in_parts):
    # large files by the protocol that every hub understands, not by a service of its own
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    with hub(in_parts) as (address, seen):
        api = HfApi(endpoint=address, token="hf_none")
        monkeypatch.setattr("transformers.trainer.hf_api", lambda: api)
        commit = trainer.push_to_hub(dataset_name="trl-lib/ultrafeedback_binarized")
    assert commit.oid == "0" * 40
    assert seen["message"] == "End of training"
    assert {token for path, token in seen["requests"] if "/complete/" not in path} == {
        "Bearer hf_none"
    }
    assert len(seen["objects"]) == 1
    assert seen["verified"] == [*seen["objects"]]
    assert len(seen.get("parts", {})) == (2 if in_parts else 0)
    files = seen["files"]
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    assert b"reward-trainer" in files["README.md"]
    for name, data in files.items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(data)
    again = load_reward_model(tmp_path / "copy", need_head=True)
    assert again.head.sha256 == head_digest(trainer.model)
    ids = torch.tensor([[5, 9, 44, 1], [7, 30, 21, 1]])
    with torch.no_grad():
        mine, theirs = (
            score(model.eval(), ids, torch.ones_like(ids)) for model in (trainer.model, again.model)
        )
    assert torch.equal(mine, theirs)
