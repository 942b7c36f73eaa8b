"""Why a step is built: one sentence per cause, which shows what differs and nothing else."""

from dataclasses import replace

import pytest

from tasks.artifact import Step, Store
from tasks.artifact.explain import MOST, differences
from tasks.artifact.refs import keep, run_name


def told(old, new):
    """The sentences about params, without what they all begin with."""
    sides = [Step("s", 1, "1_s", {"x": x}, {}, lambda _: None).ingredients for x in (old, new)]
    found = differences(*sides, {})
    assert all(sentence.startswith("PARAMS s.x") for sentence in found)
    return [sentence.removeprefix("PARAMS s.x") for sentence in found]


def named(*names, **more):
    return [{"name": name, "limit": None} | more for name in names]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (named("a", "chat"), named("a"), [": 'chat' removed"]),
        (named("a"), named("b", "a", "c"), [": 'b', 'c' added"]),
        (named("a"), named("b"), [": 'a' removed", ": 'b' added"]),
        (named("a", "b"), named("b", "a"), [": in another order"]),
        (
            named("a", "b", "c"),
            named("c", "d", limit=5),
            [": 'a', 'b' removed", ": 'd' added", ".0.limit None -> 5"],
        ),
        (["x.csv", "y.csv", "z.csv"], ["y.csv", "z.csv", "w.csv"], ["'x.csv'", "'w.csv'"]),
        ([0.9, 0.95], [0.9, 0.99], [".1 0.95 -> 0.99"]),
        ([1, 2, 2], [2, 1], [": 2 removed"]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}], [": {'a': 2} removed"]),
        ({"a": {"l": 1}, "b": {}}, {"a": {"l": 2}}, [": 'b' removed", ".a.l 1 -> 2"]),
        ({"a": 1}, {"a": 1, "b": {"c": 2}}, [".b None -> {'c': 2}"]),
        ({}, {"b": {"c": 2}}, [".b None -> {'c': 2}"]),
        ([*"abcdefgh"], [], [": 'a', 'b', 'c', 'd', 'e', 'f' and 2 more removed"]),
        (1, "1", [" 1 -> '1'"]),
        (1, True, [" 1 -> True"]),
    ],
)
def test_members_are_matched_by_name_and_then_compared(old, new, expected):
    found = told(old, new)
    assert len(found) == len(expected)
    for sentence, words in zip(found, expected, strict=True):
        assert words in sentence if words.startswith("'") else sentence == words


@pytest.mark.parametrize("common", ["", "begin" * 30])
def test_of_long_texts_the_part_that_differs_is_shown(common):
    old, new = (common + word + "end" * 40 for word in ("this", "that"))
    (sentence,) = told(old, new)
    before, _, after = sentence.partition(" -> ")
    assert ("this" in before, "that" in after) == (True, True)
    assert len(sentence) < 150


def test_of_many_causes_the_first_are_told_and_the_others_counted(tmp_path):
    store = Store(tmp_path)
    step = Step("s", 1, "1_s", {}, {}, lambda w: w.write_json("a.json", 1))
    store.obtain(step)
    causes = store.look(replace(step, files={f"{n:03}": "ab" * 32 for n in range(500)})).causes
    assert len(causes) == MOST + 1
    assert (causes[0], causes[-1]) == ("FILE 000 none -> abababab", f"and {500 - MOST} more")


def test_what_runs_of_the_same_params_file_have_used_comes_before_what_is_nearer(tmp_path):
    def step(**params):
        return Step("s", 1, "1_s", params, {}, lambda w: w.write_json("a.json", params))

    a, b, fresh = (Store(tmp_path, params_file=f"/{name}.yaml") for name in "abc")
    for store, n in ((a, 1), (b, 8)):
        keep(store, "run", run_name(store), [store.obtain(step(size=n, seed=n))])
    (tmp_path / "refs" / "run-damaged.json").write_text("{")
    asked = step(size=8, seed=2)
    assert a.look(asked).causes == ("PARAMS s.size 1 -> 8", "PARAMS s.seed 1 -> 2")
    assert b.look(asked).causes == fresh.look(asked).causes == ("PARAMS s.seed 8 -> 2",)
    keep(b, "unfinished", run_name(b), [b.obtain(step(size=1, seed=1))])  # found, not built
    assert b.look(step(size=1, seed=2)).causes == ("PARAMS s.seed 1 -> 2",)
