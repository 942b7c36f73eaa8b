"""What a record says of the code that runs: versions of libraries, commit of the checkout.

Neither changes under a process that has imported them, and each look-up reads many files (4 ms a
library, 10 ms for the commit): they are made once per process.
"""

import importlib.metadata
import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def library_version(name: str) -> str:
    """The version of an installed distribution.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    return importlib.metadata.version(name)


@cache
def git_commit() -> str | None:
    """The commit of the project's checkout, `-dirty` behind it where files differ, or None."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
