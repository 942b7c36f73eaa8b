"""A table of the page for every benchmark: overall, sections, subsets."""

from collections.abc import Iterable, Mapping, Sequence

from tasks.errors import some
from tasks.evaluation.benchmarks.rm_bench import LEVELS
from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.wording import count, number, share, share_interval, worded


def benchmarks(metrics: Figures) -> list[Table]:
    """A table per benchmark: overall, sections, subsets."""
    return [_benchmark(found) for found in (metrics.get("benchmarks") or {}).values()]


def _benchmark(found: Figures) -> Table:
    head, details = found["overall"], found["details"]
    levels = [level for level in LEVELS if level in details]
    rows: list[list[str]] = []
    if head:
        name = "overall" if found["complete"] else "overall, of what is there"
        rows.append([name, *_score(head | details, levels)])
    elif "item_mean" in found:
        rows.append(["mean over items", *_score(found["item_mean"], levels)])
    for name, figures in found["sections"].items():
        rows.append([f"section {name}", *_score(figures, levels)])
    strong = frozenset(range(len(rows)))
    rows += [[name, *_score(figures, levels)] for name, figures in found["subsets"].items()]
    heads = ("", "score", "95 % interval", *levels, "items")
    return Table(found["title"], heads, rows, f"{'; '.join(_notes(found))}.", strong=strong)


def _score(figures: Figures, levels: Sequence[str]) -> list[str]:
    return [
        share(figures["score"]),
        share_interval(figures["score_interval"]),
        *(share(figures[level]) for level in levels),
        count(figures["n"]),
    ]


def _notes(found: Figures) -> Iterable[str]:
    """What one has to know of a benchmark's figures."""
    yield f"{count(found['items'])} items, {count(found['answers'])} answers"
    if found["truncated"]:
        yield f"{count(found['truncated'])} cut to their last {found['max_length']:,} tokens"
    if found["special_tokens_in_text"]:
        yield f"{count(found['special_tokens_in_text'])} with special tokens as plain text"
    if found["unscored"]:
        yield f"{count(found['unscored'])} items could not be scored"
    if "contamination" in found:
        yield f"{count(found['contamination']['shared'])} items share a training prompt"
    if found["missing"]:
        yield f"not in the files: {some(found['missing'])}"
    if found["unknown"]:
        yield f"no part of it, and not in the overall score: {some(found['unknown'])}"
    for name, parts in found["details"].items():
        if isinstance(parts, Mapping):
            told = [f"{worded(part)} {number(value)}" for part, value in _shares(parts)]
            yield f"{name}: {', '.join(told)}"


def _shares(parts: Figures) -> Iterable[tuple[str, float]]:
    return ((name, value) for name, value in parts.items() if isinstance(value, float))
