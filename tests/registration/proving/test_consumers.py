"""What RL receives: a version that loads and scores without this project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tasks.errors import RegistrationError
from tasks.registration import as_reward_func, load_reward_model
from tasks.registration.loader.contract_replay import golden_of
from tasks.registration.proving.package import carried_files, package
from tasks.registration.task import receipt
from tests.evaluation.pieces import conversations

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
    "golden": [float(r) for r in model.predict(given["golden"])],
}

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

path = mlflow.artifacts.download_artifacts("models:/reward-model@champion", dst_path=given["to"])
reward = AutoModelForSequenceClassification.from_pretrained(path)
tokenizer = AutoTokenizer.from_pretrained(path)
talks = given["messages"] + given["golden_talks"]
texts = [tokenizer.apply_chat_template(m, tokenize=False) for m in talks]
batch = tokenizer(texts, add_special_tokens=False, padding=True, padding_side="right",
                  return_tensors="pt")
with torch.no_grad():
    found["transformers"] = reward(**batch).logits[:, 0].tolist()
    found["exact"] = reward.double()(**batch).logits[:, 0].tolist()
found["num_labels"], found["problem_type"] = reward.config.num_labels, reward.config.problem_type
print(json.dumps(found))
"""


def golden(directory) -> tuple[list, list[float]]:
    """Rows of the score contract, as a consumer sends them, and the rewards that it promises."""
    contract = json.loads((Path(directory) / "reward_contract.json").read_bytes())
    found = [(row, reward) for _, row, _, reward in golden_of(contract) if row is not None]
    rows = [{"messages": row["messages"]} if isinstance(row, dict) else row for row, _ in found]
    assert {type(row) for row in rows} == {dict, str}
    return rows, [reward for _, reward in found]


@pytest.mark.slow
def test_pyfunc_and_transformers_score_as_the_evaluation_did_without_this_project(place, tmp_path):
    made = place.evaluated(1)
    registered = receipt(place.register(made))
    rows = conversations(20)
    messages = [[*r["prompt"], *r["chosen"]] for r in rows]
    served = load_reward_model(registered["location"], "cpu")
    texts = ["The sky is blue", "What color? " + "It is so. " * 9]
    asked, promised = golden(registered["location"])
    talks = [
        (row["messages"], r) for row, r in zip(asked, promised, strict=True) if "messages" in row
    ]
    given = {"messages": messages, "texts": texts, "to": str(tmp_path / "downloaded")}
    given |= {"golden": asked, "golden_talks": [talk for talk, _ in talks]}
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
    # Two sums of float32 differ by the roundings of both: each is held against float64.
    assert evaluated == pytest.approx(found["exact"][:20], abs=1e-6)
    assert found["transformers"][:20] == pytest.approx(found["exact"][:20], abs=1e-6)
    assert found["golden"] == pytest.approx(promised, abs=1e-5)
    assert found["transformers"][20:] == pytest.approx([r for _, r in talks], abs=1e-5)
    assert found["texts"] == pytest.approx(served.rewards(texts).tolist(), abs=1e-6)
    assert (found["num_labels"], found["problem_type"]) == (1, "regression")
    print(f"pyfunc loaded in {found['load_seconds']:.2f} s")


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
    model = load_reward_model(model_directory, "cpu", special_tokens_in_text="keep")
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
        package(trained, tmp_path / "package")
    (trained / "tokenizer_config.json").unlink()
    with pytest.raises(RegistrationError, match="has no tokenizer_config"):
        carried_files(trained)


@pytest.fixture(scope="module")
def sky_prompts():
    words = ("sky", "color", "blue", "green")
    return [[{"role": "user", "content": f"What color is the {word}?"}] for word in words]


def steps_of(trainer_name, policy, reward_funcs, prompts, tmp_path):
    """What an RL trainer of TRL logs in one step."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    settings = getattr(trl, f"{trainer_name}Config")(
        output_dir=str(tmp_path / "rl"),
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=8,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=3,
    )
    trainer = getattr(trl, f"{trainer_name}Trainer")(
        model=str(policy),
        reward_funcs=reward_funcs,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
    )
    trainer.train()
    return trainer.state.log_history[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trainer_name", ["GRPO", "RLOO"])
def test_trl_trains_with_the_directory_and_with_our_function_and_both_score_alike(
    trainer_name, tiny_model_directory, model_directory, sky_prompts, tmp_path
):
    model = load_reward_model(model_directory, "cpu")
    ours, calls = as_reward_func(model, "ours"), []

    def recorded(prompts, completions, **columns):
        calls.append((prompts, completions, ours(prompts, completions, **columns)))
        return calls[-1][-1]

    funcs = [str(model_directory), recorded]
    logged = steps_of(trainer_name, tiny_model_directory, funcs, sky_prompts, tmp_path)
    (prompts, completions, rewards), *_ = calls
    talks = [[*p, *c] for p, c in zip(prompts, completions, strict=True)]
    assert rewards == pytest.approx(model.rewards(talks), abs=1e-5)
    by_name = {
        k.split("/")[1]: v
        for k, v in logged.items()
        if k.startswith("rewards/") and k.endswith("/mean")
    }
    assert by_name[model_directory.name] == pytest.approx(by_name["recorded"], abs=1e-5)
    assert by_name["recorded"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-5)
    # and the function that the trainer called keeps the contract
    kept = [
        (r["messages"], p) for r, p in zip(*golden(model_directory), strict=True) if "messages" in r
    ]
    found = ours([talk[:-1] for talk, _ in kept], [talk[-1:] for talk, _ in kept])
    assert found == pytest.approx([reward for _, reward in kept], abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trl_trains_on_text_with_our_function(tiny_model_directory, model_directory, tmp_path):
    model = load_reward_model(model_directory, "cpu")
    ours, calls = as_reward_func(model), []

    def recorded(prompts, completions, **columns):
        calls.append((prompts, completions, ours(prompts, completions, **columns)))
        return calls[-1][-1]

    prompts = ["The sky is", "What color", "It is green", "or so"]
    steps_of("GRPO", tiny_model_directory, [recorded], prompts, tmp_path)
    (asked, completions, rewards), *_ = calls
    texts = [p + c for p, c in zip(asked, completions, strict=True)]
    assert rewards == pytest.approx(model.rewards(texts), abs=1e-5)


def test_a_ppo_loop_gets_one_scalar_tensor_per_response(tiny_model_directory, model_directory):
    """Steps 3 to 5 of the PPO quick start, with the constant 1.0 replaced by the model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    reward_model = load_reward_model(model_directory, "cpu")
    policy = AutoModelForCausalLM.from_pretrained(tiny_model_directory)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    for query_txt in ("What color is the ", "The sky is "):
        query_tensor = tokenizer.encode(query_txt, return_tensors="pt")
        with torch.no_grad():
            generated = policy.generate(query_tensor, max_new_tokens=8, do_sample=False)
        response_txt = tokenizer.decode(generated[0, query_tensor.shape[1] :])
        scored = reward_model.rewards_of_answers(query_txt, [response_txt])
        reward = [torch.tensor(float(r)) for r in scored]
        assert [r.shape for r in reward] == [torch.Size([])]
        expected = reward_model.rewards([query_txt + response_txt])
        assert reward[0].item() == pytest.approx(expected[0], abs=1e-5)
    texts = [(r, p) for r, p in zip(*golden(model_directory), strict=True) if isinstance(r, str)]
    for text, promised in texts:
        found = reward_model.rewards_of_answers(text[:7], [text[7:]])
        assert found == pytest.approx([promised], abs=1e-5)


@pytest.mark.slow
def test_mlflow_serves_the_champion_over_http(place, tmp_path):
    import socket
    import time
    import urllib.request

    registered = receipt(place.register(place.evaluated(1)))
    talk = [{"role": "user", "content": "What color?"}, {"role": "assistant", "content": "So"}]
    expected = load_reward_model(registered["location"], "cpu").rewards([talk, "blue"])
    asked, promised = golden(registered["location"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["models", "serve", "-m", "models:/reward-model@champion", "--env-manager", "local"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "_MLFLOW"))}
    log = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments, "-p", str(port)],
        cwd=tmp_path,
        start_new_session=True,
        stdout=log,
        stderr=subprocess.STDOUT,
        env={
            **environment,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "MLFLOW_TRACKING_URI": f"sqlite:///{place.root}/mlruns/mlflow.db",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "OMP_NUM_THREADS": "1",
        },
    )  # fmt: skip

    def predictions(body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())["predictions"]

    try:
        for _ in range(240):
            try:
                first = predictions({"dataframe_records": [{"messages": talk}]})
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "log").read_text()[-3000:]
                time.sleep(0.5)
        assert first == [pytest.approx(expected[0], abs=1e-5)]
        assert predictions({"inputs": ["blue"]}) == [pytest.approx(expected[1], abs=1e-5)]
        assert predictions({"inputs": asked}) == pytest.approx(promised, abs=1e-5)
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
        os.close(log)
