"""Unpacks the archives among a source's files into the build's scratch; a killed build continues.

raw.zip  b.jsonl   ->   raw.zip!/train/a.jsonl  raw.zip!/eval/x.csv  b.jsonl
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tasks.artifact import Workspace
from tasks.errors import DataError
from tasks.ingestion.params import Source
from tasks.ingestion.places.archives import SEPARATOR, Member, Unpacked, unpack
from tasks.ingestion.places.files import (
    SourceFile,
    check_unchanged,
    is_wanted,
    source_by_name,
    source_file,
)
from tasks.ingestion.places.unread_files import base_name, left_out_message

UNPACKED = "unpacked"

logger = logging.getLogger(__name__)


def unpacked(
    workspace: Workspace, source: Source, files: Sequence[SourceFile], members: str | None
) -> list[SourceFile]:
    """The files, with every archive replaced by its members."""
    data_files: list[SourceFile] = []
    for index, file in enumerate(files):
        if not file.is_archive:
            data_files.append(file)
            continue
        unit = f"unpack+{source.name}-{index:05d}"
        target = workspace.scratch / UNPACKED / unit
        archive = _members(workspace, unit, file, members, target, partial(is_wanted, source))
        if archive.left_out:
            glob = f"{base_name(file.name)}{SEPARATOR}..."
            advice = f"name them with a glob ({glob}), and say what they are with `format`"
            among = f"the members of {file.name!r}"
            logger.warning(
                "source %r: %s", source.name, left_out_message(archive.left_out, among, advice)
            )
        sources = source_by_name(source, [member.name for member in archive.members])
        data_files += [_member_file(sources[m.name], file, m) for m in archive.members]
    return data_files


def _member_file(source: Source, archive: SourceFile, member: Member) -> SourceFile:
    name = f"{archive.name}{SEPARATOR}{member.name}"
    file = source_file(source, name, member.path, member.size, member.digest)
    if file.is_archive:
        raise DataError(
            f"source {source.name!r}: {name} is an archive within an archive; unpack "
            f"{base_name(archive.name)}, and give its archives as sources"
        )
    return file


def _members(
    workspace: Workspace,
    unit: str,
    file: SourceFile,
    members: str | None,
    target: Path,
    wanted: Callable[[str], bool],
) -> Unpacked:
    done = workspace.finished(unit)
    if done is not None:
        entries = [
            Member(m["name"], target / m["place"], m["size"], m["digest"]) for m in done["of"]
        ]
        return Unpacked(entries, done["left_out"])
    target.mkdir(parents=True, exist_ok=True)
    check_unchanged(file)
    # No progress is reported here: the bytes are counted when the members are read.
    archive = unpack(file.origin(target), file.format, members, wanted, target)
    check_unchanged(file)
    entries = [
        {"name": m.name, "place": m.path.name, "size": m.size, "digest": m.digest}
        for m in archive.members
    ]
    workspace.finish(unit, {"of": entries, "left_out": archive.left_out})
    return archive
