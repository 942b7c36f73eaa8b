"""Memory of preparation, worker processes included: the same for any number of rows.

Told as JSON: who (the number of rows), max_length, root.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.data import conversations_file, prepared
from tests.benchmarks.helpers import import_libraries
from tests.benchmarks.prep import pipeline_of
from tests.benchmarks.process_tree import PeakTreeMemory, timed


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Most megabytes above the start of all processes together, and the seconds."""
    from flows.pipeline import run_steps

    import_libraries()
    root, rows = Path(told["root"]), int(told["who"])
    model = prepared(root, told["max_length"]).model
    source = conversations_file(root, rows)
    work = root / f"memory-{rows}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    pipeline = pipeline_of(told, source, model, work)
    with PeakTreeMemory() as memory:
        _, seconds = timed(run_steps(pipeline, pipeline.store.obtain, until="tokenization"))
    shutil.rmtree(work)
    return {
        "memory_mb": (memory.peak - memory.before) / 2**20,
        "seconds": sum(seconds.values()),
        "stages": seconds,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
