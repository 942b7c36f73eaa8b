"""Where MLflow's store is, as params say it: a server's address, or a database below the root."""

import re
from pathlib import Path

from tasks.errors import ParamsError
from tasks.registration.params import RegistrationParams

SQLITE = "sqlite:///"
PART_OF_AN_ADDRESS = re.compile(r"[?#]|%[0-9A-Fa-f]{2}")
"""What no path of MLflow's database or files may hold: it would be cut there, or decoded."""


def store_uri(params: RegistrationParams, root: Path) -> str:
    """The address of MLflow's store; a relative path of SQLite's is one below the root."""
    return address_of(params.tracking_uri, root)


def address_of(told: str | None, root: Path) -> str:
    """The same of an address as params or a record tell it; None is the database of the root."""
    if told and not told.startswith(SQLITE):
        return told
    path = told.removeprefix(SQLITE) if told else "mlruns/mlflow.db"
    return f"{SQLITE}{root.resolve() / path}"


def check_store(params: RegistrationParams, root: Path) -> None:
    """Refuses, before any work, a database whose path MLflow would read as an address: it would
    write beside it, and look for its files in vain.

    Raises:
        ParamsError: names the path and what stands in it.
    """
    database = database_path(store_uri(params, root))
    if database is not None and (found := PART_OF_AN_ADDRESS.search(str(database))):
        raise ParamsError(
            f"MLflow's database {database} has {found[0]!r} in its path, which MLflow takes for a "
            "part of an address, and would write elsewhere; give another --root, or a "
            "registration.tracking_uri whose path has none"
        )


def database_path(uri: str) -> Path | None:
    """The file of a SQLite store, or None for any other."""
    return Path(uri.removeprefix(SQLITE)).resolve() if uri.startswith(SQLITE) else None


def store_directory(params: RegistrationParams, root: Path) -> Path:
    """The directory on this machine that locks of the store stand below: a database's own, or
    `mlruns` of the root where the store is a server."""
    database = database_path(store_uri(params, root))
    return database.parent if database else root / "mlruns"


def is_of_another(place: Path, database: Path) -> bool:
    """Whether files stand below another registry, as those do that a copied database names: of the
    directories above them, the first with a database of that name is another one's."""
    beside = next((p / database.name for p in place.parents if (p / database.name).is_file()), None)
    return beside is not None and not beside.samefile(database)
