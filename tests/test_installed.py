"""What `pip install` of this project brings is enough: no file of the checkout is missed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
OF_THE_WHEEL = ("flows", "tasks", "params", "pyproject.toml", "README.md", "LICENSE")
USED = """
import tasks
from tasks.evaluation.report import page
from tasks.registration.proving.package import shipped_sources
from tasks.training.params import TrainingParams
from tasks.training.task import check_launch
print(tasks.__file__)
for processes in (1, 2):
    check_launch(TrainingParams(num_processes=processes))
assert shipped_sources()
assert all((page.HERE / name).is_file() for name in ("page.html", "page.css"))
"""


def test_an_installed_wheel_has_every_file_that_the_stages_read(tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    for name in OF_THE_WHEEL:
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(pip, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(installed)
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", USED],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed)
