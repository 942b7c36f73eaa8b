"""The files of a hub repository at a commit, on this machine.

`tasks.ingestion.places.hub` resolves a branch or a tag to its commit, as for datasets.
"""

from pathlib import Path

from tasks.errors import ModelError
from tasks.ingestion.places.hub import endpoint, hub_error
from tasks.model.weights import OTHER_FORM

DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.codes", "*.txt")
"""No pickles and no Python: only files that are read here."""


def download(repository: str, commit: str) -> Path:
    """The local directory of a repository at a commit; downloads what is not cached.

    Raises:
        ModelError: the hub cannot be reached, or has no such repository or commit.
    """
    from huggingface_hub import snapshot_download

    try:
        path = snapshot_download(
            repository,
            revision=commit,
            allow_patterns=list(DOWNLOADED),
            ignore_patterns=[OTHER_FORM, "original/*", "onnx/*"],
            endpoint=endpoint(),
        )
    except Exception as error:
        raise hub_error("model", repository, commit, error, ModelError) from error
    return Path(path)
