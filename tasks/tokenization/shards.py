"""Where this stage's files stand, and how later stages find them.

train/NNNNN.arrow, eval/NNNNN.arrow   ids of the pairs of one shard, where it has any
tokenizer/                            the tokenizer as it was used, with the chat template
rendering.json                        what of templating whoever serves the model has to know
"""

from pathlib import Path

from tasks.artifact import Artifact

TOKENIZER_DIRECTORY = "tokenizer"
RENDERING_FILE = "rendering.json"


def split_shards(artifact: Artifact, split: str) -> list[Path]:
    """The Arrow files of one split, in order; `datasets.Dataset.from_file` maps each."""
    return sorted((artifact.path / split).glob("*.arrow"))
