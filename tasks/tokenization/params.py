"""The `tokenization:` section: the longest side of a pair, and the encoder."""

from typing import Annotated, Literal

from pydantic import Field

from tasks.artifact import Inert, Params

Choice = Literal["auto", "fastokens", "tokenizers"]


class TokenizationParams(Params):
    """How text becomes token ids."""

    max_length: int | None = Field(default=1024, ge=1)
    """A pair is dropped, and counted, when either side has more tokens; None keeps all."""
    encoder: Choice = "auto"
    """The same ids at different speeds. auto takes fastokens (extra `fast`) where it is installed,
    loads the tokenizer and gives its very ids on a probe of this data; else tokenizers. fastokens
    makes it an error where it does not."""
    workers: Annotated[int | None, Inert] = Field(default=None, ge=1)
    """Processes, one shard each at a time; None: one per core."""
