"""The command line: `reward-pipeline` or `python -m flows`.

Commands import heavy modules when they need them: `--help` answers at once, and a fully cached run
imports neither torch nor Arrow.
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
    errors_in_one_sentence,
    start_logging,
)
from flows.model_commands import models
from flows.reference_commands import reference
from flows.store_commands import store
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
app.add_typer(store)
app.add_typer(aliases)
app.add_typer(models)
app.add_typer(reference)

ParamsFile = Annotated[Path, typer.Argument(help="The params file (YAML).")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Overrides: dotted.key=value, repeatable.")
]


@app.command()
def run(
    params: ParamsFile,
    overrides: Overrides = None,
    until: Annotated[str | None, typer.Option(help="Stop after this stage.")] = None,
    force: Annotated[
        list[str] | None, typer.Option(help="Build this stage again; repeatable.")
    ] = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Run the pipeline. Finished stages are checked and reused."""
    from flows.run import run_pipeline
    from flows.summary import print_summary

    with errors_in_one_sentence():
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
    """Show what a run would do with each stage: HIT (reuse), RUN (build) or DEPENDS (on a RUN).
    Exit code 2: there is work to do."""
    from flows.plan import plan as planned_steps
    from flows.summary import print_plan

    with errors_in_one_sentence():
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
    """Show every cause for which a stage would be built again, or that it would be reused."""
    from flows.pipeline import checked_stage
    from flows.plan import plan as planned_steps

    with errors_in_one_sentence():
        checked_stage(stage)
        planned = planned_steps(_pipeline(params, overrides, root))
    for line in planned:
        if line.stage == stage:
            print(f"{line.verdict} {line.stage} {line.key or ''}".rstrip())
            print("\n".join(f"  {cause}" for cause in line.causes))


@app.command()
def show(root: Root = Path(), as_json: AsJson = False) -> None:
    """Show the last finished run: its stages and their paths, metrics, registered version."""
    from flows.summary import print_summary, summary_at, times_line, with_alias_now, with_times
    from tasks.artifact import Store
    from tasks.artifact.refs import RUN, facts, refs

    artifacts = Store(root.resolve() / "data")
    with errors_in_one_sentence():
        if not (finished := refs(artifacts, RUN)):
            print(f"no run has finished below {root.resolve()}", file=sys.stderr)
            raise typer.Exit(EXIT_FAILED)
        told: dict[str, Any] = facts(finished[-1])
        summary = with_alias_now(summary_at(told, artifacts.root), root.resolve())
        summary = with_times(summary, finished[-1], artifacts)
    if as_json:
        print(json.dumps(summary))
        return
    print(times_line(summary))
    print_summary(summary)
    for name, stage in summary["stages"].items():
        print(f"{name:13} {stage['path']}")


@app.command()
def inspect(
    params: ParamsFile,
    overrides: Overrides = None,
    pairs: Annotated[int, typer.Option(min=0, help="Number of pairs to show.")] = 3,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Show what is in the data: rows used and dropped, lengths, duplicates, a baseline, some
    pairs."""
    from flows.inspection import inspect as inspected
    from flows.inspection_print import print_inspection
    from tasks.errors import DataError

    with errors_in_one_sentence():
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
