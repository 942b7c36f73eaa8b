"""Where a source's files come from: their versions, for the key, and how to get them.

    path: data/raw/*.jsonl            read where they are
    path: https://..., s3://...       downloaded into the build's scratch
    hub: owner/name                   fetched at a commit into huggingface_hub's cache
    an archive from any of them       its members unpacked into the build's scratch

`locate` runs before the cache decision and downloads as little as it can. `Located.fetch` is part
of the build; a killed build continues it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tasks.artifact import Workspace
from tasks.errors import DataError
from tasks.ingestion.formats.extensions import has_known_extension
from tasks.ingestion.params import Source
from tasks.ingestion.places.addresses import WEB, check_address
from tasks.ingestion.places.archives import SEPARATOR, split_members
from tasks.ingestion.places.downloads import Remote, download, is_url
from tasks.ingestion.places.files import SourceFile, is_wanted, source_by_name, source_file
from tasks.ingestion.places.hub import resolve_commit
from tasks.ingestion.places.hub_datasets import data_files
from tasks.ingestion.places.local_files import find_files, match_files
from tasks.ingestion.places.prefixes import pieces_digest
from tasks.ingestion.places.unpacking import unpacked
from tasks.ingestion.places.unread_files import left_out_message

DOWNLOADS = "downloads"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetched:
    """A source's files, all on this machine."""

    files: Sequence[SourceFile]
    facts: Mapping[str, Any]
    """For the artifact's record: the hub commit, or the pin and SHA-256 of each download."""


@dataclass(frozen=True)
class Located:
    """A source whose files are known but not yet fetched."""

    identity: Mapping[str, Any]
    """What goes into the key beside the pins."""
    pins: Mapping[str, str]
    """Name of each file -> its digest, or the version of its content: an ETag or a hub commit."""
    fetch: Callable[[Workspace], Fetched]


def locate(source: Source) -> Located:
    """The files that the source's path or hub dataset stands for now.

    Raises:
        DataError: there are none, or they cannot be read.
    """
    if source.hub is not None:
        return _of_hub(source, source.hub)
    assert source.path is not None
    path, members = split_members(source.path)
    if is_url(path):
        return _of_url(source, path, members)
    found = find_files(source)
    files = match_files(source, found)
    if members is not None and (other := next((f for f in files if not f.is_archive), None)):
        raise DataError(
            f"source {source.name!r}: {other.name} is no archive, so {SEPARATOR}{members} selects "
            "nothing in it; leave that part out of `path`"
        )
    if found.left_out:  # warned of in every run: it is not in the key, as it changes no row
        advice = "name them with a glob in `path`, or say what they are with `format`"
        among = f"the files below {source.path!r}"
        logger.warning(
            "source %r: %s", source.name, left_out_message(found.left_out, among, advice)
        )
    return Located(
        {"files": [file.name for file in files], "members": members},
        {file.name: file.digest for file in files},
        lambda workspace: Fetched(unpacked(workspace, source, files, members), {}),
    )


def _of_hub(source: Source, repository: str) -> Located:
    commit = resolve_commit("dataset", repository, source.revision, DataError)
    chosen = {"config": source.config, "split": source.split}

    def fetch(workspace: Workspace) -> Fetched:
        wanted = partial(is_wanted, source)
        found, left_out = data_files(
            repository, commit, patterns=source.data_files, **chosen, is_wanted=wanted
        )
        if left_out:
            advice = "name them with globs in `data_files`, and say what they are with `format`"
            among = f"the files of {repository}@{commit[:12]}"
            logger.warning("source %r: %s", source.name, left_out_message(left_out, among, advice))
        sources = source_by_name(source, [name for name, _, _ in found])
        files = [
            source_file(sources[name], f"{repository}/{name}", path, path.stat().st_size, digest)
            for name, path, digest in found
        ]
        facts = {"hub": repository, "commit": commit, "revision": source.revision}
        return Fetched(unpacked(workspace, source, files, None), facts)

    identity = {"hub": repository, **chosen, "data_files": list(source.data_files)}
    return Located(identity, {f"hub:{repository}": commit}, fetch)


def _of_url(source: Source, url: str, members: str | None) -> Located:
    from tasks.ingestion.places import buckets, web

    check_address(f"source {source.name!r}: ", url, "correct `path`")
    if "@" in urlsplit(url).netloc and urlsplit(url).scheme in WEB:
        raise DataError(
            f"source {source.name!r}: `path` holds a user name or password before the host; params "
            "are recorded, so leave them out: use a signed URL, or download the file yourself"
        )
    if urlsplit(url).scheme in WEB:
        remotes = [web.pinned(url)]
    else:
        remotes = buckets.pinned(source.name, url, source.storage or {})
    # An unknown format is an error before the download.
    sources = source_by_name(source, [remote.name for remote in remotes])
    kinds = [source_file(sources[r.name], r.name, Path(), 0, "", r.server_names) for r in remotes]
    formats = [f"{k.format}{k.codec}" for k in kinds]
    by_server = (
        {"formats": formats} if any(not has_known_extension(r.name) for r in remotes) else {}
    )
    return Located(
        {"files": [remote.name for remote in remotes], "members": members} | by_server,
        {remote.name: remote.pin for remote in remotes},
        partial(_downloaded, source=source, remotes=remotes, members=members),
    )


def _downloaded(
    workspace: Workspace, source: Source, remotes: Sequence[Remote], members: str | None
) -> Fetched:
    from tqdm import tqdm

    sources = source_by_name(source, [remote.name for remote in remotes])
    files: list[SourceFile] = []
    fetched: list[dict[str, Any]] = []
    title = f"ingestion: {source.name} from {urlsplit(remotes[0].name).netloc}"
    total = sum(remote.size or 0 for remote in remotes)
    with tqdm(total=total, desc=title, unit="B", unit_scale=True, disable=None) as bar:
        for index, remote in enumerate(remotes):
            unit = f"download+{source.name}-{index:05d}"
            target = workspace.scratch / DOWNLOADS / unit
            target.parent.mkdir(exist_ok=True)
            done = workspace.finished(unit)
            if done is None or not target.exists():
                digest = download(remote, target, bar.update)
                done = {"sha256": digest, "digest": pieces_digest(target)}
                workspace.finish(unit, done)
            size = target.stat().st_size
            known = remote.name, target, size, done["digest"], remote.server_names
            files.append(source_file(sources[remote.name], *known))
            fetched.append(
                {"name": remote.name, "pin": remote.pin, "sha256": done["sha256"], "bytes": size}
            )
    return Fetched(unpacked(workspace, source, files, members), {"downloads": fetched})
