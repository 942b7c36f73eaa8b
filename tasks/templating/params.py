"""The `templating:` section: which chat template turns messages into text."""

import datetime
from typing import Annotated, Literal

from pydantic import Field

from tasks.artifact import Inert, Params
from tasks.templating.tokenizer.special_tokens import Policy


class TemplatingParams(Params):
    """How conversations become the text that the model reads."""

    chat_template_path: str | None = None
    """A Jinja file, or a tokenizer directory whose template is taken; None: the model's own."""
    date: datetime.date | None = None
    """Put in place of today's date where the template asks for one; such a template needs it."""
    max_bad_fraction: float = Field(default=0.01, ge=0.0, le=1.0)
    """Share of a source's pairs that may be unusable with this template before the run fails."""
    special_tokens_in_text: Policy = "quarantine"
    """What becomes of a row whose text holds a special token of the tokenizer: to the model it
    would look like a genuine turn marker, so anybody who writes text could forge turns. `encode`
    gives such text the ids of ordinary text (served text must then be encoded so, too); `keep`
    leaves it the token's id."""
    delimiters_in_text: Literal["count", "quarantine"] = "count"
    """What becomes of a row whose text holds what other templates mark turns with, such as [INST]
    or "### Response:": ordinary text to this tokenizer, and counted in the report."""
    workers: Annotated[int | None, Inert] = Field(default=None, ge=1)
    """Processes, one shard each at a time; None: one per core."""
