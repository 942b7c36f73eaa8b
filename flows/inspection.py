"""What a person wants to know of preference data before training on it.

In:  a params file's pipeline; its ingestion and conversion are run, or found in the store.
Out: an `Inspection`: rows per source and reason, lengths, ties, duplicates, contradictions, the
     length-only baseline and a few pairs; `inspection_print` prints it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from flows.pipeline import Pipeline
from tasks.artifact import Artifact
from tasks.artifact.collection import in_use
from tasks.conversion.conversation.message_names import REASONING

TEXTS = ("prompt", "chosen", "rejected")
PERCENTILES = (0, 5, 25, 50, 75, 95, 99, 100)


@dataclass(frozen=True)
class Inspection:
    """The answer, as plain data."""

    path: str
    """The conversion artifact."""
    ledgers: Mapping[str, Any]
    """Stage -> its ledger, as `Ledger.to_json` gives it."""
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
        PipelineError: ingestion or conversion failed.
    """
    store = pipeline.store
    with in_use(store):
        ingestion = store.obtain(pipeline.step("ingestion", {}))
        conversion = store.obtain(pipeline.step("conversion", {"ingestion": ingestion}))
        report = dict(conversion.report)
        ledgers = {"ingestion": ingestion.report["ledger"], "conversion": report.pop("ledger")}
        lengths, examples = _measured(conversion, pairs, report["pairs"])
    split_by = pipeline.params.conversion.split_by
    return Inspection(str(conversion.path), ledgers, report, split_by, lengths, examples)


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
        said = [f"[{name}] {turn[name]}" for name in REASONING if turn.get(name)]
        said += [_said(turn.get("content"))] + ([json.dumps(calls)] if calls else [])
        yield turn["role"], "\n".join(part for part in said if part)


def _said(content: Any) -> str:
    """A content's text; of a list of parts, the texts with a mark in place of each image."""
    if not isinstance(content, list):
        return content or ""
    parts = cast(list[dict[str, Any]], content)
    return "".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in parts
    )
