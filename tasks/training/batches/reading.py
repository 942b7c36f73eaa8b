"""Canonical rows -> texts -> token ids, by the functions of templating and tokenization.

    {"format": "conversational", "prompt": "[...]", "chosen": "[...]", "rejected": "[...]", ...}
        ->  Rendered(text, literals) of both sides  ->  ids of both sides

Benchmarks and the score contract are read here, so that a row has the same ids everywhere.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tasks.conversion.preference.pair import Pair
from tasks.templating.parts import text_only
from tasks.templating.renderer import Rendered, Renderer
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.tokenization.encode import Encoder, Ids
from tasks.tokenization.literal import literal_encoder

Row = Mapping[str, Any]


@dataclass
class RowReader:
    """Renders and encodes with one tokenizer; `policy` is templating's `special_tokens_in_text`."""

    tokenizer: Any
    policy: Policy

    def __post_init__(self) -> None:
        self.encoder = Encoder(self.tokenizer)
        self.renderer = Renderer(self.tokenizer, self.policy)

    def sides(self, row: Row) -> tuple[Rendered, Rendered]:
        """The chosen and the rejected side as text.

        Raises:
            Unusable, TemplateError: as `Renderer.sides`.
        """
        if row.get("images") is not None:
            raise text_only("the row has images")
        return self.renderer.sides(dict(row))

    def ids(self, sides: Sequence[Rendered], *, standard: bool) -> list[Ids]:
        """One int32 array per side; only `standard` rows (plain text) get special tokens added."""
        if not sides:
            return []
        ids = self.encoder([side.text for side in sides], add_special_tokens=standard)
        for number, side in enumerate(sides):
            if side.literals:
                encode = literal_encoder(self.tokenizer)
                ids[number] = encode(side.text, side.literals, add_special_tokens=standard)
        return ids


def canonical_row(pair: Pair, end: str | None = None) -> dict[str, Any]:
    """A checked pair as conversion writes it; rendering adds `end` to texts, so it is removed."""
    chosen, rejected = pair.chosen, pair.rejected
    if pair.format == "standard" and end:
        chosen, rejected = (text.removesuffix(end) for text in (chosen, rejected))
    return {
        "format": pair.format,
        "prompt": None if pair.prompt is None else _stored(pair.prompt),
        "chosen": _stored(chosen),
        "rejected": _stored(rejected),
        "tools": pair.tools,
        "chat_template_kwargs": pair.chat_template_kwargs,
        "images": pair.images,
    }


def _stored(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half of a surrogate pair, which UTF-8 cannot encode
        return json.dumps(value)
