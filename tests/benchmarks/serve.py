"""Load test of the reward server on this machine: `python -m tests.benchmarks.serve DIRECTORY`.

In: a reward model directory; without one, a small model is made (4 layers of 256). Out: one line of
requests/s and latencies per number of clients, against the same requests scored one by one without
a server, and against a server whose batches are one request; then the gain of one prompt for all.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

WORDS = ("the", "sky", "is", "blue", "or", "green", "what", "color", "they", "say", "so", "not")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = given.directory or small_model(Path(scratch))
        texts = queries(given.requests)
        alone(directory, texts)
        for label, options in {
            "no batching": ("--window-ms", "0", "--batch-tokens", "1"),
            "batching": (),
        }.items():
            for clients in given.clients:
                served(directory, texts, clients, label, options)
        prompts(directory)


def small_model(scratch: Path) -> Path:
    """A seeded reward model of 4 layers of 256, big enough for batches to matter."""
    from tasks.model.params import ScratchParams
    from tasks.model.scratch import build_scratch
    from tests.evaluation.pieces import write_reward_model

    params = ScratchParams(
        vocab_size=400, hidden_size=256, intermediate_size=768, num_hidden_layers=4
    )
    (scratch / "base").mkdir()
    build_scratch(params, iter([" ".join(WORDS)] * 20), scratch / "base")
    write_reward_model(scratch / "base", scratch / "model", seed=1)
    return scratch / "model"


def queries(n: int) -> list[str]:
    """`n` different texts of 20 to 120 words."""
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(20, 120))) for _ in range(n)]


def alone(directory: Path, texts: list[str]) -> None:
    """The loader, one text at a time."""
    from tasks.registration import load_reward_model

    model = load_reward_model(directory, "cpu")
    model.rewards(texts[:2])
    print(f"{np.mean([len(model.token_ids(t)) for t in texts]):.0f} tokens a text")
    seconds = []
    for text in texts:
        start = time.perf_counter()
        model.rewards([text])
        seconds.append(time.perf_counter() - start)
    told("loader, one by one", 1, seconds, sum(seconds))
    start = time.perf_counter()
    model.rewards(texts)
    print(
        f"{'loader, all at once':22}            {len(texts) / (time.perf_counter() - start):8.1f}/s"
    )


def served(
    directory: Path, texts: list[str], clients: int, label: str, options: tuple[str, ...]
) -> None:
    """A server of its own, asked by `clients` threads, each over one connection."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", "serve", str(directory), "--port", "0", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "REWARD_PIPELINE_LOG": "INFO"},
    )
    assert process.stderr is not None
    port = next(int(m[1]) for line in process.stderr if (m := re.search(r":(\d+),", line)))
    seconds: list[float] = []
    waiting = list(texts)

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while True:
            try:
                text = waiting.pop()
            except IndexError:
                return
            start = time.perf_counter()
            body = json.dumps({"query": [text]})
            connection.request("POST", "/get_reward", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            assert len(json.loads(answer.read())["rewards"]) == answer.status - 199
            seconds.append(time.perf_counter() - start)

    time.sleep(1)
    threads = [threading.Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told(f"server, {label}", clients, seconds, time.perf_counter() - start)
    process.send_signal(signal.SIGTERM)
    process.wait()


def prompts(directory: Path) -> None:
    """8 answers of about 30 tokens to one prompt of about 400."""
    from tasks.registration import load_reward_model

    model = load_reward_model(directory, "cpu")
    draw = random.Random(1)
    prompt = " ".join(draw.choices(WORDS, k=300))
    ids = [model.token_ids(prompt + " " + " ".join(draw.choices(WORDS, k=25))) for _ in range(8)]
    model.rewards_of_ids(ids, [0] * 8)

    def best(marks: list[int] | None) -> tuple[float, np.ndarray]:
        times = []
        for _ in range(7):
            start = time.perf_counter()
            rewards = model.rewards_of_ids(ids, marks)
            times.append(time.perf_counter() - start)
        return min(times), rewards

    whole, expected = best(None)
    once, found = best([0] * 8)
    print(
        f"prompt of {len(ids[0])} tokens less its answer, 8 answers: {whole * 1e3:.1f} ms each "
        f"whole, {once * 1e3:.1f} ms once ({whole / once:.1f}x), largest difference "
        f"{np.abs(expected - found).max():.1e}, reuse {model.reuses_prompts}"
    )


def told(label: str, clients: int, seconds: list[float], wall: float) -> None:
    """One line of figures."""
    p50, p95, p99 = np.percentile(np.array(seconds) * 1e3, [50, 95, 99])
    print(
        f"{label:22} {clients:3} clients {len(seconds) / wall:8.1f}/s  "
        f"p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  p99 {p99:7.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
