"""Pairs of random token ids whose lengths are drawn like those of real pairs.

"ranked" and "ranked_hh" are all pairs of four ranked answers to one prompt.
"""

from typing import Any

import numpy as np

LENGTHS = {
    # name: (median prompt, its spread, median answer, its spread) of log-normal lengths in tokens
    "uf": (103, 0.94, 238, 1.27),  # as the pairs of "general" have them
    "turns": (600, 0.3, 60, 0.2),
    "hh": (100, 0.99, 32, 0.86),  # as those of "hh"
}
VOCABULARY = 20_000
"""Random ids are below this: the tokenizer that is trained on hh has some 24,000."""
RANKED = {"ranked": "uf", "ranked_hh": "hh"}
"""Kinds of ranked lists, and whose lengths they have."""
PAIRS_OF_FOUR = 6
"""Of one such list."""

Pairs = dict[str, list[Any]]
"""Columns of token ids."""


def random_pairs(kind: str, count: int, max_length: int, seed: int = 0) -> Pairs:
    """Pairs of random ids whose prompts and answers are as long as those of `LENGTHS[kind]`."""
    rng = np.random.default_rng(seed)
    both = [_answered(rng, kind, 2, max_length) for _ in range(count)]
    return {
        "chosen_input_ids": [ids[0] for ids in both],
        "rejected_input_ids": [ids[1] for ids in both],
    }


def ranked_pairs(
    count: int, max_length: int, kind: str = "uf", answers: int = 4, seed: int = 0
) -> Pairs:
    """All pairs of `answers` ranked answers to one prompt, list after list.

    `count` is a multiple of the pairs of one list; `comparison` names the list of every pair.
    """
    rng = np.random.default_rng(seed)
    per_list = answers * (answers - 1) // 2
    pairs: Pairs = {"chosen_input_ids": [], "rejected_input_ids": [], "comparison": []}
    for number in range(count // per_list):
        ids = _answered(rng, kind, answers, max_length)
        for better in range(answers):
            for worse in range(better + 1, answers):
                pairs["chosen_input_ids"].append(ids[better])
                pairs["rejected_input_ids"].append(ids[worse])
                pairs["comparison"].append(str(number))
    return pairs


def _answered(rng: np.random.Generator, kind: str, answers: int, most: int) -> list[list[int]]:
    """One random prompt with each of its answers, drawn anew until all of them fit."""
    prompt, prompt_spread, answer, answer_spread = LENGTHS[kind]
    while True:
        before = max(4, int(rng.lognormal(np.log(prompt), prompt_spread)))
        own = np.maximum(4, rng.lognormal(np.log(answer), answer_spread, answers).astype(int))
        if before + own.max() <= most:
            shared = rng.integers(10, VOCABULARY, before)
            return [np.concatenate([shared, rng.integers(10, VOCABULARY, n)]).tolist() for n in own]
