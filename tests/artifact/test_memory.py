"""Memory is shared by all that a process does, and given back where there is some."""

import os
import platform
import subprocess
import sys
from mmap import ACCESS_READ, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

import pytest

from tasks.artifact import memory

MIB = 2**20


@pytest.fixture
def trimmed(monkeypatch):
    """How often the C library was asked; nothing has been given back before."""
    calls: list[int] = []

    class Library:
        def __init__(self, _name):
            pass

        def malloc_trim(self, _pad):
            calls.append(1)

    monkeypatch.setattr(memory.ctypes, "CDLL", Library)
    monkeypatch.setattr(memory, "_left", 0)
    return calls


def test_only_a_process_that_has_grown_gives_memory_back(trimmed, monkeypatch):
    """Since the last time that it did, not since the last time that it was asked."""
    counts = []
    for resident in (200, 210, 300, 327, 329, 400, 100, 500):
        monkeypatch.setattr(memory, "_resident", lambda size=resident: size * MIB)
        memory.give_memory_back()
        counts.append(len(trimmed))
    assert counts == [1, 1, 1, 1, 2, 2, 2, 3]


def test_where_the_system_does_not_tell_it_is_given_back_each_time(trimmed, monkeypatch):
    monkeypatch.setattr(memory, "_resident", lambda: 0)
    for _ in range(3):
        memory.give_memory_back()
    assert len(trimmed) == 3


def test_the_system_tells_what_a_process_has_but_not_files_that_it_has_mapped(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (64 * MIB))
    before = memory._resident()
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        assert mapped[:: 2**12].count(b"x") == 64 * MIB // 2**12
        assert memory._resident() - before < 16 * MIB
        # Of the system, not of what this process has freed and kept, which may be as much.
        with mmap(-1, 64 * MIB, flags=MAP_PRIVATE | MAP_ANONYMOUS) as held:
            assert held.write(mapped) == 64 * MIB
            assert memory._resident() - before > 60 * MIB


BUILDING = """
import sys
from pathlib import Path
from tasks.artifact import Step, Store

def build(workspace):
    import pyarrow
    workspace.report["pool"] = pyarrow.default_memory_pool().backend_name

step = Step("stage", 1, "shelf", {}, {}, build)
print(Store(Path(sys.argv[1])).obtain(step).report["pool"])
"""


@pytest.mark.parametrize(("said", "pool"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_a_build_has_arrow_share_the_heap_unless_the_environment_says_otherwise(
    tmp_path, said, pool
):
    environment = {k: v for k, v in os.environ.items() if k != memory.ARROWS_POOL}
    done = subprocess.run(
        [sys.executable, "-c", BUILDING, str(tmp_path)],
        env=environment | ({memory.ARROWS_POOL: said} if said else {}),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == pool


THREADS = """
import sys, threading
from tasks.artifact import memory

if sys.argv[1] == "shared":
    memory.os.cpu_count = lambda: 2
    memory.share_heaps()
before = memory._resident()
for _ in range(8):  # one after another, and none ends before the last has begun
    waiting, begun = threading.Event(), threading.Event()
    def take_and_wait():
        [bytearray(60_000) for _ in range(100)]
        begun.set()
        waiting.wait()
    threading.Thread(target=take_and_wait, daemon=True).start()
    begun.wait()
print((memory._resident() - before) // 2**20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_threads_use_what_others_have_freed():
    """Eight that need 6 MB each, one after another: two heaps hold what one of them needs."""

    def held(how: str) -> int:
        command = [sys.executable, "-c", THREADS, how]
        said = (memory.MOST_HEAPS, "GLIBC_TUNABLES")
        environment = {k: v for k, v in os.environ.items() if k not in said}
        repository = Path(__file__).parents[2]
        return int(subprocess.check_output(command, env=environment, cwd=repository))

    assert held("shared") < 24 < held("apart")


BATCHES = """
import resource, sys
from tasks.artifact import memory

if sys.argv[1] == "kept":
    memory.share_heaps()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(20):
    [bytearray(b"x") * (4 * 2**20) for _ in range(4)]
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
@pytest.mark.parametrize("told", ["by calls", "by the environment"])
def test_large_buffers_come_from_memory_that_was_freed_before(told):
    """Four of 4 MB, twenty times: 4,096 pages, of which most are there from the second time on."""

    def faults(how: str, variables: dict[str, str]) -> int:
        said = {*memory.KEPT_VARIABLES, "GLIBC_TUNABLES"}
        environment = {k: v for k, v in os.environ.items() if k not in said}
        command = [sys.executable, "-c", BATCHES, how]
        repository = Path(__file__).parents[2]
        return int(subprocess.check_output(command, env=environment | variables, cwd=repository))

    variables = {name: str(size) for name, size in memory.KEPT_VARIABLES.items()}
    kept = faults("kept", {}) if told == "by calls" else faults("apart", variables)
    assert kept < 2 * 4_096 < faults("apart", {})


LARGE = """
import resource, sys
from tasks.artifact import memory

memory.share_heaps()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
with memory.large_buffers_kept(kept=sys.argv[1] == "kept"):
    before = faults()
    for _ in range(20):
        with memory.large_buffers_kept(kept=sys.argv[1] == "kept"):
            pass  # its end is not that of the outer one
        [bytearray(b"x") * (40 * 2**20) for _ in range(2)]
    print(faults() - before, memory._resident())
print(memory._resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_larger_ones_are_kept_as_long_as_it_is_asked_for_and_go_back_at_the_end():
    """Two of 40 MB, twenty times: 20,480 pages, all of them there from the second time on."""

    def run(how: str, variables: dict[str, str]) -> tuple[int, int, int]:
        said = {*memory.KEPT_VARIABLES, "GLIBC_TUNABLES"}
        environment = {k: v for k, v in os.environ.items() if k not in said} | variables
        command = [sys.executable, "-c", LARGE, how]
        output = subprocess.check_output(command, env=environment, cwd=Path(__file__).parents[2])
        faults, inside, after = map(int, output.split())
        return faults, inside, after

    faults, inside, after = run("kept", {})
    assert faults < 2 * 20_480
    assert inside - after > 60 * MIB
    assert run("not", {})[0] > 15 * 20_480
    said = {name: str(size) for name, size in memory.KEPT_VARIABLES.items()}
    assert run("kept", said)[0] > 15 * 20_480, "what the environment says goes first"


def test_an_older_glibc_keeps_what_it_promises(monkeypatch):
    """It refuses to keep buffers of more than 32 MiB, and answers 0."""
    threshold = [0]

    def glibc(name: str, parameter: int, value: int = 0) -> int:
        if name == "mallopt" and parameter == memory.M_MMAP_THRESHOLD:
            if value > 32 * 2**20:
                return 0
            threshold.append(value)
        return 1

    monkeypatch.setattr(memory, "_call_glibc", glibc)
    monkeypatch.setattr(memory, "_set_in_environment", lambda *_: False)
    monkeypatch.setattr(memory, "_keeping", 0)
    with memory.large_buffers_kept():
        assert threshold[-1] == 32 * 2**20
    assert threshold[-1] == memory.KEPT_BYTES
