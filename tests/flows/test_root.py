"""The root that a command is given: refused, before any work, where nothing can be done with it."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from flows.console import usable_root
from tasks.errors import ParamsError


@pytest.fixture
def open_directory():
    """All may go there, as they may not below pytest's own; and this process is not root."""
    before = os.geteuid()
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        for name in ("data", "mlruns"):
            (Path(directory) / name).mkdir()
        yield Path(directory).resolve()
        os.seteuid(before)


@pytest.mark.parametrize("name", ["data", "mlruns"])
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_store_that_is_closed_to_this_user_is_refused_by_its_place(open_directory, name, mode):
    place = open_directory / name
    place.chmod(mode)
    if os.geteuid() == 0:
        os.seteuid(65534)  # nobody; root may read everything
    with pytest.raises(ParamsError, match=f"user id {os.geteuid()} may not read {place}; have its"):
        usable_root(open_directory)
    os.seteuid(os.getuid())
    place.chmod(0o755)
    assert usable_root(open_directory) == open_directory


def test_a_file_in_the_place_of_the_store_is_told_once(tmp_path):
    (tmp_path / "data").write_text("x")
    with pytest.raises(ParamsError) as told:
        usable_root(tmp_path)
    said = f"root {tmp_path}: {tmp_path}/data is no directory; give one as --root"
    assert str(told.value) == said


@pytest.mark.parametrize("name", ["data", "mlruns"])
def test_a_store_on_a_disk_that_is_not_mounted_is_refused_by_the_link_to_it(tmp_path, name):
    place = tmp_path / name
    place.symlink_to(tmp_path / "disk" / name)
    says = f"{place} is a link to {tmp_path}/disk/{name}, where nothing is; mount its disk, or"
    with pytest.raises(ParamsError, match=says):
        usable_root(tmp_path)
    (tmp_path / "disk" / name).mkdir(parents=True)
    assert usable_root(tmp_path) == tmp_path
