"""Where this stage's files are, and how later stages find them and their ids.

train/NNNNN.arrow, eval/NNNNN.arrow   ids of the pairs of one shard, where it has any
tokenizer/                            the tokenizer as it was used, with the chat template
rendering.json                        settings of templating that serving needs
"""

from pathlib import Path

TOKENIZER_DIRECTORY = "tokenizer"
RENDERING_FILE = "rendering.json"
IDS = ("chosen_input_ids", "rejected_input_ids")
"""The columns of token ids, of a shard as of every data set of pairs."""


def shards_in(directory: Path) -> list[Path]:
    """The shards in a split's directory, in order, without any `cache-*.arrow` that `map` or
    `filter` of an opened data set left there."""
    return sorted(directory.glob("[0-9]*.arrow"))
