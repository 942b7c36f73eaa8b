"""Whether a model of this family can be a reward model here, found out before any training.

Not by a list of names: a family works if its reward does not see padding, and if no row is longer
than its positions. What a family cannot give is told in a sentence.

Tested with the decoders Llama, Qwen2, Qwen3, Qwen3-MoE, Gemma 1-3, Mistral, Phi, Phi3 and GPT-2,
and the encoders BERT, RoBERTa, ModernBERT, DeBERTa and DeBERTa-v2.
"""

from typing import Any

import torch
from datasets import Dataset
from torch import nn
from transformers import PreTrainedModel

from tasks.errors import ModelError
from tasks.training.batches.columns import longest_sides
from tasks.training.model.padding import embedding
from tasks.training.model.positions import positions, why_no_more
from tasks.training.scoring import body_dtype, score

PROBE_ROWS, PROBE_TOKENS, PROBE_PADDING = 4, 3, 5
SEEN = 1e-4
"""Largest difference that rounding may make, relative to the largest reward of the probe: those of
a new head are near 0, and grow with it."""
SEEN_HALF = 5e-2
"""The same in half precision, relative to max(1, |reward|)."""
OTHERS = "a decoder (Llama, Qwen, ...) or an encoder (BERT, ModernBERT, ...)"


def check_padding_unseen(model: PreTrainedModel, pad: int) -> None:
    """Scores rows of three tokens alone and behind padding: the rewards must be the same.

    Raises:
        ModelError: padding changes the family's rewards; or it cannot compute in its dtype, or not
            as it is configured, or in training not rows of any length.
    """
    if model.config.model_type == "reformer":
        raise ModelError(
            f"{type(model).__name__} trains on rows of certain lengths alone; use {OTHERS}"
        )
    if any(parameter.numel() == 0 for parameter in model.parameters()):
        return  # sharded from the start: there is nothing here to score with
    ids = torch.tensor([n for n in range(embedding(model).num_embeddings) if n != pad])
    count = PROBE_ROWS * PROBE_TOKENS
    spread = torch.arange(count) * len(ids) // count
    alone = ids[spread].view(-1, PROBE_TOKENS).to(model.device)  # (B, T)
    padded = nn.functional.pad(alone, (0, PROBE_PADDING), value=pad)
    mask = nn.functional.pad(torch.ones_like(alone), (0, PROBE_PADDING))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            bare = score(model, alone, torch.ones_like(alone))
            behind = score(model, padded, mask)
    except (RuntimeError, ValueError) as error:
        dtype = body_dtype(model)
        mend = "load it in float32" if dtype.itemsize < 4 else "change what its config.json says"
        raise ModelError(
            f"{type(model).__name__} cannot score three tokens in {dtype}: {error}; {mend}, or use "
            "another family"
        ) from error
    finally:
        model.train(training)
    largest, is_half = float(bare.abs().max()), body_dtype(model).itemsize < 4
    limit = SEEN_HALF * max(1.0, largest) if is_half else SEEN * largest
    gaps = (bare - behind).abs()
    if not float(gaps.max()) <= limit:
        row = int(gaps.argmax())
        raise ModelError(
            f"{type(model).__name__} gives three tokens the reward {bare[row]:.4g}, and "
            f"{behind[row]:.4g} once they are padded: the family pools its reward at the padding, "
            f"or does not mask it, so a reward would depend on the batch; use {OTHERS}"
        )


def check_positions(model: PreTrainedModel, rows: Any, name: str) -> None:
    """Refuses rows that are longer than the model's positions; a stream cannot be looked through.

    Raises:
        ModelError: says how long the longest row is, and what to do.
    """
    limit = positions(model.config)
    for key, part in rows.items() if isinstance(rows, dict) else [(name, rows)]:
        if limit is None or not isinstance(part, Dataset) or len(part) == 0:
            continue
        longest = int(longest_sides(part).max())
        if longest > limit:
            raise ModelError(
                f"the {key} dataset has a row of {longest} tokens, but {type(model).__name__} "
                f"takes {limit}: {why_no_more(model.config)}; set max_length to {limit} at most"
            )
