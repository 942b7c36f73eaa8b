"""The params of evaluation."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tasks.artifact import Inert, Params

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


class BenchmarkParams(Params):
    """A public benchmark of reward models in local files of its own schema. It is scored, never
    trained on; prompts that the training pairs hold as well are counted."""

    name: Literal["rewardbench", "rewardbench2", "rm_bench", "judgebench"]
    """Which benchmark it is: says how its rows are read and its figures made."""
    path: str = Field(min_length=1)
    """A file, a glob or a directory: .parquet .jsonl .json .csv, plain or compressed."""
    called: Annotated[str, Field(pattern=NAME)] | None = None
    """Names it in tables and files, where one benchmark is given twice; null: its name."""
    max_length: Annotated[int, Field(ge=1)] | None = 2048
    """Tokens of an answer with its prompt; of more, the first ones are cut off. 2048 is what the
    benchmarks' own tools do. null: only what the model cannot read."""

    @property
    def label(self) -> str:
        """What it is called."""
        return self.called or self.name


class EvaluationParams(Params):
    """How the held-out pairs are scored, and which figures are made. Every pair is scored."""

    batch_size: Annotated[int, Field(ge=1), Inert] = 16
    """Sequences in one forward pass (a pair is two); changes rewards by less than 1e-6."""
    device: Annotated[str | None, Field(pattern=r"^(cpu|mps|cuda(:\d+)?)$"), Inert] = None
    """Where the model runs; null takes CUDA where there is one, else the CPU."""
    histogram_bins: Annotated[int, Field(ge=5, le=500)] = 40
    """Bars in each plot."""
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Draws of the bootstrap, which makes the interval of the calibration error, and all intervals
    where a prompt has several pairs (up to 2000 prompts; of more, a formula gives the same)."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the bootstrap."""
    first_tokens: Annotated[int, Field(ge=1)] | None = 64
    """Tokens of each answer that are scored apart, to see whether the rest is judged at all: at
    most one more pass over pairs with longer answers. null: not done."""
    null_model_pairs: Annotated[int, Field(ge=0)] = 2000
    """Training pairs that the null models (length, markup, opening) are fitted on; 0: none."""
    probe_prompts: Annotated[int, Field(ge=0)] = 8
    """Held-out prompts that get nine extreme answers each (empty, repeated, ...); 0: none."""
    slice_by: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Columns of the sources' rows, such as [category, meta.level] (a dotted path reaches into
    one), for each of whose 30 commonest values (or fifths, of numbers that hardly repeat) the
    figures are made apart. Another list trains nothing again."""
    suspects: Annotated[int, Field(ge=0)] = 100
    """Most pairs in the table of labels that the model contradicts; 0: no table."""
    benchmarks: tuple[BenchmarkParams, ...] = ()
    """Benchmarks to score beside the held-out pairs."""

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        labels = [benchmark.label for benchmark in self.benchmarks]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} stands twice; tell them apart with `called`")
        return self
