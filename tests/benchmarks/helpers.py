"""Imports before a clock starts: in this process, and in those that help it."""

import importlib
import time

HELPERS_LIBRARIES = (
    "fastokens",
    "jinja2",
    "orjson",
    "pyarrow.compute",
    "pyarrow.parquet",
    "tokenizers",
)
LIBRARIES = (*("torch", "transformers", "pandas", "tqdm"), *HELPERS_LIBRARIES)


def import_libraries() -> None:
    """Imports what the stages import, before a clock starts."""
    from tasks.artifact.memory import share_heaps

    share_heaps()
    for name in LIBRARIES:
        importlib.import_module(name)


def begin_helpers() -> None:
    """Starts the processes that help this one, and has them import what the stages import."""
    from tasks.artifact import each, physical_cores, pool
    from tasks.artifact.memory import share_heaps
    from tests.benchmarks.helpers import import_stages  # by the name that it has in the helpers

    share_heaps()  # before anything imports Arrow, as the first stage that is built does
    count = physical_cores() - 1
    pool.begin(count)
    while len(pool.ready()) < count:
        time.sleep(0.01)
    each(import_stages, range(2 * count), count + 1, "imports")


def import_stages(_: object = None) -> None:
    """Imports what the stages are made of; slowly enough that every process takes its share."""
    for name in HELPERS_LIBRARIES:
        importlib.import_module(name)
    import tasks.conversion.passes
    import tasks.conversion.task
    import tasks.ingestion.growth.full_shards
    import tasks.ingestion.task
    import tasks.templating.shards.shard
    import tasks.templating.task
    import tasks.tokenization.shard
    import tasks.tokenization.task  # noqa: F401

    time.sleep(0.2)
