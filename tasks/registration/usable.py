"""Whether MLflow's store can take what a run is to register, found out before the run's work.

A database file is looked at, and a server asked whether it is there, without MLflow, whose import
alone takes seconds. What this cannot know is refused at registration, in the same words.
"""

import os
import sqlite3
from pathlib import Path

from tasks.errors import RegistrationError
from tasks.ingestion.redaction import redacted
from tasks.registration.address import database_path, store_uri
from tasks.registration.experiment import StoredExperiment, check_experiment
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import reading

EXPERIMENT_QUERY = """
SELECT experiment_id, lifecycle_stage, artifact_location FROM experiments WHERE name = ?
"""
HEALTH_SECONDS = 10
PORTS = {"postgresql": 5432, "mysql": 3306}
"""Kinds of database servers (`postgresql+psycopg2://`) -> their usual port."""

ADVICE = {
    "database is locked": "another program has been writing to it, or keeps it open: let that end, "
    "and run again",
    "database or disk is full": "make room there, and run again",
}
"""What SQLite says -> what to do."""
USUAL_ADVICE = (
    "see that it is there, runs and can be written, or name another (registration.tracking_uri, "
    "--tracking-uri)"
)


def check_usable(params: RegistrationParams, root: Path) -> None:
    """Refuses a store that is not there, cannot be written, or is another's copy.

    Raises:
        RegistrationError: names the store, says why, and what to do.
    """
    uri = store_uri(params, root)
    database = database_path(uri)
    try:
        said = _not_writable(database) if database else _no_server(uri)
        if database and database.is_file() and not said:
            said = _files_refuse(params.experiment_name, database)
    except sqlite3.DatabaseError as error:
        said = str(error)
    if said:
        raise RegistrationError(f"{refusal(uri, said)}, or stop before it with --until evaluation")


def refusal(uri: str, said: str) -> str:
    """The sentence of a store that refuses, and what to do."""
    advice = next((advice for words, advice in ADVICE.items() if words in said), USUAL_ADVICE)
    return redacted(f"MLflow's store {uri} refuses: {said}") + f"; {advice}"


def _not_writable(database: Path) -> str:
    """Why a database cannot be written, or made where there is none; empty if it can be."""
    directory = next(place for place in database.parents if place.exists())
    if not directory.is_dir():
        return f"{directory} is no directory"
    return _first_not_writable(*([database, directory] if database.exists() else [directory]))


def _first_not_writable(*places: Path) -> str:
    refusing = (place for place in places if not os.access(place, os.W_OK))
    return next((f"{place} cannot be written" for place in refusing), "")


def _files_refuse(name: str, database: Path) -> str:
    """Why the files of an experiment cannot be written; empty if they can be, or it is not there.

    Raises:
        RegistrationError: no run can be put into it.
    """
    with reading(database) as store:
        try:
            found = store.execute(EXPERIMENT_QUERY, (name,)).fetchone()
        except sqlite3.OperationalError:  # it is busy, or has no tables yet: MLflow makes them
            return ""
    if found is None:
        return ""
    stored = StoredExperiment(*map(str, found))
    check_experiment(name, stored, database)
    home = Path(stored.artifacts.removeprefix("file://"))
    return _first_not_writable(*(place for place in (home, home / "models") if place.is_dir()))


def _no_server(uri: str) -> str:
    """Why no server answers at an address, or empty: whatever answers is one, and one whose
    certificate MLflow may be told to trust is there."""
    if not uri.startswith(("http://", "https://")):
        return _no_database_server(uri)
    import ssl
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        urlopen(f"{uri.rstrip('/')}/health", timeout=HEALTH_SECONDS).close()
    except HTTPError:
        return ""
    except URLError as error:
        return "" if isinstance(error.reason, ssl.SSLError) else f"no answer: {error.reason}"
    except (OSError, HTTPException) as error:
        return f"no answer: {error or type(error).__name__}"
    return ""


def _no_database_server(uri: str) -> str:
    """Why nothing listens where a database server should, or empty: also for an address that the
    driver alone understands (a socket's file, as MySQL's `localhost` is; several hosts)."""
    import socket
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(uri)
        kind, host, given = parts.scheme.partition("+")[0], parts.hostname, parts.port
    except ValueError:
        return ""
    of_a_file = not host or "host=" in parts.query or (kind, host) == ("mysql", "localhost")
    if of_a_file or kind not in PORTS:
        return ""
    try:
        socket.create_connection((host, given or PORTS[kind]), timeout=HEALTH_SECONDS).close()
    except OSError as error:
        return f"no answer: {error}"
    return ""
