"""The score contract: what a reward model gives for fixed conversations, written beside its weights
and held against the model wherever it is loaded.

    <model>/reward_contract.json
        rendering   template and its hash, the date written into it, EOS, padding, BOS, the policy
                    for special tokens in text, and which formats the training rows had
        pooling     where the reward is read
        tolerance   largest accepted difference of rewards, by dtype, relative to max(1, |reward|)
        probes      golden rows: both texts, both lists of ids, both rewards in float32
        pairs       real pairs: ids and rewards

A probe that the template or the policy refuses says so: it must be refused again.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifact.durable import read_json, write_json
from tasks.conversion.unusable import Unusable
from tasks.errors import ModelError, TemplateError
from tasks.model.bars import without_bars
from tasks.templating.tokenizer.loaded import load
from tasks.templating.tokenizer.own_tokens import own_tokens
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.tokenization.shards import RENDERING_FILE
from tasks.training.batches.reading import RowReader
from tasks.training.handover import contract_file
from tasks.training.handover.contract_differences import difference, difference_of_settings
from tasks.training.handover.contract_file import CONTRACT, FORMAT, SIDES, spelled
from tasks.training.handover.golden import GOLDEN

REAL_PAIRS = 4
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}
TEXT = "prompt + answer + EOS unless it ends in it, with the tokenizer's special tokens"
CLOSED = "prompt + answer, with the tokenizer's special tokens, the last of which ends it"
POOLING = "the last token that the attention mask marks, never found by comparing with the pad id"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one probe of a replayed contract."""

    probe: str
    difference: str | None
    """What differs, in a sentence (template, tokenizer, ids or reward); None: nothing."""


class _Scored:
    """The model of a directory in float32, with its tokenizer."""

    def __init__(self, directory: Path, device: str) -> None:
        import torch

        from tasks.training.model.loading import load_reward_model

        self.device = device
        self.tokenizer = load(directory)
        with without_bars():
            scored = load_reward_model(directory, dtype=torch.float32, need_head=True)
        model: Any = scored.model
        self.model: Any = model.to(device).eval()

    def reward(self, ids: Sequence[int]) -> float:
        """The reward of one sequence, alone in its batch; NaN of ids that it has not."""
        import torch

        from tasks.training.model.padding import embedding
        from tasks.training.scoring import score

        if max(ids) >= embedding(self.model).num_embeddings:
            return float("nan")
        given = torch.tensor([ids], device=self.device)
        with torch.inference_mode(), torch.autocast(given.device.type, enabled=False):
            return float(score(self.model, given, torch.ones_like(given)).item())


def write_contract(
    directory: Path,
    pairs: Iterable[Mapping[str, Any]] = (),
    *,
    policy: Policy = "quarantine",
    date: str | None = None,
    formats: Sequence[str] | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Writes the contract of the model in `directory`; the model is loaded from there anew.

    `pairs`: tokenized pairs, of which the first few are taken. `formats`: those that the
    rows had, `standard` or `conversational`; None where nobody knows.

    Raises:
        ModelError: the directory holds no complete reward model.
    """
    scored = _Scored(directory, device)
    reader = RowReader(scored.tokenizer, policy)
    contract = {
        "format": FORMAT,
        "rendering": rendering(scored.tokenizer, policy, date, formats),
        "pooling": POOLING,
        "tolerance": TOLERANCE,
        "probes": [_probe(name, row, reader, scored) for name, row in GOLDEN.items()],
        "pairs": [_pair(pair, scored) for pair, _ in zip(pairs, range(REAL_PAIRS), strict=False)],
    }
    write_json(directory / CONTRACT, contract)
    return contract


def rendering_policy(tokenization: Path) -> dict[str, Any]:
    """`policy`, `date` and `formats` of a tokenization artifact's pairs, as they were rendered."""
    said = read_json(tokenization / RENDERING_FILE) or {}
    policy = said.get("special_tokens_in_text", "quarantine")
    return {"policy": policy, "date": said.get("date"), "formats": said.get("formats")}


def read_contract(directory: Path) -> dict[str, Any]:
    """The contract of a model directory.

    Raises:
        ModelError: there is none, or one that cannot be read or is of another format.
    """
    path = directory / CONTRACT
    if not path.is_file():
        inner = directory / "model"
        if (inner / CONTRACT).is_file():
            raise ModelError(f"{directory} is an artifact of training: its model is in {inner}")
        raise ModelError(
            f"{directory} holds no {CONTRACT}: nobody can tell whether it scores as it was trained "
            "to; train it with this pipeline, or write one with write_contract"
        )
    try:
        return contract_file.read_contract(path)
    except ValueError as error:
        raise ModelError(str(error)) from error


def rendering(
    tokenizer: Any, policy: str, date: str | None, formats: Sequence[str] | None
) -> dict[str, Any]:
    """How rows become ids, as far as the tokenizer's own settings say."""
    template: str | None = tokenizer.chat_template
    return {
        "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
        "date": date,
        "formats": formats and [*formats],
        "special_tokens_in_text": policy,
        "text": CLOSED if own_tokens(tokenizer).closes else TEXT,
        "conversation": "the chat template over prompt + answer as one, nothing added",
        "vocabulary": len(tokenizer),
        **{
            name: [getattr(tokenizer, name), getattr(tokenizer, f"{name}_id")]
            for name in ("bos_token", "eos_token", "pad_token")
        },
    }


def replay(directory: Path, device: str = "cpu") -> list[Verdict]:
    """What the model in `directory` gives for its contract, probe by probe.

    Raises:
        ModelError: there is no contract, or the directory holds no complete reward model.
    """
    contract = read_contract(directory)
    scored = _Scored(directory, device)
    expected = contract["rendering"]
    policy = expected["special_tokens_in_text"]
    now = rendering(scored.tokenizer, policy, expected["date"], expected.get("formats"))
    reader = RowReader(scored.tokenizer, policy)
    limit = float(contract["tolerance"]["float32"])
    verdicts = [Verdict("rendering", difference_of_settings(expected, now))]
    for probe in contract["probes"]:
        found = _probe(probe["name"], probe["row"], reader, scored)
        verdicts.append(Verdict(probe["name"], difference(probe, found, limit)))
    for pair in contract["pairs"]:
        found = _pair(pair, scored)
        verdicts.append(Verdict(f"pair {pair['pair_id']}", difference(pair, found, limit)))
    return verdicts


def _probe(name: str, row: Mapping[str, Any], reader: RowReader, scored: _Scored) -> dict[str, Any]:
    """A golden row as this model reads it."""
    try:
        sides = reader.sides(spelled(row, scored.tokenizer.eos_token))
    except Unusable as refused:
        return {"name": name, "row": row, "refused": refused.reason}
    except TemplateError:
        return {"name": name, "row": row, "refused": "template_error"}
    ids = reader.ids(sides, standard=row["format"] == "standard")
    return {
        "name": name,
        "row": row,
        "texts": [side.text for side in sides],
        "literals": [list(side.literals) for side in sides],
        "ids": [side.tolist() for side in ids],
        "rewards": [scored.reward(side.tolist()) for side in ids],
    }


def _pair(pair: Mapping[str, Any], scored: _Scored) -> dict[str, Any]:
    ids = pair.get("ids") or [list(map(int, pair[f"{side}_input_ids"])) for side in SIDES]
    rewards = [scored.reward(side) for side in ids]
    return {"pair_id": str(pair.get("pair_id")), "ids": ids, "rewards": rewards}
