"""The commit that a record names."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.artifact import libraries

COMMIT = "from tasks.artifact.libraries import git_commit; print(git_commit())"
PACKAGE = Path(libraries.__file__).parents[1]


@pytest.mark.parametrize("tracked", [True, False])
def test_only_a_checkout_that_tracks_the_code_gives_its_commit(tmp_path, tracked):
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        words = ("git", *who, *words)
        return subprocess.run(
            words, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    site = tmp_path / "project" / "site-packages"  # as of an environment within another project
    shutil.copytree(PACKAGE, site / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    git("init", "--quiet")
    (tmp_path / ".gitignore").write_text("__pycache__\n" if tracked else "site-packages\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "a project")
    told = subprocess.run([sys.executable, "-c", COMMIT], cwd=site, capture_output=True, text=True)
    expected = git("rev-parse", "HEAD").strip() if tracked else "None"
    assert told.stdout.strip() == expected, told.stderr
