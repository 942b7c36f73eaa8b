"""The tables of the page from the figures of `metrics.json`: sources, bias, calibration, labels."""

from collections.abc import Sequence

from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.wording import count, number, share, share_interval, worded

MOST_SUSPECTS = 20
"""Rows shown of the labels that the model contradicts."""
ACCURACY = ("pairs", "accuracy", "95 % interval", "ties as ½", "margin", "loss")
PLAIN_LOSS = "loss without margins"
UNDECIDED = "no better side"


def _headings(metrics: Figures) -> tuple[str, ...]:
    """Of pairs with margins, and of those without a better side, only where there are any."""
    plain = (PLAIN_LOSS,) if "loss_without_margins" in metrics["overall"] else ()
    return (*ACCURACY, *plain, *((UNDECIDED,) if metrics["overall"]["undecided"] else ()))


def _accuracy(figures: Figures, headings: Sequence[str]) -> list[str]:
    more = {
        PLAIN_LOSS: number(figures.get("loss_without_margins", figures["loss"])),
        UNDECIDED: count(figures["undecided"]),
    }
    return [
        count(figures["pairs"]),
        share(figures["accuracy"]),
        share_interval(figures["accuracy_interval"]),
        share(figures["accuracy_ties_half"]),
        number(figures["margin"]),
        number(figures["loss"]),
        *(figure for name, figure in more.items() if name in headings),
    ]


def sources(metrics: Figures) -> list[Table]:
    """Accuracy by source, by slice, and by what the columns of the rows say."""
    heads = _headings(metrics)
    rows = [[source, *_accuracy(figures, heads)] for source, figures in metrics["sources"].items()]
    rows.append(["all sources", *_accuracy(metrics["overall"], heads)])
    strong = frozenset({len(rows) - 1})
    tables = [Table("By source", ("source", *heads), rows, strong=strong)]
    columns: Figures = metrics.get("columns", {})
    for name, slices in metrics["slices"].items():
        if len(slices) > 1:
            tables.append(_by_slice(worded(name), slices, heads, folded=True))
    return [*tables, *(_by_slice(name, columns[name], heads) for name in columns)]


def _by_slice(
    name: str, slices: Sequence[Figures], heads: Sequence[str], *, folded: bool = False
) -> Table:
    rows = [[each["slice"], *_accuracy(each, heads)] for each in slices]
    return Table(f"By {name}", (name, *heads), rows, folded=folded)


def bias(metrics: Figures) -> list[Table]:
    """The model beside null models, leanings, and what length and prompt explain."""
    found = metrics["bias"]
    judges = sorted(found["null_models"].items(), key=lambda e: -(e[1]["accuracy"] or 0))
    rows = [
        [
            worded(n),
            share(f["decides"]),
            share(f["accuracy"]),
            share_interval(f["accuracy_interval"]),
        ]
        for n, f in judges
    ]
    own = frozenset(i for i, (name, _) in enumerate(judges) if name == "model")
    heads = ("judge", "decides", "accuracy", "95 % interval")
    note = (
        "Ties count ½. Null models see only length, markup, opening or place of an answer."
        + "".join(f" {worded(n).capitalize()}: {f['note']}." for n, f in judges if "note" in f)
    )
    return [
        Table("The model beside null models", heads, rows, note, strong=own),
        _leanings(found["leanings"]),
        Table("Length and prompt", ("", "figure"), _length_rows(found)),
    ]


def _leanings(found: Figures) -> Table:
    rows = [
        [
            "the first place in its row" if n == "first" else f"more {worded(n)}",
            count(f["pairs"]),
            share(f["data"]),
            share(f["model"]),
        ]
        for n, f in found.items()
    ]
    heads = ("answer with", "pairs that differ", "data prefer it", "model prefers it")
    return Table("Leanings of the data and of the model", heads, rows, folded=True)


def _length_rows(found: Figures) -> list[list[str]]:
    length, prompt = found["length"], found["prompt"]
    kinds = ("matched", "chosen_longer", "chosen_shorter")
    return [
        *(
            [
                f"accuracy, {worded(k)} ({count(length[k]['pairs'])} pairs)",
                share(length[k]["accuracy"]),
            ]
            for k in kinds
        ),
        ["balanced accuracy of the last two", share(length["balanced_accuracy"])],
        ["correlation of reward and length, within prompts", number(length["partial_correlation"])],
        ["variance of the reward that the prompt explains", share(prompt["share_of_variance"])],
    ]


def calibration(metrics: Figures) -> list[Table]:
    """Calibration by bin, and where the rewards lie."""
    rows = [
        [share(b["confidence"]), share(b["accuracy"]), count(b["pairs"])]
        for b in metrics["calibration"]
    ]
    rewards = metrics["rewards"]
    levels = [f"{100 * level:g} %" for level in rewards["levels"]]
    spread = [
        [name, number(r["mean"]), number(r["std"]), *map(number, r["quantiles"])]
        for name, r in ((n, rewards[n]) for n in ("chosen", "rejected", "all", "margin"))
    ]
    return [
        Table("Calibration", ("mean confidence", "right", "pairs"), rows, names=0, folded=True),
        Table("Quantiles of the rewards", ("", "mean", "deviation", *levels), spread, folded=True),
    ]


def suspects(metrics: Figures, rows: Sequence[Figures]) -> list[Table]:
    """The labels that the model contradicts most; `rows` are all those of suspects.csv."""
    if not rows:
        return []
    names = ("prompt", "chosen", "rejected")
    cells = [
        [
            *(str(row[n]) for n in names),
            row["source"],
            share(row["confidence"]),
            number(row["margin"]),
        ]
        for row in rows[:MOST_SUSPECTS]
    ]
    heads = (*names, "source", "confidence", "margin")
    found = metrics["suspects"]
    every = len(rows) == found["contradicted"]
    which = "All of them" if every else f"The first {count(len(rows))} of them"
    note = (
        f"The model contradicts {count(found['contradicted'])} "
        f"{'label' if found['contradicted'] == 1 else 'labels'}, "
        f"{count(found['confident'])} with at least {share(found['confident_at'])} confidence. "
        f"{which}, to be relabelled: suspects.csv."
    )
    return [Table("Labels worth a second look", heads, cells, note, names=4, folded=True)]
