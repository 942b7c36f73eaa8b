"""What a registered directory holds, to the byte: its own list, and the digest of that list.

    SHA256SUMS      2cf24d...  config.json          as `sha256sum -c SHA256SUMS` reads it
                    9f86d0...  code/reward_...py
    package_digest  the SHA-256 of SHA256SUMS: a tag of the version, and a part of the receipt

The model's identity counts its own files alone; this list has MLflow's, the loader's, the scale and
the figures too. What the registry writes later, on its decisions, is not among them.
"""

import hashlib
from pathlib import Path

from tasks.artifact import file_digest
from tasks.registration.loader.allowed_files import SUMS
from tasks.registration.proving.package import carried_files


def write_sums(directory: Path) -> None:
    """Lists all files that are there."""
    names = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    lines = [f"{file_digest(directory / name)}  {name}\n" for name in names if name != SUMS]
    (directory / SUMS).write_text("".join(lines), "utf-8")


def seal_of(directory: Path) -> str:
    """The digest of the directory's list."""
    return hashlib.sha256((directory / SUMS).read_bytes()).hexdigest()


def listed(directory: Path) -> dict[str, str]:
    """`{name: SHA-256}` of the files on the list."""
    lines = (directory / SUMS).read_text("utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def changed(directory: Path, seal: str) -> str | None:
    """The first file, by name, that is gone, has other bytes than were sealed, or is a new one of a
    model's; None where all is as it was."""
    if not (directory / SUMS).is_file() or seal_of(directory) != seal:
        return SUMS
    sums = listed(directory)
    for name, digest in sums.items():
        path = directory / name
        if not path.is_file() or file_digest(path) != digest:
            return name
    return next((name for name in carried_files(directory) if name not in sums), None)
