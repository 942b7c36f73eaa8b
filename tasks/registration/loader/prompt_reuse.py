"""Rewards of several answers to one prompt, the prompt computed once.

    [p p p p a a a], [p p p p b b]   ->   keys and values of p p p p, then [a a a], [b b _]

The ids that all sequences begin with are run once; their keys and values are repeated for each
answer. This works for decoders whose every layer attends to all earlier tokens. Families with
windows, states, or positions that depend on the total length run each sequence whole. Which kind a
model is, its configuration says, and a trial confirms.
Travels inside the registered model: it must not import any other part of the project.

Legend: N answers, P shared tokens, T longest rest.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch

TOLERANCE = 1e-5
"""Largest difference to separate scoring, relative to rewards above 1, with which reuse is used."""
LENGTH_DEPENDENT = ("dynamic", "longrope")
"""Rotary positions whose angles change with the length of the whole sequence."""
MIN_SAVED = 128
"""Tokens that reuse must save at least; for fewer, one padded batch is as fast."""
PADDING = 8
"""One token in so many may be padding: beyond, shorter sequences get a pass of their own."""

Ids = Sequence[int] | np.ndarray
Forward = Callable[[list[Ids]], np.ndarray]


def shared_length(sequences: Sequence[Ids]) -> int:
    """Ids that all sequences begin with, leaving each at least one of its own."""
    first, last = min(map(list, sequences)), max(map(list, sequences))
    limit = min(map(len, sequences)) - 1
    return next((i for i in range(limit) if first[i] != last[i]), limit)


def saves(sequences: Sequence[Ids]) -> bool:
    """Whether running the shared ids once is worth two passes."""
    return len(sequences) > 1 and (len(sequences) - 1) * shared_length(sequences) >= MIN_SAVED


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices that go through the model together, longest first.

    `budget`: tokens of a pass with its padding; of these at most `1 / PADDING` are padding. A
    sequence that is longer goes alone.
    """
    batch: list[int] = []
    longest = tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        tokens += lengths[index]
        size = longest * (len(batch) + 1)
        if batch and (size > budget or size - tokens > budget // PADDING):
            yield batch
            batch = []
        if not batch:
            longest = tokens = lengths[index]
        batch.append(index)
    if batch:
        yield batch


@torch.inference_mode()
def rewards_after_prompt(model: Any, sequences: Sequence[Ids], budget: int) -> np.ndarray:
    """float32 `[N]`: rewards of sequences that begin alike; `budget`: padded tokens at a time."""
    from transformers import DynamicCache

    body = getattr(model, model.base_model_prefix)
    device = next(model.parameters()).device
    shared = shared_length(sequences)
    prompt = torch.tensor([list(sequences[0][:shared])], device=device)  # (1, P)
    cached: Any = DynamicCache(config=model.config)
    body(prompt, attention_mask=torch.ones_like(prompt), use_cache=True, **{_name(body): cached})
    layers = [(layer.keys, layer.values) for layer in cached.layers]
    rewards = np.empty(len(sequences), dtype=np.float32)
    # The answers' own tokens count: the prompt's keys and values are there already.
    for batch in batches([len(ids) - shared for ids in sequences], budget):
        cache = DynamicCache(config=model.config)
        for index, (keys, values) in enumerate(layers):
            repeated = (x.expand(len(batch), -1, -1, -1) for x in (keys, values))
            cache.update(*repeated, index)
        rewards[batch] = _after(model, body, cache, [sequences[i][shared:] for i in batch], shared)
    return rewards


def _after(model: Any, body: Any, cache: Any, rests: list[Ids], shared: int) -> np.ndarray:
    """float32 `[N]`: rewards of sequences without their `shared` ids, which `cache` holds."""
    input_ids, lengths = padded(rests, 0, next(model.parameters()).device)  # (N, T), (N)
    positions = torch.arange(input_ids.shape[1], device=input_ids.device)
    seen = positions < lengths[:, None]
    mask = torch.cat([seen.new_ones(len(rests), shared), seen], dim=1).long()  # (N, P + T)
    hidden = body(
        input_ids,
        attention_mask=mask,
        position_ids=(positions + shared).expand(len(rests), -1),
        use_cache=True,
        **{_name(body): cache},
    )[0]  # (N, T, H)
    return rewards_at_ends(model, hidden, lengths)


def padded(sequences: Sequence[Ids], pad_id: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids padded at their ends, int64 `[N, T]`, and the lengths, int64 `[N]`; on the device."""
    lengths = torch.tensor([len(ids) for ids in sequences])
    input_ids = torch.full((len(sequences), int(lengths.max())), pad_id)
    for row, ids in enumerate(sequences):
        input_ids[row, : len(ids)] = torch.as_tensor(np.asarray(ids, dtype=np.int64))
    return input_ids.to(device), lengths.to(device)


def rewards_at_ends(model: Any, hidden: torch.Tensor, lengths: torch.Tensor) -> np.ndarray:
    """float32 `[N]`: the head's output at each last token of `hidden`, `[N, T, H]`."""
    last = hidden[torch.arange(len(lengths), device=hidden.device), lengths - 1]  # (N, H)
    return model.score(last)[:, 0].float().cpu().numpy()


def _name(body: Any) -> str:
    """What the family calls its cache: transformers 5.24 began to rename it."""
    return "cache" if "cache" in signature(type(body).forward).parameters else "past_key_values"


@torch.inference_mode()
def can_reuse(model: Any, forward: Forward, tokens: int) -> bool:
    """Whether the model's family allows it, and a trial agrees with separate scoring.

    `forward`: rewards of sequences run whole. `tokens`: size of the vocabulary.
    """
    config = model.config.get_text_config()
    if not hasattr(model, "score") or not sees_everything_before(config):
        return False
    draw = np.random.default_rng(0)
    prompt = draw.integers(0, tokens, 24).tolist()
    trial = [prompt + draw.integers(0, tokens, n).tolist() for n in (1, 5, 9)]
    try:
        rewards = rewards_after_prompt(model, trial, budget=10_000)
    except (AttributeError, TypeError, ValueError, IndexError):
        return False  # a family whose cache is another one
    expected = forward([list(ids) for ids in trial])
    return bool(np.abs(rewards - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max()))


def sees_everything_before(config: Any) -> bool:
    """Whether every layer attends to all earlier tokens, at positions of their own."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and set(kinds) != {"full_attention"}:
        return False
    if kinds is None and getattr(config, "sliding_window", None):
        return False
    rotary = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    settings = json.dumps(rotary, default=str)
    return not any(f'"{kind}"' in settings for kind in LENGTH_DEPENDENT)
