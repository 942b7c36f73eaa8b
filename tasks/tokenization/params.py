"""The `tokenization:` section: how long a side of a pair may be."""

from pydantic import Field

from tasks.artifact import Params


class TokenizationParams(Params):
    """How text becomes token ids."""

    max_length: int | None = Field(default=1024, ge=1)
    """A pair is dropped, and counted, when either side has more tokens; None keeps all."""
