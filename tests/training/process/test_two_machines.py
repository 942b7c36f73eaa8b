"""A launch on two machines: two launchers, each with one process, that find one another."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tasks.training.process.command import ACCELERATE_CONFIGS, ROOT
from tests.training.process.two_processes import history

pytestmark = pytest.mark.slow
SCRIPT = """
import json, os, sys
from pathlib import Path
from tests.training.process.two_processes import history
base, out, case = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
found = history(base, out, case)
print("HISTORY", json.dumps(found))
"""


def on_two_machines(tmp_path, base, fields, places):
    """Exit codes and output of both launchers; `places`: the output directory on each."""
    (tmp_path / "script.py").write_text(SCRIPT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"]
    launch += ["--config_file", str(ACCELERATE_CONFIGS / "multi_node.yaml")]
    launch += ["--main_process_ip", "127.0.0.1", "--main_process_port", str(port)]
    case = json.dumps({"rows": 41, "fields": {"per_device_train_batch_size": 4, **fields}})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    begun = [
        subprocess.Popen(
            [*launch, "--machine_rank", str(rank), tmp_path / "script.py", base, place, case],
            cwd=ROOT,
            env={**environment, "ACCELERATE_USE_CPU": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, place in enumerate(places)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in begun]
    return [process.returncode for process in begun], outputs


def test_two_machines_with_a_shared_directory_train_as_one_process(base, tmp_path):
    places = [tmp_path / "shared"] * 2
    codes, outputs = on_two_machines(tmp_path, base, {"save_strategy": "epoch"}, places)
    assert codes == [0, 0], outputs[0][-3000:] + outputs[1][-3000:]
    one = history(
        base, tmp_path / "one", {"rows": 41, "fields": {"per_device_train_batch_size": 8}}
    )
    for output in outputs:
        [line] = [line for line in output.splitlines() if line.startswith("HISTORY ")]
        found = json.loads(line.removeprefix("HISTORY "))
        assert len(found) == len(one) == 18
        for there, here in zip(found, one, strict=True):
            assert there["loss"] == pytest.approx(here["loss"], abs=1e-6)
    assert list(places[0].glob("checkpoint-*/MANIFEST.json"))


def test_checkpoints_need_a_directory_that_all_machines_share(base, tmp_path):
    places = [tmp_path / "first", tmp_path / "second"]
    codes, outputs = on_two_machines(tmp_path, base, {"save_strategy": "epoch"}, places)
    assert 0 not in codes
    for place, output in zip(places, outputs, strict=True):
        assert f"output_dir {place} is not one directory for all 2 processes: 1 of them" in output
    fields = {"save_strategy": "no", "preflight": True}
    codes, outputs = on_two_machines(tmp_path, base, fields, places)
    assert codes == [0, 0], outputs[0][-3000:] + outputs[1][-3000:]
