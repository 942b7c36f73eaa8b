"""A tokenizer as transformers loads it, once in a process for all stages that ask.

One with a vocabulary in use (100,000 tokens and more) takes half a second to load.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import ModelError

MOST_SHOWN = 400
"""Characters of what transformers says."""


def loaded(directory: Path) -> Any:
    """The tokenizer in a directory. It is shared: change only a copy of it.

    Raises:
        ModelError: transformers does not load it.
    """
    files = sorted(path for path in directory.iterdir() if path.is_file())
    stats = [(path.name, path.stat()) for path in files]
    return _loaded(directory, tuple((n, s.st_ino, s.st_size, s.st_mtime_ns) for n, s in stats))


@lru_cache(maxsize=1)
def _loaded(directory: Path, files: tuple[tuple[str, int, int, int], ...]) -> Any:  # noqa: ARG001
    return load(directory)


def load(directory: Path) -> Any:
    """The tokenizer in a directory, anew.

    Raises:
        ModelError: it cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # of any class: a file is cut, a setting wrong, a library missing
        raise cannot_be_loaded(directory, error) from error


def cannot_be_loaded(place: str | Path, error: Exception) -> ModelError:
    """The error in a sentence."""
    return ModelError(
        f"the tokenizer in {place} cannot be loaded ({type(error).__name__}: "
        f"{' '.join(str(error).split())[:MOST_SHOWN]}); copy or download its files again, if they "
        "are damaged, and install what is asked for"
    )
