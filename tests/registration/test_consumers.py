"""What RL receives: a version that loads and scores without this project."""

import json
import os
import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tasks.errors import RegistrationError
from tasks.registration import load_reward_model
from tasks.registration.package import carried_files, package
from tasks.registration.task import receipt
from tests.evaluation.pieces import conversations, write_reward_model

CONSUMER = """
import sys, json, time, warnings

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tasks", "flows"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
try:
    import tasks
    raise SystemExit("the project is importable")
except ImportError:
    pass

import pandas as pd
import mlflow

given = json.load(sys.stdin)
start = time.time()
model = mlflow.pyfunc.load_model("models:/reward-model@champion")
seconds = time.time() - start
frame = pd.DataFrame({"messages": given["messages"]})
found = {
    "load_seconds": seconds,
    "frame": [float(r) for r in model.predict(frame)],
    "texts": [float(r) for r in model.predict(given["texts"])],
}

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

path = mlflow.artifacts.download_artifacts("models:/reward-model@champion", dst_path=given["to"])
reward = AutoModelForSequenceClassification.from_pretrained(path)
tokenizer = AutoTokenizer.from_pretrained(path)
texts = [tokenizer.apply_chat_template(m, tokenize=False) for m in given["messages"]]
batch = tokenizer(texts, add_special_tokens=False, padding=True, padding_side="right",
                  return_tensors="pt")
with torch.no_grad():
    found["transformers"] = reward(**batch).logits[:, 0].tolist()
found["num_labels"], found["problem_type"] = reward.config.num_labels, reward.config.problem_type
print(json.dumps(found))
"""


@pytest.mark.slow
def test_pyfunc_and_transformers_score_as_the_evaluation_did_without_this_project(place, tmp_path):
    made = place.evaluated(1)
    registered = receipt(place.register(made))
    rows = conversations(20)
    messages = [[*r["prompt"], *r["chosen"]] for r in rows]
    served = load_reward_model(registered["location"], "cpu")
    texts = ["The sky is blue", "What color? " + "It is so. " * 9]
    given = {"messages": messages, "texts": texts, "to": str(tmp_path / "downloaded")}
    (tmp_path / "downloaded").mkdir()
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CONSUMER],
        cwd=tmp_path / "elsewhere",
        input=json.dumps(given),
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "_MLFLOW"))},
            "MLFLOW_TRACKING_URI": f"sqlite:///{place.root}/mlruns/mlflow.db",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    evaluated = pq.read_table(made[1].path / "scores.parquet")["reward_chosen"].to_pylist()
    assert found["frame"] == pytest.approx(evaluated, abs=1e-6)
    assert found["transformers"] == pytest.approx(evaluated, abs=1e-6)
    assert found["texts"] == pytest.approx(served.rewards(texts).tolist(), abs=1e-6)
    assert (found["num_labels"], found["problem_type"]) == (1, "regression")
    print(f"pyfunc loaded in {found['load_seconds']:.2f} s")


@pytest.fixture(scope="module")
def model_directory(tiny_model_directory, tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    write_reward_model(tiny_model_directory, directory, seed=1)
    return directory


def test_every_form_of_input_gives_the_same_reward(model_directory):
    model = load_reward_model(model_directory, "cpu")
    messages = [{"role": "user", "content": "What color?"}, {"role": "assistant", "content": "So"}]
    (expected,) = model.rewards([messages])
    assert expected.dtype == "float32"
    forms = [
        pd.DataFrame({"messages": [messages]}),
        pd.DataFrame({"messages": [json.dumps(messages)], "tools": [None]}),
        pd.DataFrame({"messages": [messages], "chat_template_kwargs": [float("nan")]}),
        [{"messages": messages}],
        {"messages": messages},
        [messages],
        messages,
    ]
    for form in forms:
        assert model.predict(form).tolist() == [expected]
    assert model.predict([messages, messages, "text"])[:2].tolist() == [expected] * 2


def test_text_gets_the_end_token_once(model_directory):
    model = load_reward_model(model_directory, "cpu")
    end = model.tokenizer.eos_token
    assert model.token_ids("blue sky") == model.token_ids("blue sky" + end)
    assert model.token_ids("blue sky")[-1] == model.tokenizer.eos_token_id
    mixed = pd.DataFrame({"text": ["blue sky", "green"]})
    assert model.predict(mixed).tolist() == model.rewards(["blue sky", "green"]).tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"prompt": ["x"]}), r"columns are \['prompt'\]; expected 'messages'"),
        ([3], "expected a text, a list of messages"),
        ([[{"content": "x"}]], "expected a list of mappings with role"),
        ([[]], "expected a list of mappings with role"),
    ],
)
def test_other_input_is_refused_with_what_was_expected(model_directory, data, message):
    with pytest.raises(ValueError, match=message):
        load_reward_model(model_directory, "cpu").predict(data)


def test_only_files_on_the_list_travel_and_all_may_read_them(model_directory, tmp_path):
    import shutil

    trained = tmp_path / "trained"
    shutil.copytree(model_directory, trained)
    (trained / "training_args.bin").write_bytes(b"a pickle")
    (trained / "modeling_own.py").write_text("print('code')")
    (trained / "model.safetensors").chmod(0o600)
    package(trained, tmp_path / "package")
    files = {p.relative_to(tmp_path / "package").as_posix() for p in tmp_path.rglob("package/**/*")}
    assert {"MLmodel", "config.json", "model.safetensors", "tokenizer.json"} <= files
    assert not {"training_args.bin", "modeling_own.py"} & files
    assert all(
        p.stat().st_mode & 0o777 == 0o644 for p in (tmp_path / "package").rglob("*") if p.is_file()
    )
    requirements = (tmp_path / "package" / "requirements.txt").read_text()
    assert "transformers==" in requirements
    assert "+" not in requirements


def test_a_model_that_brings_code_or_lacks_its_tokenizer_is_refused(model_directory, tmp_path):
    import shutil

    trained = tmp_path / "trained"
    shutil.copytree(model_directory, trained)
    config = json.loads((trained / "config.json").read_text())
    (trained / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "x.Y"}}))
    with pytest.raises(RegistrationError, match="auto_map"):
        carried_files(trained)
    (trained / "tokenizer_config.json").unlink()
    with pytest.raises(RegistrationError, match="has no tokenizer_config"):
        carried_files(trained)
