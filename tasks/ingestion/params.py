"""The `ingestion:` section: which files hold the raw rows."""

from collections import Counter
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, model_validator

from tasks.artifact import Inert, Params


class Source(Params):
    """One named set of files. `layout`, `columns` and `options` stand here for the reader's sake:
    they say how conversion understands the rows, and ingestion does not look at them."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Names the source in every later table; lower case, at most 64 characters."""
    path: str = Field(min_length=1)
    """A file, a glob (`**` crosses directories) or a directory, relative to where one runs."""
    layout: str | None = None
    """How a row becomes a pair; None: recognised from the columns when exactly one layout fits."""
    columns: dict[str, str] | None = None
    """Our name -> the source's name, for flat rows under names of their own."""
    options: dict[str, JsonValue] | None = None
    """What else the layout has to be told, such as what a label means; each layout has its own."""
    limit: int | None = Field(default=None, ge=1)
    """Rows to read at most, good or bad, in the order of the sorted files."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """Of CSV files; None: tab for .tsv, else comma."""


class IngestionParams(Params):
    """The sources, in the order in which their rows are written."""

    sources: tuple[Source, ...] = Field(min_length=1)
    workers: Annotated[int, Inert] = Field(default=1, ge=1, le=64)
    """Files read at the same time, in threads: pays where files are compressed."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        twice = [n for n, count in Counter(s.name for s in self.sources).items() if count > 1]
        if twice:
            raise ValueError(f"sources share the name {twice[0]!r}; each needs a name of its own")
        return self


def reading(source: Source) -> dict[str, Any]:
    """What of a source changes the ingested rows, and so belongs to ingestion's key.

    The path itself does not: the files that it matched do, by name and content.
    """
    return {"name": source.name, "limit": source.limit, "delimiter": source.delimiter}
