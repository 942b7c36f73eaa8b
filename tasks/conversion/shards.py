"""Where this stage's files stand, and how later stages find them.

pairs/NNNNN.parquet           one per ingestion shard: what later stages read
keys/NNNNN.npy                one small record per pair before duplicates are taken out, and
                              stretches of prompts (`shard_records`): by them a later run knows
                              the shard again
quarantine.parquet            rows that could not be used, and both sides of contradictions
scratch/pairs/NNNNN.parquet   pairs before duplicates are taken out
scratch/quarantine/NNNNN.parquet   only where there are rows
"""

from pathlib import Path

from tasks.artifact import Artifact

PAIRS = "pairs"
RAW_PAIRS = "scratch/pairs"
KEY_ARRAYS = "keys"
QUARANTINES = "scratch/quarantine"
CONTRADICTIONS = "-contradictions"


def pair_shards(artifact: Artifact) -> list[Path]:
    """The shards of pairs of a conversion artifact, in row order; columns as in `tables.SCHEMA`."""
    return sorted((artifact.path / PAIRS).glob("*.parquet"))
