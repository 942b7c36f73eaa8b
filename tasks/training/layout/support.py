"""Whether a flat layout gives a model's rewards exactly; if not, the reason in a sentence.

Known reasons are read from the config. Others show in a probe: a few short sequences of random ids
with shared prompts are scored both padded and flat, by the modules that will compute the batches.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from tasks.training.layout.plan import Ids, flat_plan
from tasks.training.layout.pruning import prune_last_layer, restore_last_layer
from tasks.training.layout.rectangle import rectangle
from tasks.training.scoring import body_dtype, is_decoder, score, score_flat

RECURRENT = ("linear_attention", "mamba", "recurrent", "conv")
"""Kinds of layers that carry a state along the row, and so from one sequence into the next."""
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
HALF_TOLERANCE = 0.05
"""Allowed differences of rewards, relative to the larger of 1 and the largest reward."""
LENGTHS = ((5, (3, 4)), (1, (2, 6)), (9, (1, 1)), (0, (4, 3)))
"""Prompts and answers of the probe, in tokens."""
PROBED_WINDOW = 3
"""Sliding window in the probe, whose sequences are shorter than any real window. It shows families
that apply the window in their mask alone, which a flat row does not have."""


def make_flat(model: PreTrainedModel, autocast: torch.dtype | None = None) -> str | None:
    """None if the flat layouts are exact for the model, else why they are not.

    Prunes its last layer (pruning.py) if that is exact. `autocast`: the half precision that
    training will compute in.
    """
    reason = _by_config(model)
    if reason is not None:
        return reason
    body = getattr(model, model.base_model_prefix)
    pruned = prune_last_layer(body)
    reason = _by_probe(model, autocast)
    if reason is None or not pruned:
        return reason
    restore_last_layer(body)
    return _by_probe(model, autocast)


def _by_probe(model: PreTrainedModel, autocast: torch.dtype | None) -> str | None:
    try:
        with torch.autocast(model.device.type, autocast, enabled=autocast is not None):
            difference = _difference(model)
    except Exception as error:  # a forward that does not know flat rows may raise anything
        return f"{type(model).__name__} takes no flat batch: {error}"
    allowed = HALF_TOLERANCE if autocast else TOLERANCE.get(body_dtype(model), HALF_TOLERANCE)
    if not difference <= allowed:
        return f"{type(model).__name__} gives rewards that differ by {difference:.1e} in a probe"
    return None


def _by_config(model: PreTrainedModel) -> str | None:
    name, config = type(model).__name__, model.config.get_text_config()
    if not is_decoder(model):
        return f"{name} is an encoder: its prompt sees the answer, so it cannot be shared"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return f"{name} caps its attention logits"
    kinds: Any = getattr(config, "layer_types", None) or []
    recurrent = sorted({kind for kind in kinds if any(part in kind for part in RECURRENT)})
    if recurrent:
        return f"{name} has layers whose state runs along the row ({', '.join(recurrent)})"
    if "chunked_attention" in kinds:
        return f"{name} has layers that attend within chunks of the row"
    return None


@contextmanager
def _short_windows(model: PreTrainedModel) -> Generator[None, None, None]:
    """Inside, sliding windows have `PROBED_WINDOW` tokens: in the config, which masks are made
    from, and in the layers, which pass it to the attention."""
    holders: list[Any] = [model.config.get_text_config(), *model.modules()]
    own = [(h, w) for h in holders if isinstance(w := getattr(h, "sliding_window", None), int)]
    try:
        for holder, window in own:
            holder.sliding_window = min(window, PROBED_WINDOW)
        yield
    finally:
        for holder, window in own:
            holder.sliding_window = window


def _difference(model: PreTrainedModel) -> float:
    """Largest difference of a reward in the probe, divided by max(1, largest reward)."""
    rng = np.random.default_rng(0)
    vocabulary = int(model.config.get_text_config().vocab_size)
    chosen: list[Ids] = []
    rejected: list[Ids] = []
    for prompt, (one, other) in LENGTHS:
        ids = [rng.integers(1, vocabulary, n, dtype=np.int64) for n in (prompt, one, other)]
        chosen.append(np.concatenate([ids[0], ids[1]]))
        rejected.append(np.concatenate([ids[0], ids[2]]))
    sequences, groups = [*chosen, *rejected], [*range(len(LENGTHS))] * 2
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), _short_windows(model):
            flat = score_flat(model, flat_plan(sequences, groups))
            tensors = (torch.from_numpy(a).to(flat.device) for a in rectangle(sequences, 0))
            padded = score(model, *tensors)
    finally:
        model.train(training)
    return float((flat - padded).abs().max() / padded.abs().max().clamp(min=1.0))
