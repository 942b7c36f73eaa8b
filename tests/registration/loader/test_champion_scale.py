"""Rewards carried to a former champion's scale: maps that chain, and files that are checked."""

import json

import numpy as np
import pytest

from tasks.registration.loader.champion_scale import (
    FILE,
    PLACE,
    ChampionScale,
    ScaleMap,
    chained,
    first_of_all,
    map_to,
    read,
    write,
)


def kept(scale, tmp_path):
    """The scale as a version of it brings it."""
    (tmp_path / PLACE).mkdir(exist_ok=True)
    write(scale, tmp_path / PLACE)
    return tmp_path


def test_maps_lead_over_any_number_of_champions_to_the_first():
    # 3 -> 2: 2x + 1;  2 -> 1: x/2 - 3;  so 3 -> 1: (2x + 1)/2 - 3 = x - 2.5
    one = first_of_all(1)
    assert one == ChampionScale(1, ScaleMap(1, 1.0, 0.0), ScaleMap(1, 1.0, 0.0), answers=0)
    two = chained(2, ScaleMap(1, 0.5, -3.0), one, answers=40, tau=0.9)
    assert two.reference == ScaleMap(1, 0.5, -3.0)
    three = chained(3, ScaleMap(2, 2.0, 1.0), two, answers=40, tau=0.8)
    assert three.champion == ScaleMap(2, 2.0, 1.0)
    assert three.reference == ScaleMap(1, 1.0, -2.5)
    rewards = np.array([0.0, 4.0], np.float32)
    assert three.reference.applied(rewards).tolist() == [-2.5, 1.5]
    assert three.reference.applied(rewards).dtype == np.float32
    # A champion that says nothing of its scale is where the chain begins.
    assert chained(3, ScaleMap(2, 2.0, 1.0), None, 40, 0.8).reference == ScaleMap(2, 2.0, 1.0)
    broken = ChampionScale(2, None, None, 40, -0.2, "its rewards do not rise")
    assert chained(3, ScaleMap(2, 2.0, 1.0), broken, 40, 0.8).reference == ScaleMap(2, 2.0, 1.0)


def test_the_file_gives_back_what_was_written_and_refuses_what_turns_rewards_round(tmp_path):
    scale = chained(2, ScaleMap(1, 0.5, -3.0), first_of_all(1), answers=40, tau=0.9)
    model = kept(scale, tmp_path)
    assert read(model) == scale
    assert map_to(model, "reference") == scale.reference
    found = json.loads((model / PLACE / FILE).read_bytes())
    for wrong, told in (
        *(
            ({way: found[way] | {"slope": slope}}, "expected a positive number")
            for way in ("champion", "reference")
            for slope in (-1.0, 0.0, float("inf"), float("nan"))
        ),
        ({"champion": found["champion"] | {"slope": "0.5"}}, "holds no maps of rewards"),
        ({"format": 7}, "its format is not 1"),
        ({"more": 1}, "holds no maps of rewards"),
    ):
        (model / PLACE / FILE).write_text(json.dumps(found | wrong))
        with pytest.raises(ValueError, match=told):
            read(model)


def test_a_version_without_a_map_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"no registration/champion_scale\.json; load it with"):
        map_to(tmp_path, "champion")
    why = "its rewards do not rise with those of version 1"
    model = kept(ChampionScale(2, None, None, 40, -0.2, why), tmp_path)
    with pytest.raises(ValueError, match=why):
        map_to(model, "reference")
