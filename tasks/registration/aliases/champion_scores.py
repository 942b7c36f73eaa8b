"""The champion's rewards of the held-out pairs of a run.

The champion is downloaded and scores the pairs itself. With the same tokenizer it reads the same
token ids; with another it reads the pairs' messages or text, rendered by its own template.

A pair that it cannot read is left out, and counted: its template refuses such turns, or the pair is
longer than its table of positions, or than the original length of rotary positions that would then
change for all pairs. The others say which model is better. A special token in a pair's own words is
read as ordinary text, even where the champion was trained without such pairs.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifact import Artifact
from tasks.evaluation.scoring.score import RewardScorer, check_finite
from tasks.evaluation.scoring.windows import read_windows, split_files
from tasks.evaluation.tables.scores import SCHEMA, Mask, TokenIds, score_table, sequences
from tasks.model.bars import without_bars
from tasks.model.directory import tokenizer_files
from tasks.registration.lineage import conversion_directory, conversion_rows
from tasks.registration.loader.contract_replay import policy_of
from tasks.registration.loader.inference import UNREADABLE, ServedModel, load_reward_model
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.model.positions import last_readable

ROW = ("format", "prompt", "chosen", "rejected", "tools", "chat_template_kwargs")
Sides = tuple[TokenIds, TokenIds]
"""Token ids of the chosen and of the rejected side."""
Reader = Callable[[pa.Table], Iterator[Sides | str]]
"""Of each pair of a window both sides, or why the champion cannot read it."""


@dataclass(frozen=True)
class ChampionScores:
    """The champion's score table of the held-out pairs that it can read, in their order."""

    table: pa.Table
    rows: Mask
    """`[N]`: which of all held-out pairs these are."""
    note: str
    """How many were left out, and why the first of them; empty where none was."""


def champion_scores(
    champion: Path, model: Path, tokenization: Artifact, batch_size: int, device: str | None
) -> ChampionScores:
    """The scores of the held-out pairs by the champion in a downloaded directory.

    Raises:
        PipelineError, OSError, ValueError: the champion cannot be loaded, or is not sound.
    """
    reader: Reader
    if same_tokenizer(champion, model):
        scorer = RewardScorer(champion, batch_size=batch_size, device=device)
        limit, rewards, reader = last_readable(scorer.model.config), scorer.rewards, _as_tokenized
    else:
        lenient = _lenient(champion)
        with without_bars():
            served = load_reward_model(champion, device, special_tokens_in_text=lenient)
        limit, rewards = last_readable(served.model.config), served.rewards_of_ids
        reader = _rendered_anew(served, tokenization)
    parts = [SCHEMA.empty_table()]
    masks: list[Mask] = []
    left_out: list[str] = []
    for window in read_windows(split_files(tokenization.path)):
        read = [_within(sides, limit) for sides in reader(window)]
        kept = {row: sides for row, sides in enumerate(read) if not isinstance(sides, str)}
        names = window["pair_id"].to_pylist()
        left_out += [f"{names[row]} {why}" for row, why in enumerate(read) if isinstance(why, str)]
        mask = np.asarray([row in kept for row in range(len(read))], np.bool_)
        masks.append(mask)
        if kept:
            some, n = window.filter(pa.array(mask)), len(kept)
            found = rewards([sides[side] for side in (0, 1) for sides in kept.values()])
            check_finite(found, some["pair_id"].to_pylist(), champion)
            parts.append(score_table(some, "eval", found[:n], found[n:]))
    note = f", {len(left_out)} left out that it cannot read: {left_out[0]}" if left_out else ""
    return ChampionScores(pa.concat_tables(parts), np.concatenate(masks), note)


def _within(sides: Sides | str, limit: int | None) -> Sides | str:
    """Both sides' ids, or why the pair cannot be read."""
    if isinstance(sides, str):
        return sides
    tokens = max(map(len, sides))
    return sides if limit is None or tokens <= limit else f"has {tokens} tokens, of {limit} at most"


def _as_tokenized(window: pa.Table) -> Iterator[Sides | str]:
    chosen, rejected = (sequences(window[f"{side}_input_ids"]) for side in ("chosen", "rejected"))
    yield from zip(chosen, rejected, strict=True)


def same_tokenizer(first: Path, second: Path) -> bool:
    """Whether two model directories turn conversations into the same token ids."""
    names = {*tokenizer_files(first), *tokenizer_files(second)}
    return all(_bytes(first / name) == _bytes(second / name) for name in names)


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _lenient(champion: Path) -> Policy:
    """How special tokens in a row's words are read, so that no pair is refused for them."""
    return "keep" if policy_of(champion) == "keep" else "encode"


def _rendered_anew(served: ServedModel, tokenization: Artifact) -> Reader:
    texts = _held_out_rows(tokenization)

    def read(window: pa.Table) -> Iterator[Sides | str]:
        for pair_id in window["pair_id"].to_pylist():
            try:
                ids = (served.token_ids(row) for row in texts[str(pair_id)])
                chosen, rejected = (np.asarray(side, np.int32) for side in ids)
            except UNREADABLE as error:
                yield f"cannot be rendered ({type(error).__name__}: {error})"
            else:
                yield chosen, rejected

    return read


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
