"""The score contract, held against a model that was just loaded: `reward_contract.json`.

In: the golden rows with their token ids and float32 rewards as training wrote them. Out: nothing,
or an error that names the first row that comes out otherwise. Rows that training refused, or whose
text holds special tokens taken as text, are checked by their ids alone.
Travels inside the registered model: it must not import any other part of the project.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

FILE, FORMAT = "reward_contract.json", 1
SIDES = ("chosen", "rejected")

Golden = tuple[str, Any, list[int], float]
"""Name, row (None: only its ids are checked), ids, reward."""


class Scorer(Protocol):
    """What replaying needs of a model."""

    def token_ids(self, row: Any) -> list[int]: ...
    def rewards_of_ids(self, sequences: Any) -> np.ndarray: ...


def replay(model: Scorer, directory: Path) -> int | None:
    """How many golden sequences came out as in training; None where there is no contract.

    Raises:
        ValueError: one does not, or the contract is of another format.
    """
    path = directory / FILE
    if not path.is_file():
        return None
    contract = json.loads(path.read_bytes())
    if contract.get("format") != FORMAT:
        raise ValueError(f"{path} has format {contract.get('format')!r}, expected {FORMAT}")
    golden = list(_golden(contract))
    for name, row, ids, _ in golden:
        if row is not None and list(model.token_ids(row)) != ids:
            raise ValueError(
                f"{path}: {name} has other token ids here than in training; the template, the "
                "tokenizer or its library differs. Download the version again, and install "
                "what its requirements.txt says"
            )
    found = model.rewards_of_ids([ids for _, _, ids, _ in golden])
    limit = float(contract["tolerance"]["float32"])
    for (name, _, _, expected), reward in zip(golden, found.tolist(), strict=True):
        if not abs(reward - expected) <= limit * max(1.0, abs(expected)):
            raise ValueError(
                f"{path}: {name} got reward {reward:.6g}, in training {expected:.6g} (allowed: "
                f"{limit:g}); the weights or the libraries differ: download the version again"
            )
    return len(golden)


def _golden(contract: Mapping[str, Any]) -> Iterator[Golden]:
    for pair in contract["pairs"]:
        for side, ids, reward in zip(SIDES, pair["ids"], pair["rewards"], strict=True):
            yield f"{side} of pair {pair['pair_id']}", None, ids, reward
    for probe in contract["probes"]:
        if "refused" in probe:
            continue
        for number, side in enumerate(SIDES):
            plain = not probe["literals"][number]
            row = _row(probe["row"], side, contract["rendering"]) if plain else None
            name = f"{side} of probe {probe['name']!r}"
            yield name, row, probe["ids"][number], probe["rewards"][number]


def _row(row: Mapping[str, Any], side: str, rendering: Mapping[str, Any]) -> Any:
    """One side of a golden row as the loader takes it."""
    end = json.dumps(rendering["eos_token"][0] or "")[1:-1]
    given = {k: v.replace("{EOS}", end) if isinstance(v, str) else v for k, v in row.items()}
    prompt = json.loads(given["prompt"] or "null")
    answer = json.loads(given[side])
    if isinstance(answer, str):
        return (prompt or "") + answer
    options = {name: given.get(name) for name in ("tools", "chat_template_kwargs")}
    return {"messages": [*(prompt or []), *answer], **options}
