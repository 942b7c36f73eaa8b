"""What a record says of the code that runs: versions of libraries, commit of the checkout.

Neither changes under a process that has imported them, and each look-up reads files (a millisecond
a library, 10 ms for the commit): they are made once per process, the commit's beside the build.
"""

import importlib.metadata
import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path


@cache
def library_version(name: str) -> str:
    """The version of an installed distribution.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    found = importlib.metadata.distribution(name)
    for line in (found.read_text("METADATA") or "").splitlines():
        if line.startswith("Version:"):
            return line.removeprefix("Version:").strip()
        if not line:  # the end of the header; what follows may be long, and is not parsed
            break
    return found.version


def git_commit() -> str | None:
    """The commit of the checkout that tracks this code, `-dirty` behind it where files differ.

    None where no checkout does, as of a package that was installed into another project.
    """
    return begin_git_commit().result()


@cache
def begin_git_commit() -> "Future[str | None]":
    """Looks the commit up in a thread."""
    pool = ThreadPoolExecutor(1, "git")
    waiting = pool.submit(_described)
    pool.shutdown(wait=False)
    return waiting


def _described() -> str | None:
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )
    return done.stdout.strip()
