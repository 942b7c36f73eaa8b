"""Pointers of Git LFS, which a clone has in place of large files that were not fetched.

    version https://git-lfs.github.com/spec/v1
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
    size 12345

Read as lines, one would be three bad rows, and the file's rows would be missing unnoticed.
"""

import re

from tasks.errors import DataError
from tasks.ingestion.formats.batches import Origin

MOST_BYTES = 1024
"""Largest size of a pointer (git-lfs, docs/spec.md)."""
_POINTER = re.compile(rb"version https://(git-lfs|hawser)\.github\.com/spec/")
_SIZE = re.compile(rb"^size (\d+)$", re.MULTILINE)


def check_no_pointer(origin: Origin) -> None:
    """Raises DataError if the file is a pointer."""
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
