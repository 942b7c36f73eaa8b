"""MLflow's experiment that the runs of a root are in, with its artifacts beside the registry.

mlruns/mlflow.db  mlruns/artifacts/     the place is written down in the database as it was when
                                        the experiment was made: moved or copied, it is another
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import RegistrationError
from tasks.registration.address import database_path, is_of_another, store_uri
from tasks.registration.params import RegistrationParams

if TYPE_CHECKING:
    from mlflow import MlflowClient


class StoredExperiment(NamedTuple):
    """What the store holds of an experiment."""

    id: str
    stage: str
    """`active`, or `deleted`."""
    artifacts: str
    """Where its artifacts are kept."""


def experiment_for(client: "MlflowClient", params: RegistrationParams, root: Path) -> str:
    """The id of the experiment, made if there is none.

    Raises:
        RegistrationError: it was deleted, or keeps its artifacts where nothing is any more, or
            where those of the registry are that this one was copied from.
    """
    database = database_path(store_uri(params, root))
    found = client.get_experiment_by_name(params.experiment_name)
    if found is None:
        location = artifact_location(database)
        return client.create_experiment(params.experiment_name, artifact_location=location)
    stored = StoredExperiment(found.experiment_id, found.lifecycle_stage, found.artifact_location)
    check_experiment(params.experiment_name, stored, database)
    return found.experiment_id


def check_experiment(name: str, found: StoredExperiment, database: Path | None) -> None:
    """Refuses an experiment that no run can be put into; `database`: SQLite's, which it is in.

    Raises:
        RegistrationError: as `experiment_for`.
    """
    if found.stage != "active":
        raise RegistrationError(
            f"experiment {name!r} was deleted in MLflow; restore it (`mlflow experiments restore "
            f"-x {found.id}`) or set registration.experiment_name"
        )
    kept, location = found.artifacts, artifact_location(database)
    if location and kept != location and kept.startswith("/") and not Path(kept).exists():
        raise RegistrationError(
            f"experiment {name!r} keeps its artifacts in {kept}, which does not "
            f"exist; expected {location}. The directory was moved: move it back, or set "
            "registration.experiment_name and registration.model_name to new names"
        )
    if database and is_of_another(Path(kept), database):
        raise RegistrationError(
            f"experiment {name!r} keeps its artifacts in {kept}, which belong to "
            f"the registry beside them; this one, {database}, is a copy of that: set "
            "registration.experiment_name and registration.model_name to new names, and all is "
            "kept here"
        )


def artifact_location(database: Path | None) -> str | None:
    """Where a SQLite store keeps artifacts: beside it. A server knows its own place."""
    return str(database.parent / "artifacts") if database else None
