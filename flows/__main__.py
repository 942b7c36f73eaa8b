"""The command line: `reward-pipeline` or `python -m flows`.

Everything heavy is imported inside the commands: `--help` answers at once, and a run in which all
is cached imports neither torch nor Arrow.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.alias_commands import aliases
from flows.console import (
    EXIT_FAILED,
    AsJson,
    Root,
    start_logging,
    told_in_one_sentence,
)
from flows.model_commands import models
from flows.reference_commands import reference
from flows.streams import open_standard_streams, stdout_to_its_end

if TYPE_CHECKING:
    from flows.pipeline import Pipeline

EXIT_WORK_TO_DO = 2

app = typer.Typer(
    help="Raw preference data to a reward model that RL can trust, in cached, resumable stages.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(aliases)
app.add_typer(models)
app.add_typer(reference)

ParamsFile = Annotated[Path, typer.Argument(help="The params file (YAML).")]
Overrides = Annotated[list[str] | None, typer.Argument(help="dotted.key=value, as many as needed.")]


@app.command()
def run(
    params: ParamsFile,
    overrides: Overrides = None,
    until: Annotated[str | None, typer.Option(help="Stop after this stage.")] = None,
    force: Annotated[list[str] | None, typer.Option(help="Build this stage again.")] = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Run the stages; what stands already is checked and reused."""
    from flows.run import run_pipeline
    from flows.summary import print_summary

    with told_in_one_sentence():
        pipeline = _pipeline(params, overrides, root)
        summary = run_pipeline(pipeline, until=until, force=force or ())
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)


@app.command()
def plan(
    params: ParamsFile, overrides: Overrides = None, root: Root = Path(), as_json: AsJson = False
) -> None:
    """Tell what a run would do: HIT, RUN (and why), DEPENDS. Exit code 2: there is work to do."""
    from flows.plan import plan as planned_steps
    from flows.summary import print_plan

    with told_in_one_sentence():
        planned = planned_steps(_pipeline(params, overrides, root))
    if as_json:
        print(json.dumps([line.to_json() for line in planned]))
    else:
        print_plan(planned)
    if any(line.verdict != "HIT" for line in planned):
        raise typer.Exit(EXIT_WORK_TO_DO)


@app.command()
def explain(
    stage: Annotated[str, typer.Argument(help="The stage to explain.")],
    params: ParamsFile,
    overrides: Overrides = None,
    root: Root = Path(),
) -> None:
    """Tell why a stage would be built again, cause by cause, or why it would not."""
    from flows.pipeline import checked_stage
    from flows.plan import plan as planned_steps

    with told_in_one_sentence():
        checked_stage(stage)
        planned = planned_steps(_pipeline(params, overrides, root))
    for line in planned:
        if line.stage == stage:
            print(f"{line.verdict} {line.stage} {line.key or ''}".rstrip())
            print("\n".join(f"  {cause}" for cause in line.causes))


@app.command()
def verify(
    root: Root = Path(),
    deep: Annotated[bool, typer.Option(help="Read every file again.")] = False,
) -> None:
    """Hold every artifact that stands against its record. Exit code 1: something is damaged."""
    from tasks.artifact import Store
    from tasks.artifact.collection import verify as verify_all

    with told_in_one_sentence():
        verdicts = verify_all(Store(root.resolve() / "data"), deep=deep)
    for name, problem in verdicts.items():
        print(f"{'ok     ' if problem is None else 'DAMAGED'} {name}  {problem or ''}".rstrip())
    damaged = sum(problem is not None for problem in verdicts.values())
    print(f"{len(verdicts)} artifacts, {damaged} damaged")
    if damaged:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def gc(
    root: Root = Path(),
    keep_runs: Annotated[
        int, typer.Option(min=1, help="Runs to keep, of finished and of stopped ones.")
    ] = 5,
    dry_run: Annotated[bool, typer.Option(help="Tell, and take nothing.")] = False,
) -> None:
    """Move what no recent run or version in the registry refers to into data/.trash; free what has
    been there for a day."""
    from flows.collecting import collected, print_swept

    with told_in_one_sentence():
        swept = collected(root.resolve(), keep_runs=keep_runs, dry_run=dry_run)
    print_swept(swept, dry_run)


@app.command()
def show(root: Root = Path(), as_json: AsJson = False) -> None:
    """Show the last run: its artifacts with their paths, its metrics, what it registered."""
    from flows.summary import print_summary, summary_at, times_line, with_alias_now, with_times
    from tasks.artifact import Store
    from tasks.artifact.refs import last_facts

    store = Store(root.resolve() / "data")
    with told_in_one_sentence():
        told: dict[str, Any] | None = last_facts(store, "run")
        if told is None:
            print(f"no run has finished below {root.resolve()}", file=sys.stderr)
            raise typer.Exit(EXIT_FAILED)
        summary = with_alias_now(summary_at(told, store.root), root.resolve())
        summary = with_times(summary, store)
    if as_json:
        print(json.dumps(summary))
        return
    print(times_line(summary))
    print_summary(summary)
    for name, facts in summary["stages"].items():
        print(f"{name:13} {facts['path']}")


@app.command()
def inspect(
    params: ParamsFile,
    overrides: Overrides = None,
    pairs: Annotated[int, typer.Option(min=0, help="Pairs to show.")] = 3,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Show what the data are: rows, reasons, lengths, duplicates, a baseline and a few pairs."""
    from flows.inspection import inspect as inspected
    from flows.inspection_print import print_inspection
    from tasks.errors import DataError

    with told_in_one_sentence():
        found = inspected(_pipeline(params, overrides, root), pairs)
        if as_json:
            print(json.dumps(found.to_json()))
        else:
            print_inspection(found, None if sys.stdout.isatty() else 140)
        if found.failure:
            raise DataError(found.failure)


def _pipeline(params: Path, overrides: list[str] | None, root: Path) -> "Pipeline":
    from flows.params import load
    from flows.pipeline import Pipeline

    origin = {"file": str(params), "overrides": list(overrides or ())}
    return Pipeline(load(params, overrides or ()), root.resolve(), origin=origin)


def main() -> None:
    """Entry point of the console script."""
    open_standard_streams()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    start_logging()
    with stdout_to_its_end():
        app()


if __name__ == "__main__":
    main()
