"""Runs the training stage in a process of its own, so that a test can kill it.

python -m tests.training.run_stage STORE BASE PAIRS PARAMS_JSON
"""

import json
import logging
import sys
from pathlib import Path

from tasks.artifact import Artifact, Store, file_digest
from tasks.artifact.durable import files_below
from tasks.errors import EXIT_INTERRUPTED, Interrupted
from tasks.model.directory import describe
from tasks.training.params import TrainingParams
from tasks.training.task import step


def stage_step(base: Path, pairs: Path, params: dict, on_metrics=None):
    files = {path.relative_to(pairs).as_posix(): path for path in files_below(pairs)}
    record = {"files": {name: {"sha256": file_digest(path)} for name, path in files.items()}}
    tokenization = Artifact("tokenization", "0" * 16, pairs, "1" * 64, {"report": {}, **record})
    model = Artifact("model", "2" * 16, base, "3" * 64, {"report": {}})
    section = TrainingParams.model_validate({"torch_num_threads": 1, **params})
    return step(section, tokenization, describe(base, {}), model, on_metrics)


if __name__ == "__main__":
    store, base, pairs, params = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        wanted = stage_step(Path(base), Path(pairs), json.loads(params))
        artifact = Store(Path(store)).obtain(wanted)
    except Interrupted as stop:
        print(f"interrupted: {stop}", flush=True)
        sys.exit(EXIT_INTERRUPTED)
    print(f"digest {artifact.digest}", flush=True)
