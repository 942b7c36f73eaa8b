"""A disk that fills up amid a registration is told as what it is."""

import errno
import os
import resource
import shutil
import sqlite3
from contextlib import closing

import pytest
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from tasks.registration.proving.package import package
from tasks.registration.tracking import make_database
from tests.evaluation.pieces import write_reward_model


def test_a_disk_that_fills_up_as_mlflow_copies_is_not_blamed_on_the_files(
    tiny_model_directory, tmp_path, monkeypatch
):
    write_reward_model(tiny_model_directory, tmp_path / "model", 0)
    copy = shutil.copy

    def full(src, dst):
        if "/package/code" in str(dst):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(dst))
        return copy(src, dst)

    monkeypatch.setattr(shutil, "copy", full)
    with pytest.raises(OSError, match="No space left on device") as told:
        package(tmp_path / "model", tmp_path / "package")
    assert told.value.errno == errno.ENOSPC


def test_a_database_whose_making_failed_is_made_by_the_same_process_later(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # as a disk that has no more
    try:
        with pytest.raises((MlflowException, SQLAlchemyError)):
            make_database(tmp_path / "mlflow.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "mlflow.db").exists()
    make_database(tmp_path / "mlflow.db")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as made:
        tables = {name for (name,) in made.execute("SELECT name FROM sqlite_master")}
    assert {"experiments", "registered_models"} <= tables
    assert [path.name for path in tmp_path.glob("mlflow.db*")] == ["mlflow.db"]
