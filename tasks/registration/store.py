"""MLflow's store as commands and stages meet it: it is there and answers, or one sentence says why.

A server that is down, an address of a kind that MLflow does not know, a file that is no database, a
database that cannot be written: each ends in an error with the store's address and MLflow's reason.
"""

import logging
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.ingestion.redaction import redacted
from tasks.registration.address import database_path, store_uri
from tasks.registration.params import RegistrationParams
from tasks.registration.quiet import prepare_environment, quietly
from tasks.registration.tracking import client_for
from tasks.registration.usable import refusal

if TYPE_CHECKING:
    from mlflow import MlflowClient

CLOUDS = ("boto3", "botocore", "azure", "google")
"""The libraries by which MLflow reaches files in a cloud; their errors are none of MLflow's."""


@contextmanager
def refusals_told(params: RegistrationParams, root: Path) -> Generator[None, None, None]:
    """Inside, what MLflow or its database refuses, or its files lack, is an error of ours.

    Raises:
        RegistrationError: names the store and says what was refused, or is damaged.
    """
    prepare_environment()
    with quietly():
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    # they tell the same with two tracebacks, and of every attempt
    noisy = [logging.getLogger(n) for n in ("mlflow.store.db.utils", "urllib3.connectionpool")]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        raise _refused(params, root, error) from error
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, shutil.Error) as error:
        raise RegistrationError(
            redacted(f"the files of MLflow's store {store_uri(params, root)} are damaged: {error}")
            + "; remove what that names, and run again: what is missing is written anew"
        ) from error
    except Exception as error:
        if not is_of_a_cloud(error):
            raise
        raise _refused(params, root, error) from error
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


def is_of_a_cloud(error: BaseException) -> bool:
    """Whether a cloud's library raised it, or is missing: the cloud is away, or refuses."""
    module = error.name if isinstance(error, ImportError) else type(error).__module__
    return (module or "").partition(".")[0] in CLOUDS


def _refused(params: RegistrationParams, root: Path, error: Exception) -> RegistrationError:
    said = refusal(store_uri(params, root), _reason(error))
    return RegistrationError(f"{said}. What a run has computed is kept")


def _reason(error: BaseException) -> str:
    """What was refused, without the statement of SQL; of a server that is away, without the names
    of the exceptions around what the network said."""
    said = str(getattr(error, "orig", None) or error).partition("\n[SQL: ")[0]
    said = said.partition("\n(Background on")[0].strip()
    before, nested, _ = said.partition(" failed with exc")
    inner = error.__cause__ or error.__context__
    if inner is None or not nested:
        return said
    while deeper := inner.__cause__ or inner.__context__:
        inner = deeper
    return f"{before} failed: {inner}"


def client_of_existing(params: RegistrationParams, root: Path) -> "MlflowClient":
    """A client of a store that is there: asking for a model makes no database.

    Raises:
        RegistrationError: there is none.
    """
    database = database_path(store_uri(params, root))
    if database is not None and not database.is_file():
        raise RegistrationError(
            f"{database} does not exist: no model is registered below {root.resolve()}; give "
            "--root or --tracking-uri"
        )
    return client_for(params, root)
