"""`reward-pipeline serve` as a process: from the registry to SIGTERM."""

import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tasks.errors import RegistrationError
from tasks.registration import load_reward_model
from tasks.registration.serving.source import local_model
from tasks.registration.task import receipt
from tests.registration.serving.test_refusing import begun

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "REWARD_PIPELINE_LOG": "INFO"}


def start(*arguments, **environment):
    """A server process, and its address once it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", "serve", *arguments, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT, **environment},
    )
    said = ""
    while line := process.stderr.readline():
        said += line
        if found := re.search(r"serving .* on (http://\S+),", line):
            return process, found[1]
    raise AssertionError(f"the server ended with {process.wait()}: {said[-2000:]}")


def ask(url, body=None):
    headers = {"content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return answer.read().decode()


def asking(url, texts, answers, goes_on):
    """One client: one text a request over one connection, until `goes_on` says no or it breaks."""
    headers = {"content-type": "application/json"}
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        for n, text in enumerate(itertools.cycle(texts)):
            if not goes_on(n):
                return
            try:
                connection.request("POST", "/get_reward", json.dumps({"query": [text]}), headers)
                answer = connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                return  # closed before it took the request
            answers.append((text, answer.status, json.loads(answer.read())))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--window-ms", "0", "--batch-tokens", "1")])
def test_clients_that_keep_asking_over_their_connections_get_every_answer(model_directory, options):
    texts = [f"The sky is {'blue or green ' * (i % 11)}{i}" for i in range(60)]
    model = load_reward_model(model_directory, "cpu")
    process, url = start(str(model_directory), "--query-form", "text", "--threads", "2", *options)
    assert json.loads(ask(f"{url}/healthz"))["threads"] == 2
    answers = []
    try:
        with ThreadPoolExecutor(16) as pool:
            done = [
                pool.submit(asking, url, texts[i:] + texts[:i], answers, lambda n: n < 60)
                for i in range(16)
            ]
            for one in done:
                one.result()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        ended(process)
    assert len(answers) == 16 * 60
    check(answers, model)


def check(answers, model):
    """Every answer is whole, and the loader's own."""
    texts = sorted({text for text, _, _ in answers})
    expected = dict(zip(texts, model.rewards(texts).tolist(), strict=True))
    for text, status, answer in answers:
        assert status == 200, answer
        assert answer == {"rewards": [pytest.approx(expected[text], abs=1e-5)]}


def ended(process):
    process.kill()
    process.wait()
    process.stderr.close()


@pytest.mark.slow
def test_a_server_that_is_stopped_under_load_answers_what_it_took(model_directory):
    texts = [f"The sky is {'blue or green ' * (i % 11)}{i}" for i in range(60)]
    process, url = start(str(model_directory), "--query-form", "text")
    answers = []
    try:
        with ThreadPoolExecutor(16) as pool:
            done = [
                pool.submit(asking, url, texts[i:] + texts[:i], answers, lambda _: True)
                for i in range(16)
            ]
            while len(answers) < 200:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            for one in done:
                one.result()
        assert process.wait(20) == 0
        (counted,) = re.findall(r"stopped; (\d+) requests", process.stderr.read())
    finally:
        ended(process)
    assert int(counted) == len(answers)
    check(answers, load_reward_model(model_directory, "cpu"))


@pytest.mark.slow
def test_a_stalled_upload_does_not_keep_a_server_from_stopping(model_directory):
    process, url = start(str(model_directory), "--threads", "1")
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=60) as connection:
        begun(connection)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=15)[1]  # of 30 seconds' grace
        answer = connection.makefile().read()
    assert process.returncode == 0
    assert "Traceback" not in told
    assert answer.startswith("HTTP/1.1 503")
    assert "the body is not here in full, and the server stops" in answer


@pytest.mark.slow
def test_the_champion_is_served_and_sigterm_answers_what_is_in_flight(place):
    registered = receipt(place.register(place.evaluated(1)))
    expected = load_reward_model(registered["location"], "cpu").rewards(["The sky is blue"])[0]
    process, url = start(
        "models:/reward-model@champion", "--root", str(place.root), "--window-ms", "1000"
    )
    try:
        ready = json.loads(ask(f"{url}/healthz"))
        assert (ready["status"], ready["model"]) == ("ready", "models:/reward-model/1")
        body = {"input": [{"text": "The sky is blue"}]}
        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(ask, f"{url}/v1/rewards", body) for _ in range(6)]
            while waiting(ask(f"{url}/metrics")) == 0:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            found = [json.loads(a.result()) for a in asked]
        rewards = [answer["data"][0]["reward"] for answer in found]
        assert rewards == [pytest.approx(expected, abs=1e-5)] * 6
        assert {answer["model"] for answer in found} == {"models:/reward-model/1"}
        assert process.wait(20) == 0
    finally:
        ended(process)


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_no_copy_of_the_model(place, tmp_path):
    registered = receipt(place.register(place.evaluated(1)))
    expected = load_reward_model(registered["location"], "cpu").rewards(["The sky is blue"])
    source = ("models:/reward-model@champion", "--root", str(place.root))
    process, url = start(*source, "--query-form", "text", TMPDIR=str(tmp_path))
    try:
        answer = json.loads(ask(f"{url}/get_reward", {"query": ["The sky is blue"]}))
    finally:
        ended(process)
    assert answer["rewards"] == pytest.approx(expected, abs=1e-5)
    assert list(tmp_path.glob("**/*.safetensors")) == []


def waiting(page):
    return float(re.search(r"^reward_server_waiting_tokens (\S+)", page, re.MULTILINE)[1])


@pytest.mark.slow
def test_what_cannot_be_served_is_told_in_one_sentence(model_directory, tmp_path):
    def ended(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "flows", "serve", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={k: v for k, v in os.environ.items() if "SERVE_TOKEN" not in k},
        )
        assert done.returncode == 1
        return done.stderr.strip().splitlines()[-1]

    assert "RegistrationError: " in (told := ended(str(model_directory), "--device", "tpu"))
    assert "is not served: device is 'tpu', which torch cannot use here" in told
    cut = shutil.copytree(model_directory, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes(b"0123456789")
    assert f"{cut} is not served: {cut} holds a safetensors file that is cut" in ended(str(cut))
    (tmp_path / "model").mkdir()
    assert "no directory" in ended(str(tmp_path / "absent"))
    assert "no config.json" in ended(str(tmp_path / "model"))
    assert "reachable by others" in ended(str(tmp_path / "model"), "--host", "0.0.0.0")
    assert "no model is registered" in ended("models:/x@champion", "--root", str(tmp_path))
    said = ended("models:/x@champion", "--tracking-uri", "http://me:sesame@host")
    assert re.match("ParamsError: tracking_uri(?!.*sesame).* must not hold a password", said)


def test_an_alias_is_served_under_the_version_that_it_was_of(defended):
    """Two servers of one alias, started before and after it moved, answer from two versions."""
    place, source = defended, "models:/reward-model@champion"
    names = []
    for version in ("1", "2"):
        place.client.set_registered_model_alias("reward-model", "champion", version)
        with local_model(source, place.root, place.params) as found:
            names.append(found.name)
    assert names == ["models:/reward-model/1", "models:/reward-model/2"]


def test_a_version_is_served_only_as_it_was_registered(defended):
    """A change that no golden conversation meets passes the contract."""
    place, source = defended, "models:/reward-model@champion"
    location = Path(receipt(place.register(place.better))["location"])
    file = location / "model.safetensors"
    kept = file.read_bytes()
    weights = load_file(file)
    contract = json.loads((location / "reward_contract.json").read_bytes())
    read = [id for row in contract["probes"] for ids in row.get("ids", []) for id in ids]
    unread = [*{*range(len(weights["model.embed_tokens.weight"]))}.difference(read)]
    weights["model.embed_tokens.weight"][unread] *= -3
    save_file(weights, file, {"format": "pt"})
    assert load_reward_model(location, "cpu").golden
    told = "the files of version 1 of 'reward-model' are not those that were registered"
    for asked in (source, "models:/reward-model/1"):
        with (
            pytest.raises(RegistrationError, match=told),
            local_model(asked, place.root, place.params),
        ):
            pass
    file.write_bytes(kept)
    with local_model(source, place.root, place.params) as (directory, name):
        assert (directory / "model.safetensors").read_bytes() == kept
        assert name == "models:/reward-model/1"
    shutil.rmtree(location)
    with pytest.raises(RegistrationError, match=r"has no files at .* Move them back"):
        local_model(source, place.root, place.params).__enter__()
    for asked, said in (
        ("@nobody", "nobody not found"),
        ("/9", r"version=9\) not found"),
        ("", "names no version; expected models:/name@alias or models:/name/version"),
    ):
        with pytest.raises(RegistrationError, match=said):
            local_model(f"models:/reward-model{asked}", place.root, place.params).__enter__()
