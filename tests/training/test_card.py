"""The model card tells the truth, and `push_to_hub` carries the model to a hub: here a stand-in."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from datasets import Dataset
from huggingface_hub import HfApi, ModelCard

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
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


@contextmanager
def hub():
    """The hub's API as far as a push goes; yields its address and what was committed."""
    seen = {"requests": [], "files": {}}

    class Hub(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen["requests"].append((self.path, self.headers.get("Authorization")))
            if self.path == "/api/repos/create":
                name = json.loads(body)["name"]
                return self.answer({"url": f"{address}/someone/{name}", "id": f"someone/{name}"})
            if "/preupload/" in self.path:
                files = json.loads(body)["files"]
                regular = [
                    {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for f in files
                ]
                return self.answer({"files": regular})
            if "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        value = line["value"]
                        seen["files"][value["path"]] = base64.b64decode(value["content"])
                    elif line["key"] == "header":
                        seen["message"] = line["value"]["summary"]
                url = f"{address}/someone/a-reward-model/commit/{'0' * 40}"
                return self.answer({"commitUrl": url, "commitOid": "0" * 40})
            return self.answer({}, 200)

        def do_GET(self):
            self.answer({"id": "someone/a-reward-model", "siblings": []})

        def answer(self, value, status=200):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address, seen
    finally:
        server.shutdown()
        server.server_close()


def test_push_to_hub_commits_a_model_that_scores(trainer, tmp_path, monkeypatch):
    with hub() as (address, seen):
        api = HfApi(endpoint=address, token="hf_none")
        monkeypatch.setattr("transformers.trainer.hf_api", lambda: api)
        commit = trainer.push_to_hub(dataset_name="trl-lib/ultrafeedback_binarized")
    assert commit.oid == "0" * 40
    assert seen["message"] == "End of training"
    assert {token for _, token in seen["requests"]} == {"Bearer hf_none"}
    files = seen["files"]
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    assert b"reward-trainer" in files["README.md"]
    for name, data in files.items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(data)
    from tasks.training.model.loading import head_digest

    again = load_reward_model(tmp_path / "copy", need_head=True)
    assert again.head.sha256 == head_digest(trainer.model)
