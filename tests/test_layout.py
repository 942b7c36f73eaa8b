"""The rules of the house, read from the source: who may import whom, and what is where."""

import ast
import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
STAGES = (
    "ingestion",
    "model",
    "conversion",
    "templating",
    "tokenization",
    "training",
    "evaluation",
    "registration",
)
SOURCES = sorted(
    path.relative_to(ROOT) for top in ("flows", "tasks") for path in (ROOT / top).rglob("*.py")
)
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "flows", "tasks", "params", "tests", "data", "mlruns"),
    *("Makefile", "LICENSE", "prefect.yaml", "constraints.txt"),
}
BUILT = (".egg-info", "__pycache__")
SHADOWING = {"types", "logging", "token", "datasets", "select", "queue", "io", "profile"}


def imports(path: Path) -> list[tuple[str, bool]]:
    """`(module, at import time)` of every import in a file; those for type checkers left out."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((name.name, top) for name in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: relative import"
                found.append((child.module, top))
                found.extend((f"{child.module}.{name.name}", top) for name in child.names)
            visit(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse((ROOT / path).read_text("utf-8")), top=True)
    return found


def names(path: Path, package: str) -> bool:
    return any(module.split(".")[0] == package for module, _ in imports(path))


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_point_upstream(path):
    stage = path.parts[1] if len(path.parts) > 2 else None
    for module, _ in imports(path):
        parts = module.split(".")
        if path.parts[0] == "tasks":
            assert parts[0] != "flows", f"{path} imports {module}: tasks never import flows"
        if parts[0] != "tasks" or len(parts) < 2 or path.parts[0] == "flows":
            continue
        if stage in STAGES:
            allowed = {"artifact", "errors", *STAGES[: STAGES.index(stage) + 1]}
        else:
            allowed = {"artifact", "errors"}
        assert parts[1] in allowed, f"{path} imports {module}: a later stage"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_only_flows_import_prefect_and_only_registration_imports_mlflow(path):
    if path.parts[0] != "flows":
        assert not names(path, "prefect"), f"{path} imports prefect"
    if path.parts[:2] != ("tasks", "registration"):
        assert not names(path, "mlflow"), f"{path} imports mlflow"
    assert not names(path, "trl")


LIGHT = [p for p in SOURCES if p.name in ("__init__.py", "params.py", "task.py", "__main__.py")]


@pytest.mark.parametrize("path", [p for p in LIGHT if "training/__main__" not in p.as_posix()])
def test_heavy_packages_are_not_imported_by_what_every_run_imports(path):
    heavy = {"torch", "transformers", "datasets", "mlflow", "prefect", "matplotlib", "accelerate"}
    for module, at_import_time in imports(path):
        if at_import_time:
            assert module.split(".")[0] not in heavy, f"{path} imports {module} at import time"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_and_functions_stay_readable(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    assert ast.get_docstring(tree), f"{path} has no docstring"
    assert path.stem not in SHADOWING
    lines = (ROOT / path).read_text("utf-8").count("\n")
    assert lines <= 300, f"{path} has {lines} lines: look for the seam"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= 80, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_the_top_level_is_what_the_user_fixed():
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".")}
    assert {name for name in found - TOP_LEVEL if not name.endswith(BUILT)} == set()


def test_tests_mirror_the_tree():
    for directory in (p for p in (ROOT / "tasks").iterdir() if (p / "__init__.py").exists()):
        assert list((ROOT / "tests" / directory.name).glob("test_*.py")), directory.name


def test_dependencies_are_ranges_and_constraints_are_exact():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *itertools.chain(*extras.values())]
    pins = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalnum()
    ]
    assert all("==" in pin for pin in pins)
    pinned = {pin.split("==")[0].lower().replace("_", "-") for pin in pins}
    for requirement in wanted:
        name = re.split(r"[>=<\[]", requirement)[0].lower()
        assert name in pinned, f"{requirement} has no pin in constraints.txt"
    assert "torch==2.13.0" in pins


def test_every_params_file_is_yaml_and_every_pipeline_params_file_loads():
    from flows.params import load

    files = sorted((ROOT / "params").rglob("*.yaml"))
    assert files
    for path in files:
        assert yaml.safe_load(path.read_text()), path
        if path.parent.name == "params":
            load(path)
