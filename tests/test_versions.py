"""No stage changes its source while its VERSION, and with it every cached artifact, stays.

`tests/stage_versions.json` holds, per stage, its VERSION and a digest of its source: the syntax
tree of its files without docstrings and comments. When a stage's code has changed, this fails until
somebody has decided: bump VERSION in its task.py where the output changes, then record it with

    python tests/test_versions.py
"""

import ast
import hashlib
import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests/stage_versions.json"
STAGES = sorted(path.parent.name for path in (ROOT / "tasks").glob("*/task.py"))


def source_digest(stage: str) -> str:
    """One digest over the stage's files, whatever their comments and docstrings say."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "tasks" / stage).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                node.body = body[1:] or [ast.Pass()]
        found.update(f"{path.relative_to(ROOT).as_posix()}\n{ast.dump(tree)}\n".encode())
    return found.hexdigest()


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def state_of(stage: str) -> dict[str, object]:
    version = importlib.import_module(f"tasks.{stage}.task").VERSION
    return {"version": version, "source": source_digest(stage)}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_whose_source_changed_has_been_recorded_with_its_version(stage):
    recorded = json.loads(RECORD.read_text())[stage]
    assert state_of(stage) == recorded, (
        f"the source of {stage} or its VERSION changed: bump VERSION in tasks/{stage}/task.py if "
        "its output changes, then run `python tests/test_versions.py`"
    )


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(ROOT))
    RECORD.write_text(json.dumps({stage: state_of(stage) for stage in STAGES}, indent=1) + "\n")
