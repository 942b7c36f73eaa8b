"""The key: what changes it, what does not, and what is refused."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest

from tasks.artifact import Inert, Params, Step, canonical_json
from tasks.errors import ArtifactError


class Inner(Params):
    depth: int = 1
    workers: Annotated[int, Inert] = 1


class Outer(Params):
    rate: float = 0.5
    inner: Inner = Inner()
    device: Annotated[str, Inert] = "cpu"


def step(params: Params | dict, **changes) -> Step:
    fields = {"stage": "s", "version": 1, "shelf": "1_s", "inputs": {}, "build": lambda _: None}
    return Step(params=params, **(fields | changes))


def test_inert_fields_are_outside_the_key_at_every_depth():
    assert step(Outer()).key == step(Outer(device="cuda", inner=Inner(workers=9))).key
    assert step(Outer()).key != step(Outer(inner=Inner(depth=2))).key


def test_each_ingredient_changes_the_key_and_the_build_function_does_not():
    base = step(Outer())
    changed = [
        step(Outer(rate=0.25)),
        step(Outer(), version=2),
        step(Outer(), stage="t"),
        step(Outer(), libraries=("numpy",)),
        step(Outer(), files={"tokenizer": "00"}),
    ]
    assert len({base.key, *(s.key for s in changed)}) == 1 + len(changed)
    assert step(Outer(), build=print).key == base.key


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), len, {1: 2}, b"x"])
def test_a_value_without_a_stable_identity_is_refused_with_its_path(value):
    with pytest.raises(ArtifactError, match=r"s\.a\[1\]"):
        _ = step({"a": [0, value]}).key


def test_the_key_is_the_same_in_processes_with_other_hash_seeds():
    code = (
        "from tasks.artifact import Step\n"
        "s = Step('s', 1, '1_s', {'b': {'x', 'yy', 'zzz'}, 'a': 1.5}, {}, print)\n"
        "print(s.key)"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(keys) == 1


def test_mappings_and_sets_are_ordered_and_dataclasses_and_paths_have_an_identity():
    @dataclasses.dataclass
    class Point:
        place: Path

    value = {"b": {2, "x", 10}, "a": Point(Path("a/b"))}
    assert canonical_json(value) == '{"a":{"place":"a/b"},"b":["x",10,2]}'
