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
from tasks.registration.quiet import quietly
from tasks.registration.registry import prepare_environment
from tasks.registration.tracking import client_for

if TYPE_CHECKING:
    from mlflow import MlflowClient


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
    noisy = logging.getLogger("mlflow.store.db.utils")  # tells the same with two tracebacks
    level = noisy.level
    noisy.setLevel(logging.CRITICAL)
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        said = str(getattr(error, "orig", None) or error).partition("\n[SQL: ")[0]
        said = said.partition("\n(Background on")[0].strip()
        raise RegistrationError(
            redacted(f"MLflow's store {store_uri(params, root)} refuses: {said}")
            + "; see that it is there, runs and can be written, or name another "
            "(registration.tracking_uri, --tracking-uri). What a run has computed is kept"
        ) from error
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, shutil.Error) as error:
        raise RegistrationError(
            redacted(f"the files of MLflow's store {store_uri(params, root)} are damaged: {error}")
            + "; remove what that names, and run again: what is missing is written anew"
        ) from error
    finally:
        noisy.setLevel(level)


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
