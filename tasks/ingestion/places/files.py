"""One file of a source: its format, by its declaration or name, and its content, by a digest.

b.jsonl.gz  ->  SourceFile(name="b.jsonl.gz", format="jsonl", codec=".gz", ...)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Origin
from tasks.ingestion.formats.extensions import (
    ARCHIVES,
    EXPECTED,
    FORMATS,
    extension_of,
    has_known_extension,
    is_archive,
    is_data,
    split_codec,
)
from tasks.ingestion.params import Source
from tasks.ingestion.places.archives import SEPARATOR
from tasks.ingestion.places.prefixes import Prefixes, pieces_digest
from tasks.ingestion.places.unread_files import base_name, is_metadata, never_holds_rows
from tasks.ingestion.places.writable_names import unwritable


@dataclass(frozen=True)
class SourceFile:
    """One file of a source, by content."""

    name: str
    """As it was matched, with forward slashes."""
    path: Path
    format: str
    """A value of `FORMATS` or of `ARCHIVES`."""
    codec: str
    """Compression, by its name: one of `CODECS`, or empty."""
    delimiter: str
    size: int
    digest: str
    """Of its bytes on disk, as `prefixes` defines it."""
    prefixes: Prefixes = field(default_factory=Prefixes, compare=False, repr=False)
    """Digests of its beginnings, from the pass that computed `digest`."""
    quotes: bool = True

    @property
    def is_archive(self) -> bool:
        """Whether the rows are in files within it."""
        return self.format in ARCHIVES.values()

    def origin(self, scratch: Path) -> Origin:
        """The file as readers take it; `scratch` is a directory for temporary files."""
        return Origin(self.path, self.name, self.codec, self.delimiter, scratch, quotes=self.quotes)


def source_by_name(source: Source, names: Sequence[str]) -> dict[str, Source]:
    """File name -> the source to read that file with: without its `format` if that is not for it.

    If the names have different extensions, the source's `format` is only for files without a known
    one; else it is for all of them. Archives do not count.
    """
    plain = {name: base_name(name) for name in names}
    extensions = {extension_of(name) for name in plain.values() if not is_archive(name)}
    if len(extensions) < 2:
        return dict.fromkeys(names, source)
    undeclared = source.model_copy(update={"format": None})
    return {name: undeclared if has_known_extension(plain[name]) else source for name in names}


def is_wanted(source: Source, name: str) -> bool:
    """Whether a file with this name in a directory is read: by its extension, or because the source
    declares a `format`."""
    if is_data(name):
        return not is_metadata(name)
    declared = source.format is not None and not _declares_archives(source)
    return declared and not never_holds_rows(name)


def source_file(
    source: Source, name: str, path: Path, size: int, digest: str, server_names: Sequence[str] = ()
) -> SourceFile:
    """The file at `path`, in the format that the first of these gives: the source's `format`, the
    extension of its name, the names that its server gives it.

    Raises:
        DataError: none of them gives a format, or the name has characters that no line can hold.
    """
    check_name(source, name)
    typed = _typed_name(source, name, server_names)
    if typed is None:
        plain = base_name(name)
        others = ", ".join(shown(each) for each in server_names if each != plain)
        gave = f" (nor has {others}, as its server calls it)" if others else ""
        raise DataError(
            f"source {source.name!r}: {name}: {plain!r} has no known extension{gave}; {EXPECTED}: "
            "rename it, narrow `path` to the data files, or say what it is with `format`, for "
            "example format: jsonl (json, csv, tsv, parquet, arrow; jsonl.gz where compressed)"
        )
    stem, codec = split_codec(typed)
    format_ = ARCHIVES.get(Path(stem).suffix) or FORMATS[Path(stem).suffix]
    if format_ == "tar":
        codec = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz"}.get(Path(stem).suffix, codec)
    delimiter = source.delimiter or ("\t" if stem.endswith(".tsv") else ",")
    return SourceFile(name, path, format_, codec, delimiter, size, digest, quotes=source.quotes)


def check_name(source: Source, name: str) -> None:
    """Raises DataError for a name that no line of a table or a log could hold."""
    if fault := unwritable(name):
        raise DataError(
            f"source {source.name!r}: the name of {shown(name, 200)} {fault}; rename it"
        )


def _typed_name(source: Source, name: str, server_names: Sequence[str]) -> str | None:
    """A file name whose extension is the file's format; None where nothing gives one.

    A file with an archive's name is one. A `format` of rows is then that of its members.
    """
    declared, plain = source.format, base_name(name)
    if declared is not None:
        of_archive = _declares_archives(source)
        is_member = SEPARATOR in name
        if not is_member if of_archive else is_member or not is_archive(plain):
            return f"x.{declared}"
    return next((n for n in (plain, *server_names) if has_known_extension(n)), None)


def _declares_archives(source: Source) -> bool:
    return source.format is not None and is_archive(f"x.{source.format}")


def check_unchanged(file: SourceFile) -> None:
    """Raises DataError when the file's bytes are not those that the key was made of."""
    try:
        same = pieces_digest(file.path) == file.digest
    except OSError:
        same = False
    if not same:
        raise changed(file)


def changed(file: SourceFile) -> DataError:
    """The error of a file whose bytes are not those that the key was made of."""
    return DataError(
        f"{file.name} changed while it was read (changed_during_read); nothing of it was used: "
        "run again when nothing writes to it any more"
    )
