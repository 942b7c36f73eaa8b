"""Conversion in several processes, one of which is killed in the middle."""

import dataclasses
import json
import os
import signal
import time

import pytest

from tasks.artifact import Store, pool
from tasks.conversion import ConversionParams, passes, step
from tasks.errors import ArtifactError
from tasks.ingestion import Source

SHARDS, ROWS = 10, 1500


def answers(n):
    row = {"prompt": f"Question {n}", "chosen": f"Yes, {n}.", "rejected": f"No, {n}."}
    return ("votes", "v.jsonl", n + 1, json.dumps(row))


def killing(work, killed):
    """Pass 1 of a shard; before its second one in this process the worker is killed at its own."""
    convert = passes.convert_shard

    def converted(*given):
        deadline = time.monotonic() + 60  # the worker may be slow to begin
        while any(work.glob("units/rows-*.json")) and not killed and time.monotonic() < deadline:
            if any(work.glob("scratch/pairs/*.tmp")):  # nobody else is at work
                killed.extend(pool.ready())
                for worker in killed:
                    os.kill(worker, signal.SIGKILL)
            time.sleep(0.001)
        return convert(*given)

    return converted


def test_a_killed_worker_is_told_and_the_next_run_goes_on_to_the_same_bytes(
    tmp_path, ingest, monkeypatch
):
    given = [[answers(n) for n in range(k * ROWS, (k + 1) * ROWS)] for k in range(SHARDS)]
    rows = ingest(tmp_path / "rows", given)
    source = Source(name="votes", path="v.jsonl", layout="trl")

    def made(workers):
        return step(ConversionParams(eval_fraction=0.1, workers=workers), (source,), rows)

    alone = Store(tmp_path / "alone").obtain(made(1))
    store, killed = Store(tmp_path / "data"), []
    work = store.work(made(2))
    units = work / "units"
    monkeypatch.setattr(passes, "convert_shard", killing(work, killed))
    with pytest.raises(ArtifactError, match=r"a worker process was killed.*run again"):
        store.obtain(made(2))
    monkeypatch.undo()
    assert killed
    finished = {path.name: path.stat().st_mtime_ns for path in units.glob("rows-*.json")}
    assert 0 < len(finished) < SHARDS
    kept = {}
    whole = made(2)
    build = whole.build

    def watched(workspace):
        build(workspace)
        for path in units.glob("rows-*.json"):
            kept[path.name] = path.stat().st_mtime_ns

    whole = dataclasses.replace(whole, build=watched)
    again = store.obtain(whole)
    assert (again.digest, again.report) == (alone.digest, alone.report)
    assert finished.items() <= kept.items()  # none of them was done again
