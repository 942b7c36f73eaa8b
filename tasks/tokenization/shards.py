"""Where this stage's files stand, and how later stages find them and their ids.

train/NNNNN.arrow, eval/NNNNN.arrow   ids of the pairs of one shard, where it has any
tokenizer/                            the tokenizer as it was used, with the chat template
rendering.json                        what of templating whoever serves the model has to know
"""

from pathlib import Path

TOKENIZER_DIRECTORY = "tokenizer"
RENDERING_FILE = "rendering.json"
IDS = ("chosen_input_ids", "rejected_input_ids")
"""The columns of token ids, of a shard as of every data set of pairs."""


def shards_in(directory: Path) -> list[Path]:
    """The shards of a split's directory, in order; `datasets.Dataset.from_file` maps each. No
    `cache-*.arrow` that `map` or `filter` of an opened data set left beside them."""
    return sorted(directory.glob("[0-9]*.arrow"))
