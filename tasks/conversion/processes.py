"""The same work on many shards, in this process or in several side by side."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import connection
from pathlib import Path
from typing import Any

from tqdm import tqdm


def each(
    work: Callable[[Path], Any], paths: Sequence[Path], workers: int, title: str, done: int = 0
) -> None:
    """Calls `work` for every path; the first failure in their order is raised.

    `work` leaves its result in files. Several workers are fresh processes (nothing of this one's
    threads and locks is inherited), and end with this one, even when it is killed.
    """
    total = done + len(paths)
    with tqdm(total=total, initial=done, desc=title, unit="shard", disable=None) as bar:
        if workers == 1 or len(paths) < 2:
            for path in paths:
                work(path)
                bar.update()
            return
        context = multiprocessing.get_context("spawn")
        count = min(workers, len(paths))
        with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
            futures = [pool.submit(work, path) for path in paths]
            try:
                for future in as_completed(futures):
                    future.result()
                    bar.update()
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
