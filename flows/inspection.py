"""What a person wants to know of preference data before training on it.

In:  a params file's pipeline; its ingestion and conversion are run, or found in the store.
Out: an `Inspection`: rows per source and reason, with the first of each, lengths, ties, duplicates,
     contradictions, the length-only baseline and a few pairs; `inspection_print` prints it.

Where a run would fail because too much is wrong with the rows, or because a split is empty, this is
of a conversion that tolerates it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from flows.checks import check_params
from flows.pipeline import Pipeline
from tasks.artifact import Artifact, Ledger
from tasks.artifact.collection import in_use
from tasks.artifact.ledger import QUARANTINE_FILE, first_faults
from tasks.conversion.conversation.message_names import REASONING
from tasks.errors import DataError

TEXTS = ("prompt", "chosen", "rejected")
PERCENTILES = (0, 5, 25, 50, 75, 95, 99, 100)


@dataclass(frozen=True)
class Inspection:
    """The answer, as plain data."""

    path: str | None
    """The conversion artifact; None: it fails whatever is tolerated, so that all that is known is
    what ingestion read."""
    failure: str | None
    """Why a run would fail."""
    ledgers: Mapping[str, Any]
    """Stage -> its ledger, as `Ledger.to_json` gives it."""
    unusable: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Stage -> the first row of each source and reason that is a fault of the row, as its
    quarantine has it."""
    quarantines: tuple[str, ...]
    """Where all of them are."""
    report: Mapping[str, Any]
    """The conversion's report without its ledger: splits, ties, duplicates, baselines ..."""
    split_by: str
    """What was held out together: `conversion.split_by`."""
    lengths: Mapping[str, tuple[int, ...]]
    """Characters of prompts and answers at `PERCENTILES`."""
    pairs: tuple[dict[str, Any], ...]
    """Rows of the conversion, spread evenly over it."""

    def to_json(self) -> dict[str, Any]:
        """The object that `inspect --json` prints."""
        return asdict(self) | {"percentiles": PERCENTILES}


def inspect(pipeline: Pipeline, pairs: int) -> Inspection:
    """What the pipeline's data are, with `pairs` examples.

    Raises:
        PipelineError: the params cannot be used, or ingestion failed.
    """
    check_params(pipeline.params, "conversion")
    store = pipeline.store
    with in_use(store):
        ingestion = store.obtain(pipeline.step("ingestion", {}))
        conversion, failure = _converted(pipeline, ingestion)
        done = [artifact for artifact in (ingestion, conversion) if artifact]
        ledgers = {artifact.stage: artifact.report["ledger"] for artifact in done}
        quarantines = {artifact.stage: artifact.path / QUARANTINE_FILE for artifact in done}
        report = dict(conversion.report) if conversion else {}
        report.pop("ledger", None)
        lengths, examples = (
            _measured(conversion, pairs, report["pairs"]) if conversion else ({}, ())
        )
        return Inspection(
            path=str(conversion.path) if conversion else None,
            failure=failure,
            ledgers=ledgers,
            unusable={
                stage: tuple(first_faults(file, Ledger.from_json(ledgers[stage])))
                for stage, file in quarantines.items()
            },
            quarantines=tuple(map(str, quarantines.values())),
            report=report,
            split_by=pipeline.params.conversion.split_by,
            lengths=lengths,
            pairs=examples,
        )


def _converted(pipeline: Pipeline, ingestion: Artifact) -> tuple[Artifact | None, str | None]:
    """The conversion, and why it fails as the params have it: then it is one that tolerates what
    is wrong with rows, or else holds nothing out as well, if there is one."""
    params, done = pipeline.params, {"ingestion": ingestion}
    try:
        return pipeline.store.obtain(pipeline.step("conversion", done)), None
    except DataError as error:
        failure = str(error)
    tolerated = {"max_bad_fraction": 1.0, "min_rows": 1}
    for update in (tolerated, {**tolerated, "eval_fraction": 0.0}):
        tolerant = params.conversion.model_copy(update=update)
        other = replace(pipeline, params=params.model_copy(update={"conversion": tolerant}))
        with suppress(DataError):
            return pipeline.store.obtain(other.step("conversion", done)), failure
    return None, failure


def _measured(
    conversion: Artifact, wanted: int, total: int
) -> tuple[dict[str, tuple[int, ...]], tuple[dict[str, Any], ...]]:
    """Length percentiles and evenly spread rows, in one pass over the pairs."""
    import numpy as np

    places = {n * total // wanted for n in range(wanted)} if wanted else set[int]()
    lengths: dict[str, list[int]] = {name: [] for name in TEXTS}
    examples: list[dict[str, Any]] = []
    for number, row in enumerate(_rows(conversion.path)):
        for name in TEXTS:
            lengths[name].append(_characters(row[name]))
        if number in places:
            examples.append(row)
    found = {
        name: tuple(int(x) for x in np.percentile(values, PERCENTILES, method="nearest"))
        for name, values in lengths.items()
    }
    return found, tuple(examples)


def _rows(directory: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    columns = [*TEXTS, "tools", "margin", "preference", "source", "file", "row", "split"]
    for path in sorted((directory / "pairs").glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1024, columns=columns):
                for row in batch.to_pylist():
                    yield row | {name: json.loads(row[name] or "null") for name in TEXTS}


def _characters(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value)
    return sum(len(text) for _, text in turns(value))


def turns(value: Any) -> Iterator[tuple[str, str]]:
    """Role and text of every turn, reasoning first; plain text has no role, calls are JSON."""
    if not isinstance(value, list):
        yield "", value or ""
        return
    for turn in cast(list[dict[str, Any]], value):
        calls = turn.get("tool_calls")
        parts = [f"[{name}] {turn[name]}" for name in REASONING if turn.get(name)]
        parts.append(_content_text(turn.get("content")))
        parts += [json.dumps(calls, ensure_ascii=False)] if calls else []
        yield turn["role"], "\n".join(part for part in parts if part)


def _content_text(content: Any) -> str:
    """A content's text; of a list of parts, the texts with a mark in place of each image."""
    if not isinstance(content, list):
        return content or ""
    parts = cast(list[dict[str, Any]], content)
    return "".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in parts
    )
