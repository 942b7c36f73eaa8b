"""The `ingestion:` section: the files with raw rows, and which of their rows are kept."""

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, field_serializer, model_validator

from tasks.artifact import Inert, Params
from tasks.ingestion.formats.extensions import ARCHIVES, CODECS, FORMATS
from tasks.ingestion.places.downloads import is_url
from tasks.ingestion.redaction import without_secrets
from tasks.ingestion.where import Condition

Use = Literal["both", "train", "eval", "exclude"]
FORMAT = (
    rf"^({'|'.join(e[1:] for e in (*FORMATS, *ARCHIVES))})(\.({'|'.join(c[1:] for c in CODECS)}))?$"
)


class Source(Params):
    """One named set of files. Conversion uses `layout`, `columns`, `options` and `use`; ingestion
    does not."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Names the source in every later table; lower case, at most 64 characters."""
    path: str | None = Field(default=None, min_length=1)
    """A file, a glob (`**` crosses directories) or a directory, relative to where one runs, or a
    URL (https, s3, gs ...; a glob where the store can list). Within an archive:
    `raw.zip!/train/*.jsonl`."""
    hub: str | None = Field(default=None, pattern=r"^[\w.-]+(/[\w.-]+)?$")
    """In place of `path`: a dataset of the Hugging Face hub, `owner/name`."""
    revision: str = "main"
    """Commit, tag or branch on the hub; what moves is resolved to its commit first."""
    config: str | None = None
    """One configuration of a hub dataset, as its card names them."""
    split: str | None = None
    """One split of a hub dataset: train, test ...; None: all."""
    data_files: tuple[str, ...] = ()
    """Globs of files within a hub dataset, in place of `config` and `split`."""
    storage: dict[str, JsonValue] | None = None
    """What fsspec has to know of a URL's store, such as endpoint_url; never a secret. Files and
    http(s) take none."""
    layout: str | None = None
    """How a row becomes a pair; None: recognised from the columns when exactly one layout fits."""
    columns: dict[str, str] | None = None
    """Our name -> the source's name, or a dotted path such as `answers.0.text`, for rows under
    names of their own."""
    options: dict[str, JsonValue] | None = None
    """What else the layout has to be told, such as what a label means; each layout has its own."""
    use: Use = "both"
    """What its pairs are for: `both`, a share is held out; `train`, none is; `eval`, all are, such
    as a gold set; `exclude`, none is used. Of a prompt that stands in an `eval` or `exclude` source
    no other source's pairs are used; what any source holds out is trained on in none."""
    format: str | None = Field(default=None, pattern=FORMAT)
    """What the files are where their names do not say it, such as a download without an extension:
    jsonl, json, csv, tsv, parquet or arrow, as jsonl.gz where compressed; or zip, tar, tar.gz. It
    overrules the names only where all of them say one thing. An archive keeps what its own name
    says, and this is then the format of its members."""
    limit: int | None = Field(default=None, ge=1)
    """Rows to read at most, good or bad, in the order of the sorted files: for a quick try."""
    where: dict[Annotated[str, Field(min_length=1)], Condition] = Field(default={})
    """Which good rows are wanted, by their columns: a value, a list of values, or a range, as in
    `{language: [en, de], meta.score: {min: 4}}`. All conditions have to hold; null stands for empty
    cells and missing columns, too."""
    weight: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of the wanted rows that is kept, chosen by a hash of each row's content: rows that are
    added later move no other. Not above 1: equal pairs are dropped as duplicates anyway."""
    cap: int | None = Field(default=None, ge=1)
    """Rows to keep at most, after `where` and `weight`: those whose content has the lowest
    hashes."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """Of CSV files; None: tab for .tsv, else comma."""
    quotes: bool = True
    """Whether quotes enclose cells of CSV files; else they are characters like others."""

    @model_validator(mode="after")
    def _exactly_one_place(self) -> Self:
        if (self.path is None) == (self.hub is None):
            found = "none of them" if self.path is None else "both"
            raise ValueError(f"{self.name!r} needs exactly one of path and hub, found {found}")
        of_hub = {"revision", "config", "split", "data_files"} & self.model_fields_set
        if self.hub is None and of_hub:
            raise ValueError(f"{self.name!r}: {sorted(of_hub)[0]} is for a `hub` dataset only")
        if self.storage and not (self.path and _is_of_a_store(self.path)):
            raise ValueError(
                f"{self.name!r}: storage tells of a store behind a URL (s3, gs ...), and nothing "
                "of it is used for files, http(s) or a hub dataset; leave it out, and give a "
                "server that asks for a login a signed URL"
            )
        if self.data_files and (self.config or self.split):
            raise ValueError(f"{self.name!r}: give data_files, or config and split, not both")
        return self

    @field_serializer("path", when_used="json")
    def _without_secrets(self, path: str | None) -> str | None:
        """The path for records: without the query of a URL, which may be a signature."""
        if path is None or not is_url(path):
            return path
        archive, separator, members = path.partition("!/")
        return without_secrets(archive) + separator + members


def _is_of_a_store(path: str) -> bool:
    return is_url(path) and path.partition("://")[0].lower() not in ("http", "https")


class IngestionParams(Params):
    """The sources, in the order in which their rows are written."""

    sources: tuple[Source, ...] = Field(min_length=1)
    workers: Annotated[int, Inert] = Field(default=1, ge=1, le=64)
    """Files read at the same time, in threads: pays where files are compressed. A large file of
    plain JSONL is read by other processes, too: one for each 64 MB of it, and for each core."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        twice = [n for n, count in Counter(s.name for s in self.sources).items() if count > 1]
        if twice:
            raise ValueError(f"sources share the name {twice[0]!r}; each needs a name of its own")
        return self


def key_fields(source: Source) -> dict[str, Any]:
    """The fields of a source that change the ingested rows, and so belong to ingestion's key.

    In place of the path, the key has the files that it matches; in place of the hub's revision, the
    commit.
    """
    declared: dict[str, Any] = {} if source.format is None else {"format": source.format}
    declared |= {} if source.quotes else {"quotes": False}
    declared |= {"where": source.where} if source.where else {}
    return declared | {
        "name": source.name,
        "limit": source.limit,
        "delimiter": source.delimiter,
        "weight": source.weight,
        "cap": source.cap,
    }
