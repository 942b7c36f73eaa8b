"""What was decided of a version, where people and programs look for it.

    registration/report.html           the evaluation's page, with the decision at its top
    registration/decision.json         outcome, reason, bounds, how it stands beside the champion
    registration/champion_scale.json   the maps that carry its rewards to the champion's scale

The same directory lies in the MLflow run and in the version's own files; the page lies in the
receipt's artifact, too. It is written before the version is tagged or gets an alias: no champion
stands without it, and an attempt that is cut short writes it again.
"""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact import part_digest
from tasks.conversion.preference.splits import SPLITS
from tasks.evaluation.report import report_of
from tasks.registration.aliases.judgement import Judgement
from tasks.registration.facts import stage_keys
from tasks.registration.loader import champion_scale
from tasks.registration.loader.champion_scale import PLACE, ChampionScale
from tasks.registration.logged_model import model_of
from tasks.registration.registry import ARTIFACT_DIGEST
from tasks.registration.subject import Subject

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

REPORT, DECISION = "report.html", "decision.json"
SCALE = "scale."
"""Tags of a version that tell of its map to the champion's scale begin so."""


def publish(
    client: "MlflowClient",
    version: "ModelVersion",
    run_id: str,
    subject: Subject,
    judgement: Judgement,
) -> None:
    """Puts the directory into the run and into the version's files."""
    home = subject.scratch / PLACE
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    decision = judgement.decision.to_json()
    told = {"name": version.name, "version": int(version.version), **decision}
    told |= {"against_champion": judgement.against}
    (home / DECISION).write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", "utf-8")
    if judgement.scale:
        champion_scale.write(judgement.scale, home)
    page = report_of(
        subject.evaluation.path,
        decision=decision,
        against=judgement.against,
        links=links_of(client, version, run_id),
        provenance=provenance_of(version, run_id, subject),
    )
    (home / REPORT).write_text(page, "utf-8")
    client.log_artifacts(run_id, str(home), PLACE)
    client.log_model_artifacts(model_of(version), str(home), PLACE)


def published(client: "MlflowClient", run_id: str, scratch: Path) -> Path | None:
    """A copy of the run's directory; None where an older registration left none."""
    if PLACE not in {entry.path for entry in client.list_artifacts(run_id)}:
        return None
    destination = scratch / "published"
    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    from mlflow.exceptions import MlflowException

    try:
        return Path(client.download_artifacts(run_id, PLACE, str(destination)))
    except MlflowException as error:  # which lets go of its cause
        files = client.list_artifacts(run_id, PLACE)
        if shutil.disk_usage(destination).free < sum(entry.file_size or 0 for entry in files):
            full = errno.ENOSPC
            raise OSError(full, os.strerror(full), str(destination)) from error
        raise


def links_of(client: "MlflowClient", version: "ModelVersion", run_id: str) -> list[tuple[str, str]]:
    """`(text, address)` of run and version: pages of a server, else what MLflow's client takes."""
    what = f"version {version.version} of {version.name}"
    base = client.tracking_uri.rstrip("/")
    if not base.startswith(("http://", "https://")):
        model = f"models:/{version.name}/{version.version}"
        return [("MLflow run", f"runs:/{run_id}"), (what, model)]
    experiment = client.get_run(run_id).info.experiment_id
    return [
        ("MLflow run", f"{base}/#/experiments/{experiment}/runs/{run_id}"),
        (what, f"{base}/#/models/{version.name}/versions/{version.version}"),
    ]


def provenance_of(version: "ModelVersion", run_id: str, subject: Subject) -> dict[str, Any]:
    """From what the version was made, and with what."""
    training, tokenization = subject.training, subject.tokenization
    libraries = training.record["libraries"] | subject.evaluation.record["libraries"]
    return {
        "Version": {
            "model": version.name,
            "version": int(version.version),
            "run": run_id,
            ARTIFACT_DIGEST: subject.digest,
        },
        "Stages": stage_keys(training, subject.evaluation, tokenization),
        "Code and libraries": {"git commit": training.record.get("git_commit"), **libraries},
        "Reproduction": training.report["determinism"],
        "Digests of the pairs": {s: part_digest(tokenization, s) for s in SPLITS},
    }


def scale_tags(scale: ChampionScale | None) -> dict[str, str]:
    """What the registry's list shows of the map to the champion's scale."""
    if scale is None:
        return {}
    tags = {"kendall_tau": scale.kendall_tau, "why": scale.why or None}
    for name in ("champion", "reference"):
        if way := getattr(scale, name):
            told = f"{way.slope:.6g} * reward + {way.intercept:.6g} is on version {way.version}'s"
            tags[name] = told
    return {
        f"{SCALE}{n}": f"{v:.4f}" if n == "kendall_tau" else str(v)
        for n, v in tags.items()
        if v is not None
    }
