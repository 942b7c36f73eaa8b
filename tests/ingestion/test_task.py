"""The stage as a whole: its key, its shards, limits, and the same bytes whatever interrupts it."""

import dataclasses
import gzip
import json
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tasks.artifact import Store, Workspace
from tasks.errors import DataError
from tasks.ingestion import IngestionParams, row_shards
from tasks.ingestion.shards import (
    FIRST_SHARD_ROWS,
    SHARD_BYTES,
    shard_rows_after,
)
from tests.ingestion.fuzz import zip_of

SOURCES = Path(__file__).parents[2] / "params/sources"


def _lines(start: int, count: int, size: int = 1) -> str:
    return "".join(
        json.dumps({"n": n, "text": "x" * size}) + "\n" for n in range(start, start + count)
    )


def test_only_what_changes_the_rows_changes_the_key(ingestion):
    path = ingestion.write("a.jsonl", _lines(0, 3))
    source = {"name": "s", "path": str(path)}
    key = ingestion.step(source).key
    same = [
        {"layout": "trl"},
        {"columns": {"chosen": "better"}},
        {"path": f"{ingestion.directory}/*.jsonl"},
    ]
    assert {ingestion.step(source | change).key for change in same} == {key}
    assert ingestion.step(source, workers=4).key == key
    changes = [{"name": "t"}, {"limit": 2}, {"delimiter": ";"}]
    others = [ingestion.step(source | change).key for change in changes]
    path.write_text(_lines(1, 3))
    others.append(ingestion.step(source).key)
    ingestion.write("b.jsonl", _lines(0, 3))
    others.append(ingestion.step(source | same[2]).key)
    assert len({key, *others}) == 6


def test_deciding_the_step_imports_no_heavy_library():
    code = (
        "import sys, tasks.ingestion; "
        "print([m for m in ('pyarrow', 'orjson', 'pandas', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shards_end_by_rows_or_bytes_and_stream_in_small_row_groups(ingestion):
    many = ingestion.run(ingestion.write("many.jsonl", _lines(0, FIRST_SHARD_ROWS + 1)))
    assert [pq.read_metadata(s).num_rows for s in row_shards(many)] == [FIRST_SHARD_ROWS, 1]
    wide = ingestion.run(ingestion.write("wide.jsonl", _lines(0, 40, size=2**20)))
    shards = [pq.ParquetFile(s) for s in row_shards(wide)]
    assert [shard.metadata.num_row_groups for shard in shards] == [8, 2]
    assert sum(shard.metadata.num_rows for shard in shards) == 40
    assert sum(len(row["raw"]["text"]) for row in ingestion.rows(wide)[:32]) == SHARD_BYTES


def test_what_does_not_fill_a_shard_stands_in_small_ones_that_stay_as_rows_are_appended(ingestion):
    def shards_of(rows):
        found = row_shards(ingestion.run(ingestion.write("grows.jsonl", _lines(0, rows))))
        sizes = [pq.read_metadata(shard).num_rows for shard in found]
        values = [n for s in found for n in pq.read_table(s, columns=["row"])["row"].to_pylist()]
        assert values == [*range(1, rows + 1)]
        return sizes, [shard.read_bytes() for shard in found]

    sizes, before = shards_of(FIRST_SHARD_ROWS + 4_000 + 2_300)
    assert sizes == [10_000, 4_000, 1_000, 1_000, 300]
    sizes, after = shards_of(FIRST_SHARD_ROWS + 4_000 + 3_999)
    assert sizes == [10_000, 4_000, 1_000, 1_000, 1_000, 999]
    assert after[:4] == before[:4]
    sizes, full = shards_of(FIRST_SHARD_ROWS + 8_000)
    assert sizes == [10_000, 4_000, 4_000]
    assert full[:2] == before[:2]


def test_small_shards_keep_the_small_row_groups_of_wide_rows(ingestion):
    lines = "".join(_lines(0, FIRST_SHARD_ROWS)) + _lines(0, 1_500, size=2**13)
    found = [
        pq.ParquetFile(s) for s in row_shards(ingestion.run(ingestion.write("w.jsonl", lines)))
    ]
    assert [f.metadata.num_rows for f in found] == [10_000, 1_000, 500]
    groups = [f.metadata.row_group(i) for f in found for i in range(f.metadata.num_row_groups)]
    assert [group.num_rows for group in groups[-3:]] == [511, 489, 500]
    assert {group.column(3).compression for group in groups} == {"UNCOMPRESSED"}


def test_no_end_of_a_shard_depends_on_later_rows_and_the_last_shard_is_a_small_share():
    ends = [0]
    while ends[-1] < 1_000_000:
        ends.append(ends[-1] + shard_rows_after(ends[-1]))
    assert ends[1:4] == [10_000, 14_000, 18_000]
    shares = [(b - a) / b for a, b in pairwise(ends) if b > 100_000]
    assert max(shares) < 0.041
    assert len(ends) < 100


def test_rows_stand_in_the_order_of_sources_and_sorted_files(ingestion):
    ingestion.write("raw/b.jsonl", _lines(2, 2))
    ingestion.write("raw/a.jsonl.gz", gzip.compress(_lines(0, 2).encode()))
    ingestion.write("first.csv", "n\n9\n")
    step = ingestion.step(
        {"name": "z", "path": f"{ingestion.directory}/first.csv"},
        {"name": "a", "path": f"{ingestion.directory}/raw"},
        workers=3,
    )
    rows = ingestion.rows(ingestion.store.obtain(step))
    assert [(row["source"], row["raw"]["n"]) for row in rows] == [
        ("z", "9"), ("a", 0), ("a", 1), ("a", 2), ("a", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "rows_in", "rows_out", "files"), [(1, 1, 1, 1), (3, 4, 2, 1),
                         (4, 5, 3, 2), (5, 6, 4, 2), (99, 6, 4, 2)])  # fmt: skip
def test_limit_counts_good_and_bad_rows_over_files_and_stops_there(
    ingestion, limit, rows_in, rows_out, files
):
    ingestion.write("raw/a.jsonl", '{"n":1}\n\n{"n":2}\nbad\n')
    ingestion.write("raw/b.jsonl", '{"n":3}\n{"n":4}\n')
    artifact = ingestion.run(ingestion.directory / "raw", limit=limit)
    account = artifact.report["ledger"]["s"]
    assert (account["rows_in"], account["rows_out"]) == (rows_in, rows_out)
    assert artifact.report["sources"]["s"]["files"] == 2
    assert artifact.report["sources"]["s"]["files_read"] == files


class Dying(Workspace):
    """A workspace whose n-th durable operation is the last thing that happens."""

    left: list[int]

    @contextmanager
    def writing(self, name, **kind):
        with super().writing(name, **kind) as path:
            self._tick()  # before the rename
            yield path
        self._tick()  # after it

    def finish(self, unit, summary):
        super().finish(unit, summary)
        self._tick()

    def _tick(self):
        self.left[0] -= 1
        if self.left[0] < 0:
            raise KeyboardInterrupt


def _dying(step, operations):
    def build(workspace):
        dying = Dying(workspace.path, workspace.lock_fd, workspace.report, workspace.ingredients)
        object.__setattr__(dying, "left", [operations])
        step.build(dying)

    return dataclasses.replace(step, build=build)


def test_a_build_that_dies_at_any_durable_operation_ends_in_the_same_bytes(ingestion):
    ingestion.write("raw/a.jsonl", _lines(0, 10) + "bad\n")
    ingestion.write("raw/b.csv", "n\n1\n2,3\n")
    ingestion.write("raw/c.jsonl", _lines(0, FIRST_SHARD_ROWS + 2_300))
    packed = {"a.jsonl": _lines(0, 5).encode(), "b.jsonl": _lines(5, 5).encode()}
    ingestion.write("two.zip", zip_of(packed))
    sources = [
        {"name": "s", "path": f"{ingestion.directory}/raw"},
        {"name": "t", "path": f"{ingestion.directory}/raw/*.jsonl", "limit": 12},
        {"name": "u", "path": f"{ingestion.directory}/two.zip", "cap": 4},
    ]
    undisturbed = ingestion.store.obtain(ingestion.step(*sources))
    deaths = 0
    for operations in range(100):
        store = Store(ingestion.directory / f"store-{operations}")
        if operations % 2:  # an earlier artifact has the first shard of a file that has grown since
            ingestion.write("raw/c.jsonl", _lines(0, FIRST_SHARD_ROWS + 1_200))
            store.obtain(ingestion.step(*sources))
            ingestion.write("raw/c.jsonl", _lines(0, FIRST_SHARD_ROWS + 2_300))
        try:
            store.obtain(_dying(ingestion.step(*sources), operations))
        except KeyboardInterrupt:
            deaths += 1
        else:
            break
        again = store.obtain(ingestion.step(*sources, workers=2))
        assert again.digest == undisturbed.digest, operations
        assert again.report == undisturbed.report, operations
    assert deaths >= 25  # 5 units: shards and quarantine (2 each) and the unit; then the merge


def test_a_finished_file_is_not_read_again(ingestion):
    ingestion.write("raw/a.jsonl", _lines(0, 10))
    ingestion.write("raw/b.jsonl", _lines(0, 10))
    step = ingestion.step({"name": "s", "path": f"{ingestion.directory}/raw"})
    with pytest.raises(KeyboardInterrupt):
        ingestion.store.obtain(_dying(step, 5))
    [unit] = ingestion.store.work(step).glob("units/*")
    before = unit.stat().st_mtime_ns
    with pytest.raises(KeyboardInterrupt):
        ingestion.store.obtain(_dying(step, 4))
    assert unit.stat().st_mtime_ns == before
    assert len(list(ingestion.store.work(step).glob("units/*"))) == 2


def test_a_failed_source_leaves_the_others_finished(ingestion):
    good = ingestion.write("good.jsonl", _lines(0, 3))
    bad = ingestion.write("bad.json", "[")
    step = ingestion.step({"name": "g", "path": str(good)}, {"name": "b", "path": str(bad)})
    with pytest.raises(DataError, match="truncated_json"):
        ingestion.store.obtain(step)
    assert [p.stem for p in ingestion.store.work(step).glob("units/*")] == ["g-00000"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.catalogue(14)
def test_a_line_of_100_mb_is_never_held(tmp_path):
    """In a process of its own, whose memory is its own."""
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a":1}\n{"a":"')
        for _ in range(100):
            file.write(b"x" * 10**6)
        file.write(b'"}\n{"a":3}\n')
    code = f"""
from pathlib import Path
from tasks.artifact import Store
from tasks.ingestion import IngestionParams, step
params = IngestionParams.model_validate({{"sources": [{{"name": "s", "path": {str(path)!r}}}]}})
artifact = Store(Path({str(tmp_path / "store")!r})).obtain(step(params))
print(artifact.report["ledger"]["s"]["dropped"])
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    dropped, peak = done.stdout.splitlines()
    assert dropped == "{'row_too_large': 1}"
    assert int(peak) < 250_000  # kilobytes; 140,000 for any file, then 32 MB for the open line


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_of_sources_are_valid(path):
    given = yaml.safe_load(path.read_text())["ingestion"]
    assert IngestionParams.model_validate(given).sources
