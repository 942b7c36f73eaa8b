"""What a stage hands on: a directory that is built once, with the record that says how.

A step's key is a hash of all that its result depends on. An artifact is only used after its files,
or their stamps in the file system, have been compared with its record. One process at a time builds
a key, and one rename commits the result.

    key, step                   what is to be built, and the hash that identifies it
    store, record, lock         finding, building and committing an artifact
    sharded_stage, memo, ledger stages of rows: shard by shard, with every row accounted for
    processes, pool, worker     several processes for one stage (job, messages: what they share)
    threads, fsyncs, memory     what goes on beside the work, and how its memory is kept
    digests, stamps, durable    files: their hashes, whether they changed, writing them safely
    refs, collection            what keeps artifacts alive, and the garbage collection
    inventory                   all artifacts of a store, and whether they are intact
    explain                     why a step has to be built
"""

from tasks.artifact.digests import file_digest, merkle
from tasks.artifact.key import Inert, Params, canonical, canonical_json, digest_json
from tasks.artifact.ledger import NEUTRAL_REASONS, Ledger, Quarantine
from tasks.artifact.memo import Kept, Memo
from tasks.artifact.memory import uncollected
from tasks.artifact.processes import (
    each,
    end_workers,
    physical_cores,
    processes_for,
    worthwhile,
)
from tasks.artifact.record import Artifact, input_digests, part_digest
from tasks.artifact.sharded_stage import build_shards
from tasks.artifact.step import Step, Workspace
from tasks.artifact.store import Finding, Store
from tasks.artifact.threads import BackgroundCalls, prefetch, threaded_map

__all__ = [
    "NEUTRAL_REASONS",
    "Artifact",
    "BackgroundCalls",
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
    "build_shards",
    "canonical",
    "canonical_json",
    "digest_json",
    "each",
    "end_workers",
    "file_digest",
    "input_digests",
    "merkle",
    "part_digest",
    "physical_cores",
    "prefetch",
    "processes_for",
    "threaded_map",
    "uncollected",
    "worthwhile",
]
