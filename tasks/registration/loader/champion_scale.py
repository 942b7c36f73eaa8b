"""How a model's rewards are carried to the champion's scale: `registration/champion_scale.json`.

    {"format": 1, "version": 3, "answers": 402, "kendall_tau": 0.81,
     "champion": {"version": 2, "slope": 0.71, "intercept": 0.2},
     "reference": {"version": 1, "slope": 0.64, "intercept": -0.1}}

RL's coefficients (of the KL penalty, of clipping) are tuned to one scale of rewards; a retrained
model has another. `slope * reward + intercept` maps its rewards to the older scale. `champion` is
the model that it was compared with. `reference` is the first model of the chain of champions, so
that coefficients survive any number of retrainings. The map to the champion is fitted on answers of
held-out pairs that neither model was trained on; the map to the reference is that one followed by
the champion's own. Where no rising map fits, both are null and `why` says so. Travels inside the
registered model: it must not import any other part of the project.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

PLACE = "registration"
"""The directory of a version in which its decision, its report and this file lie."""
FILE = "champion_scale.json"
FORMAT = 1


@dataclass(frozen=True)
class ScaleMap:
    """`slope * reward + intercept` is on the scale of `version`'s raw rewards."""

    version: int
    slope: float
    intercept: float

    def applied(self, rewards: np.ndarray) -> np.ndarray:
        """float32 `[N]`: the rewards on that scale."""
        return (self.slope * rewards.astype(np.float64) + self.intercept).astype(np.float32)

    def then(self, other: "ScaleMap") -> "ScaleMap":
        """This map followed by another, which starts at this one's scale."""
        slope = other.slope * self.slope
        return ScaleMap(other.version, slope, other.slope * self.intercept + other.intercept)


@dataclass(frozen=True)
class ChampionScale:
    """The maps of one version."""

    version: int
    champion: ScaleMap | None
    reference: ScaleMap | None
    answers: int
    """How many answers the map to the champion was fitted on; 0: there was no champion."""
    kendall_tau: float | None = None
    why: str = ""
    """Why there is no map."""


def first_of_all(version: int) -> ChampionScale:
    """The scale of a version without a champion: its own is the reference of later versions."""
    own = ScaleMap(version, 1.0, 0.0)
    return ChampionScale(version, own, own, answers=0)


def chained(
    version: int, to_champion: ScaleMap, champions: ChampionScale | None, answers: int, tau: float
) -> ChampionScale:
    """The scale of a version with a champion; `champions`: that one's own scale, if it has any."""
    further = champions.reference if champions else None
    reference = to_champion.then(further) if further else to_champion
    return ChampionScale(version, to_champion, reference, answers, tau)


def write(scale: ChampionScale, directory: Path) -> None:
    """Puts the file into a directory."""
    text = json.dumps({"format": FORMAT, **asdict(scale)}, indent=2, sort_keys=True) + "\n"
    (directory / FILE).write_text(text, "utf-8")


def read(model: Path) -> ChampionScale | None:
    """The scale that a downloaded version brings; None where it brings none.

    Raises:
        ValueError: the file does not hold what it should.
    """
    path = model / PLACE / FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        maps = {
            name: ScaleMap(**content.pop(name)) if content[name] else content.pop(name)
            for name in ("champion", "reference")
        }
        scale = ChampionScale(**maps, **content)
        for each in filter(None, (scale.champion, scale.reference)):
            if not 0 < each.slope < float("inf"):
                raise ValueError(f"a slope is {each.slope!r}, expected a positive number")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no maps of rewards: {error}") from error
    return scale


def map_to(model: Path, name: str) -> ScaleMap:
    """The map of a downloaded version to the scale `champion` or `reference`.

    Raises:
        ValueError: it brings no such map.
    """
    scale = read(model)
    scale_map: ScaleMap | None = getattr(scale, name, None)
    if scale_map is None:
        reason = scale.why if scale else f"it has no {PLACE}/{FILE}"
        raise ValueError(
            f"{model} has no map to the scale {name!r}: {reason}; load it with scale='raw'"
        )
    return scale_map
