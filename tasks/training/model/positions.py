"""How long a sequence may be: the positions of a model, and the rows that are held against them.

Beyond its positions a model was not trained, and its rewards mean nothing: one with a table of them
fails, one with rotary positions answers all the same. Travels inside the registered model: it must
not import any other part of the project.
"""

from collections.abc import Sequence
from typing import Any

OFFSET = ("roberta", "xlm-roberta")
"""Families whose first positions, up to that of padding, serve no token."""


def positions(config: Any) -> int | None:
    """How many tokens the model has positions for; None: no fixed number, or a stretched one.

    The number by which training refuses rows: what it reads can be scored.
    """
    config = config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if str(rope.get("rope_type", "default")) != "default":
        return None
    found = getattr(config, "max_position_embeddings", None)
    if not isinstance(found, int) or found <= 0:
        return None
    return found - (config.pad_token_id + 1 if config.model_type in OFFSET else 0)


def check_lengths(sequences: Sequence[Sequence[int]], limit: int | None) -> None:
    """Refuses rows that are longer than the model's positions.

    Raises:
        ValueError: names the first of them by its number, from 0.
    """
    for number, ids in enumerate(sequences):
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"row {number} has {len(ids)} tokens, expected {limit} or fewer: the model has no "
                "positions for more; shorten its prompt or its answer (in RL, the lengths of "
                "prompts and completions), or leave it out"
            )
