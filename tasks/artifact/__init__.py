"""What a stage hands on: a directory that is built once, with the record that says how.

The protocol: a step's key is hashed from all that its result depends on; an artifact is believed
only after its files, or what the file system says of them, were held against what was recorded; one
builder at a time; one rename commits.
"""

from tasks.artifact.beside import Behind, ahead, side_by_side
from tasks.artifact.digests import file_digest, merkle
from tasks.artifact.key import Inert, Params, canonical, canonical_json, digest_json
from tasks.artifact.ledger import NEUTRAL_REASONS, Ledger, Quarantine
from tasks.artifact.libraries import git_commit
from tasks.artifact.memo import Kept, Memo
from tasks.artifact.memory import uncollected
from tasks.artifact.processes import (
    each,
    end_workers,
    physical_cores,
    processes_for,
    worthwhile,
)
from tasks.artifact.record import Artifact, input_digests
from tasks.artifact.step import Step, Workspace
from tasks.artifact.store import Finding, Store
from tasks.artifact.units import build_shards

__all__ = [
    "NEUTRAL_REASONS",
    "Artifact",
    "Behind",
    "Finding",
    "Inert",
    "Kept",
    "Ledger",
    "Memo",
    "Params",
    "Quarantine",
    "Step",
    "Store",
    "Workspace",
    "ahead",
    "build_shards",
    "canonical",
    "canonical_json",
    "digest_json",
    "each",
    "end_workers",
    "file_digest",
    "git_commit",
    "input_digests",
    "merkle",
    "physical_cores",
    "processes_for",
    "side_by_side",
    "uncollected",
    "worthwhile",
]
