"""Pointers of Git LFS: what a clone holds in place of a large file that was not fetched.

    version https://git-lfs.github.com/spec/v1
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
    size 12345

As lines they would be three bad rows, and what the file holds would be lost without a word.
"""

import re

from tasks.errors import DataError
from tasks.ingestion.formats.batches import Origin

MOST_BYTES = 1024
"""Of a pointer (git-lfs, docs/spec.md)."""
_POINTER = re.compile(rb"version https://(git-lfs|hawser)\.github\.com/spec/")
_SIZE = re.compile(rb"^size (\d+)$", re.MULTILINE)


def check_no_pointer(origin: Origin) -> None:
    """Raises DataError where a pointer stands in place of the data."""
    with origin.path.open("rb") as file:
        head = file.read(MOST_BYTES)
    if not _POINTER.match(head):
        return
    size = _SIZE.search(head)
    meant = f"the {int(size[1]):,} bytes" if size else "the data"
    raise DataError(
        f"{origin.name}: a pointer of Git LFS, in place of {meant} that it stands for: run git lfs "
        "pull where the file was cloned, or download it"
    )
