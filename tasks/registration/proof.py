"""The downloaded version is what was trained: the same bytes, and the same rewards to the bit."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact, file_digest
from tasks.errors import RegistrationError
from tasks.evaluation.score import RewardScorer, score_pairs, split_files
from tasks.registration.package import carried_files
from tasks.training.contract import CONTRACT, replay

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

ELSEWHERE_TOLERANCE = 1e-3
"""Largest difference of rewards, relative to their size, between two machines or devices."""


def download(client: "MlflowClient", version: "ModelVersion", destination: Path) -> Path:
    """A fresh copy of a version's files."""
    from mlflow.artifacts import download_artifacts

    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    uri = client.tracking_uri
    model_uri = f"models:/{version.name}/{version.version}"
    copy = download_artifacts(
        model_uri, dst_path=str(destination), tracking_uri=uri, registry_uri=uri
    )
    return Path(copy)


def prove(
    downloaded: Path, training: Artifact, evaluation: Artifact, tokenization: Artifact
) -> str:
    """How the downloaded model was found to be the trained one, in a few words.

    Raises:
        RegistrationError: a file differs, or a reward does.
    """
    model = training.path / "model"
    _compare_files(downloaded, model)
    _replay_contract(downloaded)
    how = evaluation.report["scoring"]
    files = split_files(tokenization.path)

    def scored(directory: Path) -> pa.Table:
        scorer = RewardScorer(directory, batch_size=how["batch_size"], device=how["device"])
        return score_pairs(scorer, files)

    expected = pq.read_table(evaluation.path / "scores.parquet")
    found = scored(downloaded)
    if _difference(expected, found) == 0.0:
        return f"identical rewards for {len(found)} pairs after download"
    # Other threads or another device add up in another order: the trained model decides, here.
    here = scored(model)
    if _difference(here, found) == 0.0 and (gap := _difference(expected, found)) < _limit(expected):
        return (
            f"identical rewards for {len(found)} pairs after download; the evaluation ran with "
            f"other threads or on another device and differs by {gap:.1e}"
        )
    raise RegistrationError(_complaint(expected, found))


def _replay_contract(downloaded: Path) -> None:
    """Holds the version against the contract that it carries; `_compare_files` saw to its bytes."""
    if not (downloaded / CONTRACT).is_file():
        return
    broken = [f"{v.probe}: {v.difference}" for v in replay(downloaded) if v.difference]
    if broken:
        raise RegistrationError(
            f"the downloaded version breaks its score contract in {len(broken)} probes, first in "
            f"{broken[0]}; it gets no alias. Run reward-pipeline verify-model on it to see all"
        )


def _compare_files(downloaded: Path, model: Path) -> None:
    for name in carried_files(model):
        copy = downloaded / name
        if not copy.is_file() or file_digest(copy) != file_digest(model / name):
            state = "differs from the trained one" if copy.is_file() else "is missing"
            raise RegistrationError(
                f"{name} of the downloaded version {state}, expected the bytes of {model / name}; "
                "it gets no alias. Run again: the files are uploaded anew"
            )


def _rewards(table: pa.Table) -> np.ndarray:
    return np.stack([table["reward_chosen"].to_numpy(), table["reward_rejected"].to_numpy()])


def _difference(first: pa.Table, second: pa.Table) -> float:
    """Largest difference of two tables' rewards; infinite where their pairs differ."""
    if not first["pair_id"].equals(second["pair_id"]):
        return float("inf")
    return float(np.abs(_rewards(first) - _rewards(second)).max())


def _limit(expected: pa.Table) -> float:
    return ELSEWHERE_TOLERANCE * max(1.0, float(np.abs(_rewards(expected)).max()))


def _complaint(expected: pa.Table, found: pa.Table) -> str:
    if not expected["pair_id"].equals(found["pair_id"]):
        return "the evaluation scored other pairs than the held-out split holds; run evaluation"
    gaps = np.abs(_rewards(expected) - _rewards(found)).max(axis=0)
    row = int(gaps.argmax())
    return (
        f"the downloaded version does not score as the trained model did: pair "
        f"{expected['pair_id'][row].as_py()} got {found['reward_chosen'][row].as_py()} and "
        f"{found['reward_rejected'][row].as_py()}, expected "
        f"{expected['reward_chosen'][row].as_py()} and {expected['reward_rejected'][row].as_py()} "
        f"({int((gaps > 0).sum())} of {len(gaps)} pairs differ); it gets no alias"
    )
