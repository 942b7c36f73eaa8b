"""A tokenizer as transformers loads it, once in a process for all stages that ask.

One with a vocabulary in use (100,000 tokens and more) takes half a second to load.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any


def loaded(directory: Path) -> Any:
    """The tokenizer in a directory. It is shared: change only a copy of it."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    stats = [(path.name, path.stat()) for path in files]
    return _loaded(directory, tuple((n, s.st_ino, s.st_size, s.st_mtime_ns) for n, s in stats))


@lru_cache(maxsize=1)
def _loaded(directory: Path, files: tuple[tuple[str, int, int, int], ...]) -> Any:  # noqa: ARG001
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)
