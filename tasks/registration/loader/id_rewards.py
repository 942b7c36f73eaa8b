"""Rewards of token ids: equal sequences and shared prompts once, in passes of bounded size.

    [p p p a a], [p p p b], [p p p b], [c c]   ->   p p p, then [a a], [b _];  [c c]

A family whose reward changes with the padding beside it gets passes of one length.

The reward is read at the last token by length, in float32. Travels inside the registered model: it
may import only modules that travel with it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from tasks.registration.loader.prompt_reuse import (
    Ids,
    batches,
    can_reuse,
    padded,
    rewards_after_prompt,
    rewards_at_ends,
    saves,
)

PASS_TOKENS = {"cpu": 512}
OTHER_PASS_TOKENS = 16_384
"""Tokens of one forward pass with its padding, by device. On a CPU a larger pass does not fit the
caches, and is slower than one sequence after the other."""
SEEN = 1e-4
"""Largest change of a reward by padding, relative to the largest reward of the probe, that still
counts as rounding."""


class IdScorer:
    """A reward model in evaluation mode, on its device, that scores token ids."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.pad_id = int(model.config.pad_token_id or 0)
        self.vocabulary = int(model.config.get_text_config().vocab_size)
        self.pass_tokens = PASS_TOKENS.get(model.device.type, OTHER_PASS_TOKENS)

    def rewards(self, sequences: Sequence[Ids], prompts: Sequence[Any] | None = None) -> np.ndarray:
        """float32 `[N]`: the raw reward of each sequence; equal ones are scored once.

        `prompts`: equal values mark sequences that answer one prompt, which is then computed once.

        Raises:
            ValueError: a sequence is empty or holds what is no token id; it is named by its number,
                from 0.
        """
        index_of: dict[tuple[int, ...], int] = {}
        indices: list[int] = []
        for number, ids in enumerate(sequences):
            try:
                checked = check_ids(ids, self.vocabulary)
            except ValueError as error:
                raise ValueError(f"sequence {number} {error}") from error
            indices.append(index_of.setdefault(checked, len(index_of)))
        distinct = list(index_of)
        rewards = np.full(len(distinct), np.nan, dtype=np.float32)
        unrounded = torch.autocast(self.model.device.type, enabled=False)  # a trainer's may be on
        with torch.inference_mode(), unrounded:
            for members in _groups(indices, prompts):
                alike = [distinct[i] for i in members]
                if saves(alike) and self.reuses_prompts:
                    rewards[members] = rewards_after_prompt(self.model, alike, self.pass_tokens)
            whole = np.flatnonzero(np.isnan(rewards)).tolist()
            lengths = [len(distinct[i]) for i in whole]
            for batch in batches(lengths, self.pass_tokens):
                members = [whole[i] for i in batch]
                for together in self._alike(members, distinct):
                    rewards[together] = self._forward([distinct[i] for i in together])
        return rewards[indices]

    def _alike(self, members: list[int], distinct: list[tuple[int, ...]]) -> Iterable[list[int]]:
        """The members in one pass, or in one per length where padding changes the rewards."""
        of_length: dict[int, list[int]] = {}
        for index in members:
            of_length.setdefault(len(distinct[index]), []).append(index)
        return of_length.values() if len(of_length) > 1 and self.sees_padding else [members]

    @cached_property
    def sees_padding(self) -> bool:
        """Whether a reward changes with padding behind its sequence, as FNet's, ConvBERT's and
        others' do: tried once, if needed."""
        draw = np.random.default_rng(0)
        trial = [draw.integers(0, self.vocabulary, n).tolist() for n in (3, 3, 3, 3, 8)]
        alone = np.concatenate([self._forward([ids]) for ids in trial])
        gap = np.abs(self._forward(trial) - alone).max()
        return not gap <= SEEN * np.abs(alone).max()

    @cached_property
    def reuses_prompts(self) -> bool:
        """Whether a prompt's keys and values can serve several answers: tried once, if needed."""
        return can_reuse(self.model, self._forward, self.vocabulary)

    def _forward(self, sequences: Sequence[Ids]) -> np.ndarray:
        """float32 `[B]`: the rewards of sequences in one padded pass."""
        input_ids, lengths = padded(sequences, self.pad_id, self.model.device)  # (B, T), (B)
        mask = torch.arange(input_ids.shape[1], device=input_ids.device) < lengths[:, None]
        inputs = {"input_ids": input_ids, "attention_mask": mask.long()}
        if not hasattr(self.model, "score"):  # an encoder pools by itself
            return self.model(**inputs).logits[:, 0].float().cpu().numpy()
        body = getattr(self.model, self.model.base_model_prefix)
        return rewards_at_ends(self.model, body(**inputs, use_cache=False)[0], lengths)


def check_ids(ids: Ids, vocabulary: int) -> tuple[int, ...]:
    """The token ids, if each is an id of the vocabulary.

    Raises:
        ValueError: its message continues a sentence that begins with the sequence's name.
    """
    array = np.asarray(ids, dtype=None if len(ids) else np.int64)
    expected = f"token ids must be 0 to {vocabulary - 1}, and at least one"
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"is {str(ids)[:80]}; {expected}")
    if not len(array):
        raise ValueError(f"is empty; {expected}")
    wrong = np.flatnonzero((array < 0) | (array >= vocabulary))
    if len(wrong):
        raise ValueError(f"holds {array[wrong[0]]} at {wrong[0]}; {expected}")
    return tuple(array.tolist())


def _groups(indices: Sequence[int], prompts: Sequence[Any] | None) -> list[list[int]]:
    """The indices of distinct sequences that answer one prompt, each in one group at most."""
    groups: dict[Any, list[int]] = {}
    seen: set[int] = set()
    for index, prompt in zip(indices, prompts or (), strict=False):
        if index not in seen:
            groups.setdefault(prompt, []).append(index)
        seen.add(index)
    return list(groups.values())
