"""The champion's rewards of the held-out pairs of a run.

The champion is downloaded and scores the pairs itself. With the same tokenizer it reads the same
token ids; with another it reads the pairs' messages or text, rendered by its own template.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifact import Artifact
from tasks.evaluation.score import RewardScorer, score_pairs
from tasks.evaluation.table import score_table
from tasks.evaluation.windows import read_windows, split_files
from tasks.registration.inference import load_reward_model
from tasks.registration.lineage import conversion_directory, conversion_rows

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
ROW = ("format", "prompt", "chosen", "rejected", "tools", "chat_template_kwargs")


def champion_table(
    champion: Path, model: Path, tokenization: Artifact, batch_size: int, device: str | None
) -> pa.Table:
    """The score table of the held-out pairs by the champion in a downloaded directory.

    Raises:
        PipelineError, OSError, ValueError: the champion cannot score these pairs.
    """
    files = split_files(tokenization.path)
    if same_tokenizer(champion, model):
        scorer = RewardScorer(champion, batch_size=batch_size, device=device)
        return score_pairs(scorer, files)
    return _table_by_text(champion, tokenization, files, device)


def same_tokenizer(first: Path, second: Path) -> bool:
    """Whether two model directories turn conversations into the same token ids."""
    return all(_bytes(first / name) == _bytes(second / name) for name in TOKENIZER_FILES)


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _table_by_text(
    champion: Path, tokenization: Artifact, files: list[Path], device: str | None
) -> pa.Table:
    served = load_reward_model(champion, device)
    parts: list[pa.Table] = []
    texts = _held_out_rows(tokenization)
    for window in read_windows(files):
        sides: list[np.ndarray] = []
        for side in (0, 1):
            rows = [texts[str(pair_id)][side] for pair_id in window["pair_id"].to_pylist()]
            # Whatever their length in its own tokens: they fit the model that it is held against.
            sides.append(served.rewards_of_ids([served.token_ids(row) for row in rows]))
        parts.append(score_table(window, "eval", sides[0], sides[1]))
    return pa.concat_tables(parts)


def _held_out_rows(tokenization: Artifact) -> dict[str, tuple[Any, Any]]:
    """`{pair_id: (chosen, rejected)}` of the held-out pairs, as `inference` takes them."""
    columns = (*ROW, "split", "pair_id")
    rows = conversion_rows(conversion_directory(tokenization), columns)
    return {
        str(row["pair_id"]): (_row(row, "chosen"), _row(row, "rejected"))
        for row in rows
        if row["split"] == "eval"
    }


def _row(row: dict[str, Any], side: str) -> Any:
    prompt, answer = json.loads(row["prompt"] or "null"), json.loads(row[side])
    if row["format"] == "standard":
        return (prompt or "") + answer
    return {
        "messages": [*(prompt or []), *answer],
        "tools": row["tools"],
        "chat_template_kwargs": row["chat_template_kwargs"],
    }
