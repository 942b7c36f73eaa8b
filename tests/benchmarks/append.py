"""Rows appended to a large file: what the second preparation costs, stage by stage.

100,000 conversational rows of JSONL are prepared; then a hundredth of them is appended, and all is
prepared again. The second run's artifacts are held against those of a run from scratch.

Told as JSON: rows, max_length, root.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.data import conversations_file, prepared
from tests.benchmarks.helpers import import_libraries
from tests.benchmarks.prep import pipeline_of
from tests.benchmarks.process_tree import timed

SHARE = 0.01


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds of both runs, whole and by stage, and the second's share of the first in percent."""
    from flows.pipeline import run_steps

    import_libraries()
    root = Path(told["root"])
    model = prepared(root, told["max_length"]).model
    rows = told["rows"]
    with conversations_file(root, rows + int(rows * SHARE)).open("rb") as whole:
        first = b"".join(line for line, _ in zip(whole, range(rows)))  # noqa: B905
        appended = whole.read()
    work = root / "append"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = work / "rows.jsonl"

    def run(directory: str) -> tuple[dict[str, Any], dict[str, float]]:
        pipeline = pipeline_of(told, source, model, work / directory)
        return timed(run_steps(pipeline, pipeline.store.obtain, until="tokenization"))

    source.write_bytes(first)
    _, full = run("data")
    with source.open("ab") as file:
        file.write(appended)
    done, again = run("data")
    scratch, _ = run("scratch")
    assert all(done[name].digest == scratch[name].digest for name in done), "not the same bytes"
    return {
        "full_seconds": sum(full.values()),
        "again_seconds": sum(again.values()),
        "share_percent": 100 * sum(again.values()) / sum(full.values()),
        "full_stages": full,
        "again_stages": again,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
