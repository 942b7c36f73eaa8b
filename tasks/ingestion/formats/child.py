"""The process in which Parquet and Arrow files are read: `python -m tasks.ingestion.formats.child`.

Requests come on stdin, one file each; answers go to stdout. `isolation` describes both.
"""

import os
import pickle
import resource
import sys
from collections.abc import Iterator
from typing import Any

from tasks.errors import DataError
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.columnar import read_arrow, read_parquet
from tasks.ingestion.formats.isolation import CPU_SECONDS, MEMORY_BYTES

READERS = {"parquet": read_parquet, "arrow": read_arrow}


def main() -> None:
    """Serves one request after the other, until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that what a library prints does not mix with the answers

    def answer(kind: str, value: Any = None) -> None:
        pickle.dump((kind, value), answers)
        answers.flush()

    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, MEMORY_BYTES)
    while True:
        try:
            format_, path, name, codec, scratch = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        origin = Origin(
            path=path,
            name=name,
            codec=codec,
            delimiter="",
            scratch=scratch,
            advance=lambda count: answer("advance", count),
            warn=lambda text: answer("warn", text),
            declare=lambda columns: answer("declare", dict(columns)),
        )
        try:
            for batch in _cpu_limited(READERS[format_](origin)):
                answer("batch", batch)
        except Exception as error:
            answer("error", _memory_error(name, error) or error)
        else:
            answer("end")


def _memory_error(name: str, error: Exception) -> DataError | None:
    """The error if memory ran out, for which pyarrow's message sounds as if the file were
    damaged."""
    if not isinstance(error, MemoryError) and not isinstance(error.__cause__, MemoryError):
        return None
    return DataError(
        f"{name}: a batch of its rows needs more than {MEMORY_BYTES // 2**30} GiB of memory; it is "
        "damaged, or has to be written with smaller row groups"
    )


def _cpu_limited(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches; SIGXCPU ends the process if one takes more than `CPU_SECONDS`."""
    while True:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + CPU_SECONDS + 1)
        batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (soft, hard))


if __name__ == "__main__":
    main()
