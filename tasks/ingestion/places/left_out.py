"""What stands among a source's files and is not read: told where it may hold rows.

part-00001  b.txt  c.jsonl.lz4                    left out: nothing says what they are
README.md  a.png  _SUCCESS  dataset_infos.json    nobody's rows: left out without a word
"""

import re
from collections.abc import Sequence
from fnmatch import translate

from tasks.errors import shown

NOTES = ("dataset_infos.json", "dataset_info.json", "dataset_dict.json")
"""What libraries (`datasets`, LLaMA-Factory) write of rows beside them, in the format of data."""
NOBODYS = (
    *("readme", "readme.*", "license", "license.*", "licence", "licence.*", "notice"),
    *("copying", "copying.*", "citation.*", "changelog", "changelog.*", "*.md", "*.rst"),
    *("*.md5", "*.sha1", "*.sha256", "*.sha512", "*.crc", "*.py"),
    *("md5sums", "sha*sums", "md5sums.txt", "sha*sums.txt", "checksums", "checksums.txt"),
    *("_success", "_metadata", "_common_metadata", "_committed_*", "_started_*"),
    *("*.png", "*.jpg", "*.jpeg", "*.webp", "*.gif", "*.bmp", "*.tif", "*.tiff", "*.svg"),
)
"""Names, in lower case, of what lies beside rows and holds none: texts for people, checksums, marks
of who wrote them, scripts, and the images that rows may name."""
_NOBODYS = re.compile("|".join(map(translate, NOBODYS)))
NAMED = 3
"""Of the files that are left out."""


def is_nobodys(name: str) -> bool:
    """Whether a file of this name holds nobody's rows, if its extension does not say otherwise."""
    return _NOBODYS.fullmatch(last_of(name).lower()) is not None


def is_note(name: str) -> bool:
    """Whether it holds none, though it looks like data."""
    return last_of(name).lower() in NOTES


def may_hold_rows(name: str) -> bool:
    """Whether it is to be told, where it is not read."""
    return not (is_nobodys(name) or is_note(name))


def last_of(name: str) -> str:
    """A file's own name, without its directories."""
    return name.rstrip("/").rpartition("/")[2]


def told(names: Sequence[str], among: str, instead: str) -> str:
    """What is left out, and what to do (`instead`)."""
    return (
        f"{len(names):,} of {among} left out, as their names tell no format of rows: "
        f"{some_of(names)}; if they hold rows, {instead}"
    )


def some_of(names: Sequence[str]) -> str:
    """`'a.txt', 'b.txt', 'deep/c' and 7 more`."""
    more = len(names) - NAMED
    named = ", ".join(shown(name, 200) for name in names[:NAMED])
    return named + (f" and {more:,} more" if more > 0 else "")
