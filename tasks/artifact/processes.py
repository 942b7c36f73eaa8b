"""The same work on many items, in this process or in several side by side.

In:  a picklable function that leaves its result in files, and its items.
Out: nothing; the first failure is raised.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tasks.errors import ArtifactError

WORTH_PROCESSES_BYTES = 12 * 2**20
"""Of compressed shards, some 40,000 rows: a fresh process imports for most of a second."""


def physical_cores() -> int:
    """Cores that this process may use; two threads of one core count once (Linux; else as told)."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    siblings: set[str] = set()
    for cpu in allowed:
        with suppress(OSError):
            path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            siblings.add(path.read_text())
    return len(siblings) or len(allowed)


def worthwhile(files: Sequence[Path]) -> int:
    """Processes that pay for work on these files: one per core, or this one alone where the others
    would not have made up for their imports before the work is done."""
    size = sum(file.stat().st_size for file in files)
    return physical_cores() if size >= WORTH_PROCESSES_BYTES else 1


def each(
    work: Callable[[Any], Any], items: Sequence[Any], workers: int, title: str, done: int = 0
) -> None:
    """Calls `work` for every item.

    Several workers are fresh processes (nothing of this one's threads and locks is inherited), and
    end with this one, even when it is killed.

    Raises:
        ArtifactError: a worker was killed; what had been finished is kept.
    """
    total = done + len(items)
    with tqdm(total=total, initial=done, desc=title, unit="shard", disable=None) as bar:
        count = min(workers, len(items))
        if count < 2:
            for item in items:
                work(item)
                bar.update()
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in as_completed(futures):
                    future.result()
                    bar.update()
            except BrokenProcessPool as error:
                raise ArtifactError(
                    f"{title}: a worker process was killed, most often for lack of memory; "
                    f"finished shards are kept; run again, with fewer workers than {count}"
                ) from error
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _end_with_parent() -> None:
    """Ends this process as soon as its parent is gone: no orphan writes beside a later run."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
