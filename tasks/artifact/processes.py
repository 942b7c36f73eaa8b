"""One function called for many items, in this process alone or in several processes.

In:  a picklable function that leaves its result in files, and its items.
Out: nothing; the first failure is raised.
"""

import io
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

from tasks.artifact import pool
from tasks.artifact.fsyncs import fsyncs_in_background
from tasks.artifact.job import Job
from tasks.artifact.step import Workspace
from tasks.artifact.threads import without_threads
from tasks.errors import ArtifactError

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of CPU time in a period, and the period, of this process's container."""
WORTH_PROCESSES_BYTES = 40 * 2**20
"""Bytes of shards, some 25,000 rows, for each worker: to start one costs half a second of computing
and more for its encoders, and one process converts so many rows in half a second. The next stages
can use the worker, too."""


def physical_cores() -> int:
    """Physical cores that this process may use (Linux), no more than its container's quota of CPU
    time gives it; elsewhere what the system reports."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    siblings: set[str] = set()
    for cpu in allowed:
        with suppress(OSError):
            path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            siblings.add(path.read_text())
    return ceil(min(len(siblings) or len(allowed), _quota()))


def _quota() -> float:
    """CPUs whose time a container may use (cgroup v2); infinite where that is not limited."""
    with suppress(OSError, ValueError):  # "max 100000": no limit
        microseconds, period = map(int, QUOTA.read_text().split())
        return microseconds / period
    return inf


def worthwhile(files: Sequence[Path]) -> int:
    """How many processes are worth using for these shards."""
    return processes_for(sum(file.stat().st_size for file in files), WORTH_PROCESSES_BYTES)


def processes_for(size: int, least: int) -> int:
    """How many processes are worth using for `size` bytes: this one and the workers that run
    already, or this one and a worker for every `least` bytes if that is more; one per core at most.
    """
    return min(physical_cores(), 1 + max(len(pool.ready()), size // least))


def each(
    work: Callable[[Any], Any],
    items: Sequence[Any],
    workers: int,
    title: str,
    done: int = 0,
    *,
    shown: bool = True,
) -> None:
    """Calls `work` for every item, in `workers` processes of which this is one.

    The others are started afresh, not forked, and take items as soon as they are ready. They hold
    the locks of all workspaces that `work` refers to, and end with this process, even when it is
    killed, and when the work fails. `shown`: with a progress bar, on a terminal.

    Raises:
        ArtifactError: a worker was killed (units that were finished are kept), or the work cannot
            be pickled.
        OSError: a file could not be fsynced.
    """
    from tqdm import tqdm

    total = done + len(items)
    count = min(workers, len(items))
    hidden = None if shown else True  # None: as the terminal says
    with tqdm(total=total, initial=done, desc=title, unit="shard", disable=hidden) as bar:
        if count < 2 or not _one_at_a_time.acquire(blocking=False):
            with fsyncs_in_background():
                for item in items:
                    work(item)
                    bar.update()
            return
        try:
            _shared_out(work, items, count, title, bar.update)
        except BaseException:
            pool.end()
            raise
        finally:
            _one_at_a_time.release()


def _shared_out(
    work: Callable[[Any], Any],
    items: Sequence[Any],
    processes: int,
    title: str,
    advance: Callable[[], object],
) -> None:
    """Does the work in this process and in workers, each of which takes the next item when free."""
    if processes >= physical_cores():
        work = InTurn(work)
    content, locks = _pickled(work, title)
    job = Job(title, processes, deque(items), content, locks, advance)
    for worker in pool.begin(processes - 1):
        worker.jobs.put(job)
    with fsyncs_in_background():
        for item in job.taken():
            work(item)
            job.finish()
    job.wait()


def end_workers() -> None:
    """Ends the workers, unless they are in use, to free their memory."""
    if _one_at_a_time.acquire(blocking=False):
        try:
            pool.end(wait=False)
        finally:
            _one_at_a_time.release()


_one_at_a_time = threading.Lock()
"""A second call in another thread goes without workers: a failure of one call, which ends the
workers, must not end work of the other."""


@dataclass(frozen=True)
class InTurn:
    """Calls the function without starting threads: for when every core has a process."""

    work: Callable[[Any], Any]

    def __call__(self, item: Any) -> None:
        """Works on one item."""
        with without_threads():
            self.work(item)


class _Pickler(pickle.Pickler):
    """Collects the lock descriptors of all workspaces among what it pickles."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.locks: set[int] = set()

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) == "__main__":
            raise pickle.PicklingError(
                f"{obj} is defined in __main__, which a worker cannot import"
            )
        if isinstance(obj, Workspace) and obj.lock_fd > 2:
            self.locks.add(obj.lock_fd)
        return NotImplemented


def _pickled(work: Callable[[Any], Any], title: str) -> tuple[bytes, list[int]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump((str(Path.cwd()), work))
    except Exception as error:
        raise ArtifactError(
            f"{title}: its work cannot be sent to another process ({error}); use functions and "
            "classes of modules, or one worker"
        ) from error
    return file.getvalue(), sorted(pickler.locks)
