"""A dataset repository of the Hugging Face hub: its own data files, at one commit.

    {hub: owner/name, revision: main, split: train}   -> data/train-00000-of-00002.parquet, ...

The commit is in the key. Files are downloaded into huggingface_hub's cache, checked against the
repository's hashes, and read by this stage's readers. No script of a repository is ever run.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any

from tasks.artifact import file_digest
from tasks.errors import DataError, shown, some
from tasks.ingestion.formats.extensions import is_data
from tasks.ingestion.places.directories import matches
from tasks.ingestion.places.hub import api, endpoint, hub_error
from tasks.ingestion.places.hub_cards import CARD, Chosen, chosen_by_card
from tasks.ingestion.places.prefixes import pieces_digest
from tasks.ingestion.places.unread_files import is_metadata, may_hold_rows

Wanted = Callable[[str], bool]
"""Whether a file of this name holds rows."""
SPLIT_WORDS = {
    "train": "train|training",
    "validation": "validation|valid|val|dev",
    "test": "test|testing|eval|evaluation",
}
"""Words in file names that stand for a split, by the hub's convention."""
_IGNORED = re.compile(r"(^|/)[._]")
_HIDDEN = re.compile(r"(^|/)(\.|__)")
"""From globs, by the rule of the `datasets` library."""


def data_files(
    repository: str,
    commit: str,
    *,
    patterns: Sequence[str],
    config: str | None,
    split: str | None,
    is_wanted: Wanted,
) -> tuple[list[tuple[str, Path, str]], list[str]]:
    """`(name in the repository, local path, digest)` of the chosen files, sorted by name; and the
    names of those that may hold rows, but in an unknown format.

    Raises:
        DataError: no file is chosen, or one cannot be fetched or differs from its hash.
    """
    try:
        tree = list(
            api().list_repo_tree(repository, recursive=True, revision=commit, repo_type="dataset")
        )
        files = {entry.path: entry for entry in tree if hasattr(entry, "blob_id")}
        chosen = Chosen(patterns, config)
        if not patterns and (config or split) and CARD in files:
            card = _fetched(repository, commit, CARD).read_text("utf-8-sig", "replace")
            chosen = chosen_by_card(repository, card, config, split)
        among = _among(sorted(files), chosen, split)
        wanted = [*filter(is_wanted, among)]
        # A `format` is for files without a known extension, if there are no others.
        names = among if chosen.patterns else [*filter(is_data, wanted)] or wanted
        if not names:
            raise _none(repository, commit, sorted(files), config, split)
        others = sorted(name for name in {*among} - {*names} if may_hold_rows(name))
        return [_verified(repository, commit, files[name]) for name in names], others
    except DataError:
        raise
    except Exception as error:
        raise hub_error("dataset", repository, commit, error, DataError) from error


def _among(files: Sequence[str], chosen: Chosen, split: str | None) -> list[str]:
    """The files that the patterns match; without patterns, all of the directory and split that are
    not hidden."""
    if chosen.patterns:
        return sorted({f for pattern in chosen.patterns for f in _matched(files, pattern)})
    top = f"{normpath(chosen.directory or '')}/".removeprefix("./")
    below = [f for f in files if f.startswith(top) and not _IGNORED.search(f)]
    if split is None:
        return below
    words = SPLIT_WORDS.get(split, re.escape(split))
    word = re.compile(rf"(?<![A-Za-z0-9])({words})(?![A-Za-z0-9])")
    return [f for f in below if word.search(f.removeprefix(top))]


def _matched(files: Sequence[str], pattern: str) -> list[str]:
    """The file of this name, or those that match it as a glob, by the rules of the `datasets`
    library: hidden files and files without rows have to be named."""
    pattern = normpath(pattern)
    if pattern in files:
        return [pattern]
    fit = [f for f in files if matches(f.split("/"), pattern.split("/"))]
    seen = fit if _HIDDEN.search(pattern) else [f for f in fit if not _HIDDEN.search(f)]
    return [f for f in seen if may_hold_rows(f) or (is_data(f) and not is_metadata(f))]


def _fetched(repository: str, commit: str, name: str) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(
        hf_hub_download(repository, name, repo_type="dataset", revision=commit, endpoint=endpoint())
    )


def _verified(repository: str, commit: str, entry: Any) -> tuple[str, Path, str]:
    """Name, local path and digest of a file, whose bytes are checked against the repository's
    hash."""
    path = _fetched(repository, commit, entry.path)
    if entry.lfs is not None:
        same = file_digest(path) == entry.lfs.sha256
    else:
        blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(2**20):
                blob.update(piece)
        same = blob.hexdigest() == entry.blob_id
    if not same:
        raise DataError(
            f"{repository}/{entry.path}: the cached file {path} is not what the repository holds; "
            "delete it and run again"
        )
    return entry.path, path, pieces_digest(path)


def _none(
    repository: str, commit: str, files: Sequence[str], config: str | None, split: str | None
) -> DataError:
    chosen = "".join(f", {n} {shown(v)}" for n, v in (("config", config), ("split", split)) if v)
    return DataError(
        f"{repository}@{commit[:12]}: no data file chosen{chosen}; it holds {some(files, 8)}: "
        "give globs as `data_files`, or revision: refs/convert/parquet for the hub's own Parquet "
        "copy"
    )
