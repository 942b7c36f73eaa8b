"""A repository of the hub, at the commit that its branch or tag means now."""

import re
from pathlib import Path

from tasks.errors import ModelError

COMMIT = re.compile(r"[0-9a-f]{40}")
DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
"""No pickles and no Python: only what is read here is fetched."""


def resolve_commit(repository: str, revision: str) -> str:
    """The 40-digit commit of a revision; a commit is its own answer and asks nobody.

    Raises:
        ModelError: the hub cannot be reached, or has no such repository or revision.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi

    try:
        commit = HfApi().model_info(repository, revision=revision).sha
    except Exception as error:
        raise _unreachable(repository, revision, error) from error
    if commit is None:
        raise ModelError(f"the hub names no commit for {repository}@{revision}")
    return commit


def download(repository: str, commit: str) -> Path:
    """The local directory of a repository at a commit, fetched unless it is there already.

    Raises:
        ModelError: the hub cannot be reached, or has no such repository or commit.
    """
    from huggingface_hub import snapshot_download

    try:
        path = snapshot_download(repository, revision=commit, allow_patterns=list(DOWNLOADED))
    except Exception as error:
        raise _unreachable(repository, commit, error) from error
    return Path(path)


def _unreachable(repository: str, revision: str, error: Exception) -> ModelError:
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ModelError(
        f"cannot get {repository}@{revision} from the hub ({type(error).__name__}: {cause}); check "
        "the name, set HF_TOKEN for a gated repository, or give model.path with a local copy"
    )
