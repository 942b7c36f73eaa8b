"""A repository of the Hugging Face hub: the commit that its branch or tag means now.

Used for datasets and for models: each caller gives its own error class.
"""

import os
import re
from typing import Any, Literal

from tasks.errors import PipelineError
from tasks.ingestion.places.downloads import cause_of

COMMIT = re.compile(r"[0-9a-f]{40}")
Kind = Literal["dataset", "model"]


def resolve_commit(kind: Kind, repository: str, revision: str, failed: type[PipelineError]) -> str:
    """The 40-digit commit of a revision; for a commit, no request is made.

    Raises:
        failed: the hub cannot be reached, or has no such repository or revision.
    """
    if COMMIT.fullmatch(revision):
        return revision
    try:
        info = api().dataset_info if kind == "dataset" else api().model_info
        commit: str | None = info(repository, revision=revision).sha
    except Exception as error:
        raise hub_error(kind, repository, revision, error, failed) from error
    if commit is None:
        raise failed(f"the hub names no commit for {kind} {repository}@{revision}")
    return commit


def api() -> Any:
    """The client of the hub that the environment names."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint())


def endpoint() -> str | None:
    """The hub's address from the environment; None: the usual one."""
    return os.environ.get("HF_ENDPOINT") or None


def hub_error(
    kind: Kind, repository: str, revision: str, error: Exception, failed: type[PipelineError]
) -> PipelineError:
    """The error of a request to the hub, with the key or variable that helps."""
    kinds = {each.__name__ for each in type(error).__mro__}
    where = endpoint() or "https://huggingface.co"
    page = f"{where}/datasets/{repository}" if kind == "dataset" else f"{where}/{repository}"
    if "GatedRepoError" in kinds:
        way = f"it is gated: accept its terms at {page} and set HF_TOKEN"
    elif "RevisionNotFoundError" in kinds:
        way = "it has no such revision: correct `revision` (a branch, a tag or a commit)"
    elif "RepositoryNotFoundError" in kinds:
        way = "there is none, or it is private: correct `hub`, or set HF_TOKEN"
    elif os.environ.get("HF_HUB_OFFLINE") or "OfflineModeIsEnabled" in kinds:
        way = "HF_HUB_OFFLINE is set: unset it"
        if not COMMIT.fullmatch(revision):
            done = "ingested" if kind == "dataset" else "fetched"
            way += f", or give as `revision` the full commit of a {kind} that was {done} before"
    else:
        way = f"check the network, or set HF_ENDPOINT to a mirror (now {where})"
    way = f"{way}; or give `path` with a local copy"
    return failed(f"{kind} {repository}@{revision}: {way} ({cause_of(error)})")
