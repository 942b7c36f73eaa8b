"""What in a benchmark's figures a reader must know before quoting them."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.errors import meant, shown, some
from tasks.evaluation.benchmarks.catalogue import BENCHMARKS


def benchmark_warnings(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """`[{figure, message}]`, as in `concerns.py` of the stage."""
    return [
        {"figure": f"benchmarks.{label}{place}", "message": f"{figures['title']}: {message}"}
        for label, figures in found.items()
        for place, message in _messages(figures)
    ]


def _messages(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shared = figures.get("contamination", {"shared": 0})["shared"]
    if shared:
        yield (
            ".contamination",
            f"the prompts of {shared:,} of {figures['items']:,} items stand in the training pairs: "
            "its score is no held-out figure; name its file as a source with `use: exclude` (and "
            "conversion.split_by: opening, where they stand under a system text of their own)",
        )
    if figures["missing"]:
        yield (
            ".missing",
            f"{some(figures['missing'])} are not in the files: the overall score is over the "
            "rest, and not comparable with published ones",
        )
    if figures["unknown"]:
        counts = {name: figures["subsets"][name]["n"] for name in figures["unknown"]}
        known = BENCHMARKS[figures["benchmark"]].known
        names = [f"{shown(name)} ({n:,}{meant(name, known)})" for name, n in counts.items()]
        yield (
            ".unknown",
            f"{sum(counts.values()):,} of {figures['items']:,} items are of subsets that it does "
            f"not have, and not in the overall score: {some(names)}; correct the names, or give "
            "the benchmark's own file",
        )
    if figures["unscored"]:
        first = figures["unscored_items"][0]
        yield (
            ".unscored",
            f"{figures['unscored']:,} of {figures['items']:,} items could not be rendered and "
            f"are in no figure; the first, {first['file']} row {first['row']}: {first['unscored']}",
        )
