"""Whichever file operation fails, or is the last one: run again, the artifacts are the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.faulty_disk import ENDED, ERRORS, FAULTS

REPOSITORY = Path(__file__).parents[2]
EVERY = 31
"""Of some four hundred operations every 31st meets a fault: another one for each fault."""
SMALL = [
    "model={scratch: {vocab_size: 400, hidden_size: 16, intermediate_size: 24}}",
    *(f"ingestion.sources.{i}.limit=40" for i in range(3)),
    "conversion={eval_fraction: 0.2, max_bad_fraction: 0.1}",
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_file_operation_changes_nothing(fault, tmp_path):
    told = {
        "root": str(tmp_path / "root"),
        "until": "tokenization",
        "fault": fault,
        "first": 1 + 8 * FAULTS.index(fault),
        "every": EVERY,
        "overrides": SMALL,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.faulty_disk", json.dumps(told)],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) > 10
    for line in lines:
        assert line["again"] == 0, line
        assert line["same"], line
        assert line["left"] == [], line
        if fault not in ERRORS:
            assert line["code"] == ENDED, line
        elif line["code"]:  # where it did not matter, the run went on
            assert os.strerror(ERRORS[fault]) in line["said"].splitlines()[-1], line
            assert "run again" in line["said"].splitlines()[-1], line
