"""The score contract (`reward_contract.json`), checked against a model that was just loaded.

In: the golden rows with their token ids and float32 rewards as training wrote them. Out: nothing,
or an error that names the first row that comes out otherwise. Rows that training refused for a
special token in their words must be refused again.
Travels inside the registered model: it may import only modules that travel with it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.handover.contract_file import CONTRACT, SIDES, read_contract, spelled

REFUSED = "special_token_in_text"

Golden = tuple[str, Any, list[int], float]
"""Name, row (None: a pair, of which there are ids alone), ids, reward."""


class Scorer(Protocol):
    """What replaying needs of a model."""

    def token_ids(self, row: Any) -> list[int]: ...
    def rewards_of_ids(self, sequences: Any) -> np.ndarray: ...


def replay(model: Scorer, directory: Path) -> int | None:
    """How many golden sequences came out as in training; None where there is no contract.

    Raises:
        ValueError: one does not, or the contract is of another format.
    """
    path = directory / CONTRACT
    if not path.is_file():
        return None
    contract = read_contract(path)
    golden = list(golden_of(contract))
    for name, row, ids, _ in golden:
        if row is not None and _ids(model, path, name, row) != ids:
            raise ValueError(
                f"{path}: {name} has other token ids here than in training; the template, the "
                "tokenizer or its library differs. Download the version again, and install "
                "what its requirements.txt says"
            )
    for probe in contract["probes"]:
        if probe.get("refused") == REFUSED:
            _check_refused(model, path, probe, contract["rendering"])
    rewards = model.rewards_of_ids([ids for _, _, ids, _ in golden])
    limit = float(contract["tolerance"]["float32"])
    for (name, _, _, expected), reward in zip(golden, rewards.tolist(), strict=True):
        if not abs(reward - expected) <= limit * max(1.0, abs(expected)):
            raise ValueError(
                f"{path}: {name} got reward {reward:.6g}, in training {expected:.6g} (allowed: "
                f"{limit:g}); the weights or the libraries differ: download the version again"
            )
    return len(golden)


def policy_of(directory: Path) -> Policy:
    """What a special token in a row's words becomes; `keep` where no contract says it.

    Raises:
        ValueError: the contract is of another format.
    """
    rendering = _rendering(directory)
    return "keep" if rendering is None else rendering["special_tokens_in_text"]


def formats_of(directory: Path) -> tuple[str, ...]:
    """The formats of training's rows: `standard` (text), `conversational`, or both; empty where no
    contract says it.

    Raises:
        ValueError: the contract is of another format.
    """
    return tuple((_rendering(directory) or {}).get("formats") or ())


def _rendering(directory: Path) -> Mapping[str, Any] | None:
    """How training made text of its rows; None without a contract."""
    path = directory / CONTRACT
    return read_contract(path)["rendering"] if path.is_file() else None


def _ids(model: Scorer, path: Path, name: str, row: Any) -> list[int]:
    try:
        return list(model.token_ids(row))
    except Exception as error:  # of whatever class a template raises
        raise ValueError(
            f"{path}: {name} cannot be read here ({type(error).__name__}: {error}); the template "
            "or the tokenizer is damaged, or of another model: download the version again"
        ) from error


def _check_refused(
    model: Scorer, path: Path, probe: Mapping[str, Any], rendering: Mapping[str, Any]
) -> None:
    """Raises ValueError unless the model refuses a side of a probe that training refused."""
    try:
        for side in SIDES:
            model.token_ids(_row(probe["row"], side, rendering))
    except ValueError:
        return
    raise ValueError(
        f"{path}: probe {probe['name']!r} was refused in training for a special token in its "
        "words, and is read here; the tokenizer or its library differs"
    )


def golden_of(contract: Mapping[str, Any]) -> Iterator[Golden]:
    """Every golden sequence of a contract."""
    for pair in contract["pairs"]:
        for side, ids, reward in zip(SIDES, pair["ids"], pair["rewards"], strict=True):
            yield f"{side} of pair {pair['pair_id']}", None, ids, reward
    for probe in contract["probes"]:
        if "refused" in probe:
            continue
        for number, side in enumerate(SIDES):
            row = _row(probe["row"], side, contract["rendering"])
            name = f"{side} of probe {probe['name']!r}"
            yield name, row, probe["ids"][number], probe["rewards"][number]


def _row(row: Mapping[str, Any], side: str, rendering: Mapping[str, Any]) -> Any:
    """One side of a golden row as the loader takes it."""
    fields = spelled(row, rendering["eos_token"][0])
    prompt = json.loads(fields["prompt"] or "null")
    answer = json.loads(fields[side])
    if isinstance(answer, str):
        return (prompt or "") + answer
    options = {name: fields.get(name) for name in ("tools", "chat_template_kwargs")}
    return {"messages": [*(prompt or []), *answer], **options}
