"""A downloaded version, loaded and asked in a process that has only what a consumer has.

In: the version's directory, and sequences of token ids. Out: its rewards and how many golden
sequences of its score contract came out as in training. The child gets a bare environment, an
empty home, and cannot import this project.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.errors import RegistrationError, VersionError
from tasks.evaluation.scoring.score import longest_first
from tasks.evaluation.scoring.windows import read_windows
from tasks.evaluation.tables.scores import TokenIds, score_table, sequences

CHILD = Path(__file__).with_name("consumer.py")
PASSED_ON = (
    *("PATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "SYSTEMROOT"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_HOME"),
)
"""What a consumer's environment has as well: where libraries and devices are."""


@dataclass(frozen=True)
class Answer:
    """What the child answered: float32 `[N]`, and golden sequences (None: there is no contract)."""

    rewards: np.ndarray
    golden: int | None


def ask(
    version: Path, batches: Sequence[Sequence[TokenIds]], device: str | None, scratch: Path
) -> Answer:
    """The rewards of all sequences, batch by batch in that order.

    Raises:
        VersionError: the version cannot be loaded or breaks its contract there.
        RegistrationError: that process was killed, which says nothing about the version.
    """
    home = scratch / "consumer"
    home.mkdir(parents=True, exist_ok=True)
    flat = [ids for batch in batches for ids in batch]
    np.save(home / "ids.npy", np.concatenate(flat) if flat else np.empty(0, np.int32))
    np.save(home / "lengths.npy", np.asarray([len(ids) for ids in flat], np.int64))
    np.save(home / "batches.npy", np.asarray([len(batch) for batch in batches], np.int64))
    (home / "asked.json").write_text(json.dumps({"version": str(version), "device": device}))
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {"HOME": str(home), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "true"}
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(CHILD), str(home)],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        raise RegistrationError(
            f"the clean process that asks the downloaded version was killed by signal "
            f"{-done.returncode}, as a machine does that runs out of memory; it gets no alias yet: "
            "run again"
        )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise VersionError(
            f"a clean process cannot use the downloaded version (exit code {done.returncode}): "
            f"{lines[-1] if lines else 'it said nothing'}; it gets no alias"
        )
    golden = json.loads((home / "told.json").read_bytes())["golden"]
    return Answer(np.load(home / "rewards.npy"), golden)


def score_in_clean_process(
    version: Path, files: Sequence[Path], batch_size: int, device: str | None, scratch: Path
) -> tuple[pa.Table, int | None]:
    """The score table of the held-out pairs, and the golden sequences that came out right.

    Sequences are batched as evaluation batches them, so that equal rewards are equal to the bit.
    """
    windows = list(read_windows(files))
    batches: list[list[TokenIds]] = []
    places: list[np.ndarray] = []  # per window: where each sequence's reward stands, [2N]
    start = 0
    for window in windows:
        both = [*sequences(window["chosen_input_ids"]), *sequences(window["rejected_input_ids"])]
        seen: dict[bytes, int] = {}
        place = [seen.setdefault(ids.tobytes(), len(seen)) for ids in both]
        distinct = [np.frombuffer(ids, dtype=np.int32) for ids in seen]
        order: list[int] = []
        for batch in longest_first(distinct, batch_size):
            order += batch
            batches.append([distinct[i] for i in batch])
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        places.append(start + position[place])
        start += len(order)
    told = ask(version, batches, device, scratch)
    tables: list[pa.Table] = []
    for window, place in zip(windows, places, strict=True):
        rewards, n = told.rewards[place], len(window)
        tables.append(score_table(window, "eval", rewards[:n], rewards[n:]))
    return pa.concat_tables(tables), told.golden
