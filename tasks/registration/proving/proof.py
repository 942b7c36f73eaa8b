"""The downloaded version is what was trained: the same bytes, and the same rewards to the bit."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import file_digest
from tasks.errors import RegistrationError, VersionError
from tasks.evaluation.scoring.score import RewardScorer, score_pairs
from tasks.evaluation.scoring.windows import split_files
from tasks.registration.proving.clean_process import ask, score_in_clean_process
from tasks.registration.proving.download import check_registered, download, named
from tasks.registration.proving.package import carried_files
from tasks.registration.registry import ARTIFACT_DIGEST
from tasks.registration.subject import Subject
from tasks.training.handover.contract import CONTRACT, replay

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

ELSEWHERE_TOLERANCE = 1e-3
"""Largest difference of rewards, relative to their size, between two machines or devices."""
HERE_TOLERANCE = 1e-5
"""The same between two batches on one device: long sequences are batched by tokens when serving."""


@dataclass(frozen=True)
class Proof:
    """How a downloaded model was found to be the trained one, in a few words."""

    sentence: str
    golden: int | None
    """Golden sequences of the score contract that came out as in training; None: no contract."""


def prove(downloaded: Path, subject: Subject) -> Proof:
    """Scores the held-out pairs with the downloaded version, in a clean process.

    Raises:
        VersionError: a file differs, or a reward does.
        RegistrationError: it could not be asked, or the evaluation is of other pairs.
    """
    _compare_files(downloaded, subject.model)
    _replay_contract(downloaded)
    how = subject.evaluation.report["scoring"]
    files = split_files(subject.tokenization.path)
    expected = pq.read_table(subject.evaluation.path / "scores.parquet")
    found, golden = score_in_clean_process(
        downloaded, files, how["batch_size"], how["device"], subject.scratch
    )
    if not found["pair_id"].equals(expected["pair_id"]):
        raise RegistrationError(
            f"the evaluation {subject.evaluation.key} scored {len(expected)} pairs, and the "
            f"held-out split of {subject.tokenization.path} holds {len(found)}, which are not the "
            "same ones; run evaluation on that"
        )
    if (gap := _difference(expected, found)) == 0.0:
        return Proof(f"identical rewards for {len(found)} pairs after download", golden)
    # Other threads or another device add up in another order: the trained model decides, here.
    scorer = RewardScorer(subject.model, batch_size=how["batch_size"], device=how["device"])
    here = _difference(score_pairs(scorer, files), found)
    if here < _limit(expected, HERE_TOLERANCE) and gap < _limit(expected, ELSEWHERE_TOLERANCE):
        return Proof(
            f"rewards for {len(found)} pairs after download differ by {here:.1e} from the trained "
            f"model's here, and by {gap:.1e} from the evaluation's",
            golden,
        )
    raise VersionError(_complaint(expected, found))


def prove_again(client: "MlflowClient", version: "ModelVersion", scratch: Path) -> Proof:
    """The same of a version whose training need not be at hand: its files and its contract.

    Raises:
        RegistrationError: its files are others than were registered, or it breaks its contract.
    """
    what = named(version)
    downloaded = download(client, version, scratch / "downloaded")
    if ARTIFACT_DIGEST not in version.tags:
        raise RegistrationError(
            f"{what} was not registered by this pipeline: no tag {ARTIFACT_DIGEST!r} says what its "
            "files should be; run the pipeline, and promote what it registers"
        )
    check_registered(version, downloaded)
    golden = ask(downloaded, (), None, scratch).golden
    if golden is None:
        raise RegistrationError(f"{what} has no score contract: nothing says what it should answer")
    return Proof(f"the registered files; {golden} golden sequences as in training", golden)


def _replay_contract(downloaded: Path) -> None:
    """Holds the version against the contract that it carries; `_compare_files` saw to its bytes."""
    if not (downloaded / CONTRACT).is_file():
        return
    broken = [f"{v.probe}: {v.difference}" for v in replay(downloaded) if v.difference]
    if broken:
        raise VersionError(
            f"the downloaded version breaks its score contract in {len(broken)} probes, first in "
            f"{broken[0]}; it gets no alias. Run reward-pipeline verify-model on it to see all"
        )


def _compare_files(downloaded: Path, model: Path) -> None:
    for name in carried_files(model):
        copy = downloaded / name
        if not copy.is_file() or file_digest(copy) != file_digest(model / name):
            state = "differs from the trained one" if copy.is_file() else "is missing"
            raise VersionError(
                f"{name} of the downloaded version {state}, expected the bytes of {model / name}; "
                "it gets no alias. Run again: the files are uploaded anew"
            )


def _rewards(table: pa.Table) -> np.ndarray:
    return np.stack([table["reward_chosen"].to_numpy(), table["reward_rejected"].to_numpy()])


def _difference(first: pa.Table, second: pa.Table) -> float:
    """Largest difference of two tables' rewards of the same pairs."""
    return float(np.abs(_rewards(first) - _rewards(second)).max())


def _limit(expected: pa.Table, tolerance: float) -> float:
    return tolerance * max(1.0, float(np.abs(_rewards(expected)).max()))


def _complaint(expected: pa.Table, found: pa.Table) -> str:
    gaps = np.abs(_rewards(expected) - _rewards(found)).max(axis=0)
    row = int(gaps.argmax())
    return (
        f"the downloaded version does not score as the trained model did: pair "
        f"{expected['pair_id'][row].as_py()} got {found['reward_chosen'][row].as_py()} and "
        f"{found['reward_rejected'][row].as_py()}, expected "
        f"{expected['reward_chosen'][row].as_py()} and {expected['reward_rejected'][row].as_py()} "
        f"({int((gaps > 0).sum())} of {len(gaps)} pairs differ); it gets no alias"
    )
