"""A disk that fills up amid a registration is told as what it is."""

import errno
import os
import shutil

import pytest

from tasks.registration.proving.package import package
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
