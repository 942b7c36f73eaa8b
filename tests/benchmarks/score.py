"""Scoring: four answers to each prompt, by transformers in padded batches and by our scorer.

Told as JSON: who ("peer", "ours"), pairs (a kind of ranked lists), batch, max_length, threads,
root. The peer's are batches of as many sequences, in the order of the lists, as a user of
`AutoModelForSequenceClassification` makes them. Compared is every reward.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.benchmarks.data import prepared
from tests.benchmarks.harness import PeakMemory
from tests.benchmarks.random_pairs import PAIRS_OF_FOUR, RANKED, ranked_pairs
from tests.evaluation.pieces import write_reward_model

LISTS = 24

Sequences = list[npt.NDArray[np.int32]]


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Answers per second after a first, small batch; and all rewards."""
    import torch

    torch.set_num_threads(told["threads"])
    root = Path(told["root"])
    base = prepared(root, told["max_length"]).model
    answers = distinct(ranked_pairs(LISTS * PAIRS_OF_FOUR, told["max_length"], lengths(told)))
    model = reward_model(base, root / "scored-1")
    rewards_of = (padded if told["who"] == "peer" else ours)(model, 2 * told["batch"])
    rewards_of(answers[: told["batch"]])
    with PeakMemory() as memory:
        start, busy = time.perf_counter(), time.process_time()
        rewards = rewards_of(answers)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    return {
        "answers_per_second": len(answers) / seconds,
        "cpu_seconds": busy,
        "memory_mb": (memory.peak - memory.before) / 2**20,
        "rewards": rewards,
    }


def lengths(told: dict[str, Any]) -> str:
    """Whose lengths the lists have."""
    return RANKED.get(told["pairs"], "hh")


def distinct(pairs: dict[str, list[Any]]) -> Sequences:
    """Every answer with its prompt once, list after list."""
    both = zip(pairs["chosen_input_ids"], pairs["rejected_input_ids"], strict=True)
    found = dict.fromkeys(tuple(ids) for pair in both for ids in pair)
    return [np.array(ids, np.int32) for ids in found]


def reward_model(base: Path, directory: Path) -> Path:
    """A seeded reward model, made once."""
    if not directory.is_dir():
        write_reward_model(base, directory, seed=0, spread=1)
    return directory


def padded(directory: Path, batch: int) -> Any:
    """Rewards by transformers, batch after batch."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model: Any = AutoModelForSequenceClassification.from_pretrained(directory).eval()

    def rewards(answers: Sequences) -> list[float]:
        found: list[float] = []
        for start in range(0, len(answers), batch):
            part = [torch.from_numpy(ids).long() for ids in answers[start : start + batch]]
            pad = model.config.pad_token_id
            ids = torch.nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=pad)
            longest = torch.tensor([len(ids) for ids in part])
            mask = torch.arange(ids.shape[1])[None] < longest[:, None]
            with torch.inference_mode():
                found += model(input_ids=ids, attention_mask=mask.long()).logits[:, 0].tolist()
        return found

    return rewards


def ours(directory: Path, batch: int) -> Any:
    """Rewards by the scorer that evaluation and registration use."""
    from tasks.evaluation.scoring.score import RewardScorer

    scorer = RewardScorer(directory, batch_size=batch, device="cpu")
    return lambda answers: [float(reward) for reward in scorer.rewards(answers)]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
