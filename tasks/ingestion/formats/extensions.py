"""A file's format and compression, by the extension of its name.

a.jsonl.gz -> jsonl, .gz        a.TSV -> csv        a.tar.zst -> an archive        part-0 -> ?
"""

from pathlib import Path

ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar", ".tbz2": "tar", ".txz": "tar"}
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
CODECS = (".gz", ".zst", ".bz2", ".xz")
EXPECTED = (
    f"expected {' '.join(FORMATS)}, plain or with {' '.join(CODECS)}, or an archive "
    f"({' '.join(ARCHIVES)})"
)


def is_data(name: str) -> bool:
    """Whether a file of this name holds rows."""
    return Path(split_codec(name)[0]).suffix in FORMATS


def has_known_extension(name: str) -> bool:
    """Whether a file's extension is that of rows or of an archive."""
    return is_data(name) or is_archive(name)


def extension_of(name: str) -> str:
    """The extension without that of compression; empty if it is unknown."""
    return Path(split_codec(name)[0]).suffix if has_known_extension(name) else ""


def is_archive(name: str) -> bool:
    """Whether a file of this name is an archive."""
    return Path(split_codec(name)[0]).suffix in ARCHIVES


def split_codec(name: str) -> tuple[str, str]:
    """The name in lower case without its compression, and that: `("a.jsonl", ".gz")`."""
    lower = name.lower()
    codec = next((c for c in CODECS if lower.endswith(c)), "")
    return lower.removesuffix(codec), codec
