"""What a params file may say about conversion."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tasks.artifact import Inert, Params
from tasks.conversion.options import SplitBy

Contradictions = Literal["drop", "keep", "majority", "soft"]


class ConversionParams(Params):
    """How raw rows become preference pairs."""

    eval_fraction: float = Field(default=0.05, ge=0.0, lt=1.0)
    """Share of the prompt groups that is held out; 0 keeps everything for training."""
    split_by: SplitBy = "prompt"
    """What is held out together: `prompt`, the pairs of one prompt; `opening`, those of all prompts
    that begin with the same turns, down to the user's first, under whatever system. For
    conversations that branch, or are cut at several of their turns: a longer prompt would be held
    out from a shorter one's answer."""
    seed: int = 0
    """Another seed holds out other groups."""
    max_bad_fraction: float = Field(default=0.01, ge=0.0, le=1.0)
    """Share of a source's rows that may be unusable before the run fails: those that ingestion
    could not read, and those that make no pair through a fault of their own."""
    min_rows: int = Field(default=1, ge=1)
    """Pairs that have to be left. A real run wants a hundred at least; the default lets examples
    and trial runs of a few rows pass, which are most of the runs that are so small."""
    duplicates: Literal["drop", "keep"] = "drop"
    """Pairs that another pair repeats, exactly or up to NFC and surrounding whitespace."""
    contradictions: Contradictions = "drop"
    """Pairs that stand in the data both ways round: dropped on both sides, or kept, one of each
    side unless `duplicates` keeps more. Where several people judge a pair in a row each:
    `majority` keeps what most rows say, the others counted as `outvoted`; `soft` keeps it with the
    share of the rows that say it as its preference, the others counted as `joined`; equal numbers
    are dropped."""
    ties: Literal["drop", "keep"] = "drop"
    """Pairs neither answer of which is better: left out and counted, or kept with preference 0.5.
    Such a pair has no right answer, and evaluation counts it apart."""
    overrides: Annotated[Path | None, Inert] = None
    """A file (CSV, Parquet, JSON or JSONL) with `pair_id` and `action` (flip, drop, tie or
    empty), as evaluation's suspects.csv once looked through. Its bytes count, not its place."""
    workers: Annotated[int | None, Inert] = Field(default=None, ge=1)
    """Processes that convert shards side by side; None: one per core where it pays. Does not change
    the result."""
