"""Files beside a source's data files that are not read; those that may hold rows are reported.

part-00001  b.txt  c.jsonl.lz4                    may hold rows, in an unknown format: reported
README.md  a.png  _SUCCESS  dataset_infos.json    never hold rows: ignored silently
"""

import re
from collections.abc import Sequence
from fnmatch import translate

from tasks.errors import shown

METADATA_FILES = ("dataset_infos.json", "dataset_info.json", "dataset_dict.json")
"""JSON files without rows, which libraries (`datasets`, LLaMA-Factory) write beside data."""
NEVER_ROWS = (
    *("readme", "readme.*", "license", "license.*", "licence", "licence.*", "notice"),
    *("copying", "copying.*", "citation.*", "changelog", "changelog.*", "*.md", "*.rst"),
    *("*.md5", "*.sha1", "*.sha256", "*.sha512", "*.crc", "*.py"),
    *("md5sums", "sha*sums", "md5sums.txt", "sha*sums.txt", "checksums", "checksums.txt"),
    *("_success", "_metadata", "_common_metadata", "_committed_*", "_started_*"),
    *("*.png", "*.jpg", "*.jpeg", "*.webp", "*.gif", "*.bmp", "*.tif", "*.tiff", "*.svg"),
)
"""Names (globs, lower case) of files that hold no rows: texts for people, checksums, marker files,
scripts, and images that rows may refer to."""
_NEVER_ROWS = re.compile("|".join(map(translate, NEVER_ROWS)))
NAMED = 3
"""How many of the files a message names."""


def never_holds_rows(name: str) -> bool:
    """Whether the name is that of a file without rows, extensions of data left aside."""
    return _NEVER_ROWS.fullmatch(base_name(name).lower()) is not None


def is_metadata(name: str) -> bool:
    """Whether a file of this name is a library's metadata, though its extension is one of data."""
    return base_name(name).lower() in METADATA_FILES


def may_hold_rows(name: str) -> bool:
    """Whether a file of this name is reported if it is not read."""
    return not (never_holds_rows(name) or is_metadata(name))


def base_name(name: str) -> str:
    """A file's own name, without its directories."""
    return name.rstrip("/").rpartition("/")[2]


def left_out_message(names: Sequence[str], among: str, advice: str) -> str:
    """Message that the files `names` of `among` are not read, and what to do."""
    return (
        f"{len(names):,} of {among} left out, as their names tell no format of rows: "
        f"{some_of(names)}; if they hold rows, {advice}"
    )


def some_of(names: Sequence[str]) -> str:
    """The first names, as `'a.txt', 'b.txt', 'deep/c' and 7 more`."""
    more = len(names) - NAMED
    named = ", ".join(shown(name, 200) for name in names[:NAMED])
    return named + (f" and {more:,} more" if more > 0 else "")
