"""Serving: batch-1 requests of some clients to our server, beside the loader called one by one.

Told as JSON: who, clients, requests, threads, root. Contestants: `loader` (one text after another,
no server), `alone` (a server whose batches are one request), `ours`. A client sends one text a
request over one connection. The model has 4 layers of 256, so that a pass costs what passes cost
beside the network; texts are 20 to 120 words.
"""

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("the", "sky", "is", "blue", "or", "green", "what", "color", "they", "say", "so", "not")
OPTIONS = {"ours": (), "alone": ("--window-ms", "0", "--batch-tokens", "1")}
WARM_UP = 8

Ask = Callable[[str], float]
Clock = Callable[[], float]


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Requests a second, the time of a request at three percentiles, and what one costs the CPU."""
    directory = small_model(Path(told["root"]))
    texts = queries(told["requests"] + WARM_UP)
    if told["who"] == "loader":
        return measured([loader(directory, told["threads"])], texts, time.process_time)
    with server(directory, told["threads"], OPTIONS[told["who"]]) as (port, clock):
        return measured([client(port) for _ in range(told["clients"])], texts, clock)


def small_model(root: Path) -> Path:
    """A seeded reward model, made once."""
    from tasks.model.params import ScratchParams
    from tasks.model.scratch import build_scratch
    from tests.evaluation.pieces import write_reward_model

    if not (root / "served").is_dir():
        params = ScratchParams(
            vocab_size=400, hidden_size=256, intermediate_size=768, num_hidden_layers=4
        )
        (root / "served-base").mkdir(parents=True, exist_ok=True)
        build_scratch(params, iter([" ".join(WORDS)] * 20), root / "served-base")
        write_reward_model(root / "served-base", root / "served", seed=1)
    return root / "served"


def queries(n: int) -> list[str]:
    """`n` different texts."""
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(20, 120))) for _ in range(n)]


def loader(directory: Path, threads: int) -> Ask:
    """The loader in this process."""
    import torch

    from tasks.registration import load_reward_model

    torch.set_num_threads(threads)
    model = load_reward_model(directory, "cpu")
    return lambda text: float(model.rewards([text])[0])


@contextmanager
def server(directory: Path, threads: int, options: tuple[str, ...]) -> Iterator[tuple[int, Clock]]:
    """A server of its own; gives its port and its CPU seconds so far."""
    command = [sys.executable, "-m", "flows", "serve", str(directory), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--threads", str(threads), "--query-form", "text", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"REWARD_PIPELINE_LOG": "INFO"},
    )
    assert process.stderr is not None

    def clock() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        found = (re.search(r"on \S+:(\d+),", line) for line in process.stderr)
        yield next(int(match[1]) for match in found if match), clock
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stderr.close()


def client(port: int) -> Ask:
    """One connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"content-type": "application/json"}

    def ask(text: str) -> float:
        connection.request("POST", "/get_reward", json.dumps({"query": [text]}), headers)
        return json.loads(connection.getresponse().read())["rewards"][0]

    return ask


def measured(askers: list[Ask], texts: list[str], clock: Clock) -> dict[str, Any]:
    """Every text is asked once, by whoever is free."""
    rewards, seconds = [0.0] * len(texts), [0.0] * len(texts)
    for number in range(WARM_UP):
        rewards[number] = askers[number % len(askers)](texts[number])
    numbers = iter(range(WARM_UP, len(texts)))

    def work(ask: Ask) -> None:
        for number in numbers:
            start = time.perf_counter()
            rewards[number] = ask(texts[number])
            seconds[number] = time.perf_counter() - start

    threads = [threading.Thread(target=work, args=(ask,)) for ask in askers]
    start, cpu = time.perf_counter(), clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - start, clock() - cpu
    found = np.percentile(np.array(seconds[WARM_UP:]) * 1e3, [50, 95, 99])
    percentiles = dict(zip(("p50_ms", "p95_ms", "p99_ms"), found.tolist(), strict=True))
    return {
        "requests_per_second": (len(texts) - WARM_UP) / wall,
        **percentiles,
        "cpu_ms": 1e3 * cpu / (len(texts) - WARM_UP),
        "rewards": rewards,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
