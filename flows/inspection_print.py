"""An `Inspection` in the terminal: its counts as tables and lines, its pairs in colours.

No row can write to the terminal: what would move the cursor or hide text is written out.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from flows.inspection import PERCENTILES, Inspection, turns
from tasks.artifact import Ledger

FEW = 100
LONGEST_SHOWN = 1500
"""Characters of a prompt or an answer that are printed; the rest is counted."""
LONGEST_ROW = 200
"""The same of a row that could not be used."""
INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Unicode categories that could move the cursor, turn text around or hide it."""


def visible(text: str) -> str:
    """The text with everything that a terminal would act upon, or hide, written out.

    >>> visible("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return "".join(
        char
        if char == "\n" or unicodedata.category(char) not in INVISIBLE
        else char.encode("unicode_escape").decode()
        if not 0xD800 <= ord(char) <= 0xDFFF
        else f"\\u{ord(char):04x}"
        for char in text
    )


def print_inspection(found: Inspection, width: int | None = None) -> None:
    """Tables for the counts, then the pairs: prompt dim, chosen green, rejected red."""
    from rich.console import Console

    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(_source_table(found))
    for fault, row in _unusable(found):
        console.print(fault)
        console.print(f"    {row}", style="dim")
    if found.failure and found.path:
        console.print("a run fails (see the end); what follows is of the rows that can be used")
    if found.path:
        console.print(_length_table(found))
        for line in _lines(found.report, found.split_by):
            console.print(line)
    for number, row in enumerate(found.pairs, 1):
        console.print()
        console.print(_pair(row, f"{number} of {len(found.pairs)}"))
    console.print(f"\nrows that could not be used: {' and '.join(found.quarantines)}")
    if found.path:
        console.print(f"all pairs: {found.path}/pairs")


def _source_table(found: Inspection) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="rows", title_justify="left", header_style="bold")
    for heading in ("source", "stage"):
        table.add_column(heading)
    for heading in ("in", "added", "out"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("left out, for")
    for stage, ledger in found.ledgers.items():
        for source, account in Ledger.from_json(ledger).accounts.items():
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in account.dropped.most_common())
            counts = [f"{n:,}" for n in (account.rows_in, account.added, account.rows_out)]
            table.add_row(Text(visible(source)), stage, *counts, Text(visible(reasons)))
    return table


def _unusable(found: Inspection) -> Iterator[tuple[str, str]]:
    """The first row of each fault: where it stands, what is wrong with it, and what it says."""
    for stage, rows in found.unusable.items():
        for row in rows:
            account = found.ledgers[stage][row["source"]]
            field = f", {row['field']}" if row["field"] else ""
            fault = (
                f"{row['source']}: {row['reason']} ({account['dropped'][row['reason']]:,}x), first "
                f"{row['file']} row {row['row']}{field}: {row['message']}"
            )
            raw = visible(row["raw"]).replace("\n", "\\n")
            yield visible(fault), _shortened(raw, LONGEST_ROW)


def _length_table(found: Inspection) -> Any:
    from rich.table import Table

    table = Table(title="length in characters", title_justify="left", header_style="bold")
    table.add_column("percentile")
    for percentile in PERCENTILES:
        name = {0: "shortest", 50: "median", 100: "longest"}.get(percentile, f"{percentile}%")
        table.add_column(name, justify="right", no_wrap=True)
    for name, values in found.lengths.items():
        table.add_row(name, *(f"{value:,}" for value in values))
    return table


def _lines(report: Mapping[str, Any], split_by: str) -> Iterator[str]:
    duplicates, baseline = report["duplicates"], report["length_baseline"]
    yield (
        f"pairs: {report['pairs']:,} ({report['train']:,} train, {report['eval']:,} eval) in "
        f"{report['groups']:,} groups of one prompt; {report['conversational']:,} conversations, "
        f"{report['with_margin']:,} with a margin, {report['with_preference']:,} with a preference "
        "below 1"
    )
    yield (
        f"ties: {report['ties']:,}; duplicates: {duplicates['exact']:,} exact, "
        f"{duplicates['normalised']:,} but for spaces and composition; contradictions: "
        f"{report['contradictions']:,}"
    )
    parts = [f"{s}: {_rate(facts['length_baseline'])}" for s, facts in report["sources"].items()]
    yield (
        f"preferring the answer of more characters is right for {_rate(baseline['all'])} of the "
        f"pairs ({visible(', '.join(parts))}): a model has to beat that"
    )
    near, cycles = report["near_duplicates"], report["cycles"]
    apart = " (conversion.split_by: opening holds out together what begins alike)"
    advised = near["near_duplicates"] and split_by == "prompt"
    short = " (in prompts of under 64 bytes this is not to be seen)"
    yield (
        f"of {near['looked_at']:,} held-out prompts looked at, {near['near_duplicates']:,} are "
        f"nearly prompts of the training split{apart if advised else ''}"
        f"{short if report['eval'] and not near['looked_at'] else ''}; "
        f"{cycles['pairs']:,} pairs of {cycles['prompts']:,} prompts stand in cycles (a over b "
        "over c over a)"
    )
    for source, labels in report["labels"].items():
        counts = ", ".join(f"{n:,} {label}" for label, n in labels.items())
        yield visible(f"answers of {source} are labelled: {counts}")
    if decided := report["overrides"]["listed"]:
        applied = [f"{action} {n:,}" for action, n in report["overrides"]["applied"].items()]
        yield (
            f"of {decided:,} overrides, {report['overrides']['unknown']:,} name no pair that is "
            f"here; pairs changed: {', '.join(applied) or 'none'}"
        )
    if report["pairs"] < FEW:
        yield f"fewer than {FEW} pairs: enough to try things out, not to train on"
    for source, notes in report["notes"].items():
        if notes:
            changed = ", ".join(f"{note} ({n:,}x)" for note, n in notes.items())
            yield visible(f"changed or seen in {source}: {changed}")


def _rate(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _pair(row: Mapping[str, Any], number: str) -> Any:
    from rich.text import Text

    margin = "" if row["margin"] is None else f", margin {row['margin']:g}"
    margin += "" if row["preference"] == 1 else f", preference {row['preference']:g}"
    origin = f"{row['source']}, {row['file']} row {row['row']}, {row['split']}{margin}"
    text = Text(f"pair {number}: {visible(origin)}\n", style="bold")
    for name, style in (("prompt", "dim"), ("chosen", "green"), ("rejected", "red")):
        text.append(f"{name}\n", style=f"not bold {style} underline")
        for role, content in turns(row[name]):
            label = f"[{role}] " if role else ""
            text.append(label + _shortened(visible(content)) + "\n", style=f"not bold {style}")
    text.rstrip()
    return text


def _shortened(text: str, longest: int = LONGEST_SHOWN) -> str:
    more = len(text) - longest
    return text if more <= 0 else f"{text[:longest]} ... ({more:,} characters more)"
