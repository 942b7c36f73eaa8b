"""Whether a new version beats the champion, on the same held-out pairs.

The champion is downloaded and scores the pairs itself. With the same tokenizer it reads the same
token ids; with another it reads the pairs' messages or text, rendered by its own template.
Accuracy decides, then loss.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact
from tasks.errors import RegistrationError
from tasks.evaluation.metrics import metrics_of
from tasks.evaluation.score import RewardScorer, read_windows, score_pairs, split_files
from tasks.evaluation.table import Scores, score_table
from tasks.registration.facts import input_directory
from tasks.registration.inference import load_reward_model

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

ROUNDING = 1e-9

Alias = Literal["champion", "challenger"]


@dataclass(frozen=True)
class Verdict:
    """The alias that a version gets, and why, in plain words."""

    alias: Alias
    reason: str


def verdict(
    scores: Scores, champion_scores: Scores, champion: str, min_improvement: float
) -> Verdict:
    """The alias of the model that gave `scores`; both score the same pairs."""
    new, old = metrics_of(scores), metrics_of(champion_scores)
    figures = f"accuracy {new['accuracy']:.4f} against {old['accuracy']:.4f}"
    more = new["correct"] - old["correct"]
    if more / new["pairs"] > min_improvement + ROUNDING:
        return Verdict("champion", f"beats version {champion}: {figures}")
    if more == 0 and min_improvement == 0:
        losses = f"{figures}, loss {new['loss']:.5f} against {old['loss']:.5f}"
        if new["loss"] < old["loss"]:
            return Verdict("champion", f"beats version {champion}: {losses}")
        return Verdict("challenger", f"does not beat version {champion}: {losses}")
    needed = f", by more than {min_improvement} needed" if min_improvement else ""
    return Verdict("challenger", f"does not beat version {champion}: {figures}{needed}")


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
            sides.append(served.rewards(rows))
        parts.append(score_table(window, "eval", sides[0], sides[1]))
    return pa.concat_tables(parts)


def _held_out_rows(tokenization: Artifact) -> dict[str, tuple[Any, Any]]:
    """`{pair_id: (chosen, rejected)}` of the held-out pairs, as `inference` takes them."""
    directory = conversion_directory(tokenization)
    return {
        str(row["pair_id"]): (_row(row, "chosen"), _row(row, "rejected"))
        for row in _rows(directory)
        if row["split"] == "eval"
    }


def conversion_directory(tokenization: Artifact) -> Path:
    """Where the pairs lie that were tokenized.

    Raises:
        RegistrationError: they are gone.
    """
    path = tokenization.path
    for stage in ("templating", "conversion"):
        record = path / "record.json"
        inputs = json.loads(record.read_bytes())["inputs"] if record.is_file() else {}
        if stage not in inputs:
            raise RegistrationError(
                f"{record} names no {stage}, whose pairs are needed to score a champion that has "
                "another tokenizer; run the pipeline again"
            )
        path = input_directory(path, inputs[stage])
    return path


def _rows(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted((directory / "pairs").glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(batch_size=1024):
            yield from batch.to_pylist()


def _row(row: dict[str, Any], side: str) -> Any:
    prompt, answer = json.loads(row["prompt"] or "null"), json.loads(row[side])
    if row["format"] == "standard":
        return (prompt or "") + answer
    return {
        "messages": [*(prompt or []), *answer],
        "tools": row["tools"],
        "chat_template_kwargs": row["chat_template_kwargs"],
    }
