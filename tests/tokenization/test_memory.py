"""Memory of a worker does not grow with its shard."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.tokenization.engines import CACHE_BYTES
from tests.templating.families import build_family
from tests.tokenization.test_shards import converted

MEASURED = r"""
import json, re, sys
from pathlib import Path
from tasks.artifact import Artifact, Store
from tasks.model import BaseModel
from tasks.model.directory import tokenizer_digest
from tasks.templating import TemplatingParams, task as templating
from tasks.tokenization import TokenizationParams, task as tokenization

def peak():
    # this program's own: getrusage would begin with the peak of the one that started it
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])

given, model, root = map(Path, sys.argv[1:])
model = BaseModel(model, tokenizer_digest(model), "0" * 64, {})
held = Artifact("model", "1" * 16, model.path, "e" * 64, {})
record = {"files": {}, "report": {"notes": {}}}
done = Artifact("conversion", given.name.ljust(16, "0"), given, given.name.ljust(64, "0"), record)
peaks = []
rendered = Store(root).obtain(templating.step(TemplatingParams(workers=1), done, model, held))
peaks.append(peak())
params = TokenizationParams(workers=1)
tokenized = Store(root).obtain(tokenization.step(params, rendered, model, held))
mapped = sum(path.stat().st_size for path in (rendered.path / "texts").iterdir()) // 1024
peaks.append(peak() - mapped)  # pages of a mapped file are the kernel's to take back
print(json.dumps([tokenized.report["train"] + tokenized.report["eval"], *peaks]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_a_hundred_thousand_rows_in_one_shard_take_the_memory_of_ten_thousand(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    peaks = {}
    for rows in (10_000, 100_000):
        numbers = [n for n in range(rows) if n % 10]  # the others have two equal sides
        given = converted(tmp_path / f"c{rows}", [numbers])
        path = given.path / "pairs/00000.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=2048)  # as conversion does
        root = tmp_path / f"data{rows}"
        command = [sys.executable, "-c", MEASURED, str(given.path), str(model.path), str(root)]
        told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert told[0] == len(numbers)
        peaks[rows] = [kilobytes / 1024 for kilobytes in told[1:]]
    known = CACHE_BYTES / 2**20  # texts of a hundred thousand rows fill the encoder's cache
    for few, many in zip(peaks[10_000], peaks[100_000], strict=True):
        assert many < few + known + 16, f"peaks in MB: {peaks}"
