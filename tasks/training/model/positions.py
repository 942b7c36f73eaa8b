"""How long a sequence may be: the positions of a model, and the check of rows against them.

Beyond its positions a model was not trained, and its rewards mean nothing: a model with a table of
positions fails, one with rotary positions answers all the same. Rotary positions of the types
`dynamic` and `longrope` change their angles for the whole batch once one row is longer than the
original length (`dynamic` for later batches, too). Up to that length a reward depends on its own
row alone, so longer rows are refused. Travels inside the registered model: it must not import any
other part of the project.
"""

from collections.abc import Sequence
from typing import Any

OFFSET = (
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "mpnet"),
    *("data2vec-text", "ibert", "xmod", "longformer", "luke", "markuplm", "esm"),
)
"""Families whose first positions, up to that of padding, serve no token."""
CHANGING = {"dynamic": "max_position_embeddings", "longrope": "original_max_position_embeddings"}
"""Types of rotary positions whose angles change with the longest row, and what their original
length is called."""


def positions(config: Any) -> int | None:
    """How many tokens the model has positions for; None: no fixed number, or a stretched one.

    Training refuses longer rows.
    """
    config = config.get_text_config()
    rope = _rotary(config)
    if changing := [part for part in rope if part.get("rope_type") in CHANGING]:
        return min(_original_length(config, part) for part in changing)
    if str(rope[0].get("rope_type", "default")) != "default":
        return None
    limit = _said(config)
    return limit and limit - (config.pad_token_id + 1 if config.model_type in OFFSET else 0)


def longest_row(config: Any) -> int | None:
    """Tokens of the longest row that is scored, stretched positions included; None: not known."""
    return positions(config) or _said(config.get_text_config())


def _said(config: Any) -> int | None:
    """The number of positions that a config says; None: none, or -1 as XLNet's."""
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def last_readable(config: Any) -> int | None:
    """Tokens beyond which a row has no reward, or changes other rows' rewards; None: no limit.

    Plain rotary positions have none: a longer row gets a reward, and changes no other.
    """
    rope = _rotary(config.get_text_config())
    if rope[0] and not any(part.get("rope_type") in CHANGING for part in rope):
        return None
    return positions(config)


def why_no_more(config: Any) -> str:
    """Why a row of more tokens than `positions` says is refused."""
    kinds = [part["rope_type"] for part in _rotary(config.get_text_config()) if "rope_type" in part]
    if changing := sorted(CHANGING.keys() & set(kinds)):
        return (
            f"with more its rotary positions ({changing[0]}) would change for every row of the "
            "batch, and so would their rewards"
        )
    return "the model has no positions for more"


def _rotary(config: Any) -> list[dict[str, Any]]:
    """The settings of rotary positions, then those of each kind of layer that has its own."""
    settings = (
        getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    )
    return [settings, *(part for part in settings.values() if isinstance(part, dict))]


def _original_length(config: Any, rope: dict[str, Any]) -> int:
    name = CHANGING[rope["rope_type"]]
    return int(rope[name] if name in rope else getattr(config, name))


def check_lengths(sequences: Sequence[Sequence[int]], limit: int | None, why: str) -> None:
    """Refuses rows that are longer than the model's positions; `why` as `why_no_more`.

    Raises:
        ValueError: names the first of them by its number, from 0.
    """
    for number, ids in enumerate(sequences):
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"row {number} has {len(ids)} tokens, expected {limit} or fewer: {why}; "
                "shorten its prompt or its answer (in RL, the lengths of prompts and completions), "
                "leave it out, or load the model with too_long='cut_start', which scores its end"
            )
