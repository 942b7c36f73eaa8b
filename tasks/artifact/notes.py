"""Notes that tell whether they are as they were written: the SHA-256 of what follows, then JSON."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.artifact.durable import make_directory


def write_note(path: Path, entry: Mapping[str, Any]) -> None:
    """Writes a note; it lasts when who has the directory makes it last."""
    content = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    make_directory(path.parent)
    path.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def read_note(path: Path | str) -> dict[str, Any] | None:
    """What a note says; None where it is gone, or not as it was written."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (of many, whose paths are text)
            checksum, _, content = file.read().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    sound = hashlib.sha256(content).hexdigest().encode() == checksum
    return json.loads(content) if sound else None
