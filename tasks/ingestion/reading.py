"""Reads the files of all sources in parallel; each is a unit that is done once.

source without a limit    file 0 | file 1 | file 2      a lane for each
source with a limit       file 0 > file 1 > file 2      one lane, so that each knows what is left
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

from tasks.artifact import Memo, Workspace
from tasks.errors import Interrupted
from tasks.ingestion.params import IngestionParams, Source
from tasks.ingestion.places.files import SourceFile

Matched = Mapping[str, Sequence[SourceFile]]
"""Source name -> its files."""


def unit_of(source: str, index: int) -> str:
    """The unit of a source's file."""
    return f"{source}-{index:05d}"


def read_all(
    workspace: Workspace, params: IngestionParams, matched: Matched, memo: Memo
) -> dict[str, list[dict[str, Any]]]:
    """Summaries of all files; without a limit, the files of a source are read in parallel.

    Raises:
        DataError: a file cannot be used; the other files that were read are kept.
    """
    from tqdm import tqdm

    total = sum(file.size for files in matched.values() for file in files)
    lock, stop = Lock(), Event()
    with (
        tqdm(total=total, desc="ingestion", unit="B", unit_scale=True, disable=None) as bar,
        ThreadPoolExecutor(params.workers) as pool,
    ):

        def advance(count: int) -> None:
            if stop.is_set():
                raise Interrupted("ingestion stopped; files that were read are kept")
            with lock:
                bar.update(count)

        shared = advance, memo
        waiting = {
            source.name: [
                pool.submit(_read_in_turn, workspace, source, matched[source.name], lane, *shared)
                for lane in _lanes(source, len(matched[source.name]))
            ]
            for source in params.sources
        }
        try:
            return {
                name: [summary for future in futures for summary in future.result()]
                for name, futures in waiting.items()
            }
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _lanes(source: Source, files: int) -> list[range]:
    """Groups of a source's files that are read one after the other: all files if there is a
    limit."""
    return [range(files)] if source.limit else [range(i, i + 1) for i in range(files)]


def _read_in_turn(
    workspace: Workspace,
    source: Source,
    files: Sequence[SourceFile],
    lane: range,
    advance: Callable[[int], object],
    memo: Memo,
) -> list[dict[str, Any]]:
    from tasks.ingestion.unit import ingest_file

    left = source.limit
    summaries: list[dict[str, Any]] = []
    for index in lane:
        if left == 0:
            break
        unit = unit_of(source.name, index)
        summary = workspace.finished(unit)
        if summary is None:
            summary = ingest_file(workspace, unit, source, files[index], left, advance, memo)
            workspace.finish(unit, summary)
        else:
            advance(files[index].size)
        summaries.append(summary)
        left = left and left - summary["counted"]
    return summaries
