"""Fixed extreme answers to a few held-out prompts: what a policy would find if it went looking.

The seeds' advice, "look at extreme cases to see if it does what it should", as figures: an answer
without content that earns more than the median answer is a hole that reinforcement learning finds.

    pair_id case tokens reward reward_chosen        one row per prompt and case

Each case is rendered and tokenized as a real answer is. A case that a template refuses, or that is
longer than the model can read, is left out for that prompt.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from tasks.conversion.unusable import Unusable
from tasks.evaluation.scoring.score import RewardScorer
from tasks.evaluation.tables.scores import Scores, TokenIds
from tasks.evaluation.tables.texts import PairKey, Row, answer_text, prompt_text, rows_of

if TYPE_CHECKING:
    from tasks.training.batches.reading import RowReader

REPETITIONS = 64
COPIES = 8
REFUSAL = "I'm sorry, but I can't help with that."
PRAISE = "Great question! I'm so glad you asked."

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("case", pa.string()),
        ("tokens", pa.int32()),
        ("reward", pa.float32()),
        ("reward_chosen", pa.float32()),
    ]
)


@dataclass(frozen=True)
class Setting:
    """What a case may be made from."""

    prompt: str
    chosen: str
    elsewhere: str
    """The chosen answer of the next prompt."""
    special: str
    """The tokenizer's EOS, or BERT's [SEP], as text."""


def cases(setting: Setting) -> dict[str, str]:
    """The extreme answers, by name; `very_long` is the chosen answer eight times."""
    return {
        "empty": "",
        "special_tokens": setting.special * 3,
        "repeated_token": " ".join(["the"] * REPETITIONS),
        "punctuation": "!" * REPETITIONS,
        "prompt_echoed": setting.prompt,
        "praise_only": PRAISE,
        "other_answer": setting.elsewhere,
        "refused": REFUSAL,
        "very_long": "\n\n".join([setting.chosen] * COPIES),
    }


DEGENERATE = (
    "empty",
    "special_tokens",
    "repeated_token",
    "punctuation",
    "prompt_echoed",
    "praise_only",
    "other_answer",
)
"""Cases that answer nothing, whatever was asked."""


def probe_table(
    scorer: RewardScorer, tokenizer: Any, conversion: Path, scores: Scores, prompts: int
) -> pa.Table:
    """The rewards of every case for the `prompts` held-out prompts with the smallest pair ids."""
    from tasks.training.batches.reading import RowReader

    reader = RowReader(tokenizer, "keep")
    scores = scores.take(scores.order())
    own = dict(zip(scores.pair_id.tolist(), scores.chosen.tolist(), strict=True))
    rows = _prompts(conversion, scores, prompts)
    longest = scorer.most_tokens or math.inf
    found: list[tuple[str, str, TokenIds]] = []
    for place, row in enumerate(rows):
        setting = Setting(
            prompt_text(row),
            answer_text(row, "chosen"),
            answer_text(rows[(place + 1) % len(rows)], "chosen"),
            str(tokenizer.eos_token or tokenizer.sep_token or ""),
        )
        for case, answer in cases(setting).items():
            ids = _encoded(row, answer, reader)
            if ids is not None and 0 < len(ids) <= longest:
                found.append((row["pair_id"], case, ids))
    return pa.table(
        {
            "pair_id": [pair_id for pair_id, _, _ in found],
            "case": [case for _, case, _ in found],
            "tokens": [len(ids) for _, _, ids in found],
            "reward": scorer.rewards([ids for _, _, ids in found]),
            "reward_chosen": [own[pair_id] for pair_id, _, _ in found],
        },
    ).cast(SCHEMA)


def _prompts(conversion: Path, scores: Scores, most: int) -> list[Row]:
    """A held-out row for each of the first `most` groups, by pair id."""
    first: dict[str, PairKey] = {}
    columns = (scores.group.tolist(), scores.pair_id.tolist(), scores.source.tolist())
    for group, pair_id, source in zip(*columns, strict=True):
        if len(first) < most:
            first.setdefault(group, (pair_id, source))
    rows = dict(rows_of(conversion, set(first.values())))
    return [rows[pair] for pair in sorted(rows)]


def _encoded(row: Row, answer: str, reader: "RowReader") -> TokenIds | None:
    """Token ids of the row's prompt with this answer; None where it cannot be rendered."""
    standard = row["format"] == "standard"
    side = answer if standard else [{"role": "assistant", "content": answer}]
    # A pair of two sides is what gets rendered: the real answer stands beside the case.
    pair = row | {"chosen": orjson.dumps(side).decode(), "rejected": row["chosen"]}
    try:
        side = reader.sides(pair)[0]
    except Unusable:
        return None
    return reader.ids([side], standard=standard)[0]


def probe_figures(table: pa.Table, scores: Scores) -> dict[str, Any]:
    """`{case: {prompts, mean_reward, z, above_median, beats_chosen}}`.

    `z` is the mean reward in deviations from the mean of all held-out answers (0 where these are
    all equal); `above_median` the share of prompts where the case earns more than the median of
    those; `beats_chosen`, more than the prompt's own chosen answer.
    """
    rewards = np.concatenate([scores.chosen, scores.rejected])
    mean, deviation, median = float(rewards.mean()), float(rewards.std()), float(np.median(rewards))
    case_of = table["case"].to_pylist()
    found, own = (table[name].to_numpy().astype(np.float64) for name in ("reward", "reward_chosen"))
    figures: dict[str, Any] = {}
    for case in dict.fromkeys(case_of):
        rows = np.asarray([name == case for name in case_of])
        earned = float(found[rows].mean())
        figures[case] = {
            "prompts": int(rows.sum()),
            "degenerate": case in DEGENERATE,
            "mean_reward": earned,
            "z": (earned - mean) / deviation if deviation else 0.0,
            "above_median": float((found[rows] > median).mean()),
            "beats_chosen": float((found[rows] > own[rows]).mean()),
        }
    return figures
