"""How the sources are read, and where their pairs go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tasks.conversion.layouts import LAYOUTS
from tasks.conversion.options import Options, SplitBy
from tasks.conversion.overrides import Action
from tasks.conversion.preference.ties import Ties
from tasks.ingestion.params import Use


@dataclass(frozen=True)
class Plan:
    """How to read the sources and where their pairs go; small, and can be sent to a process."""

    layouts: Mapping[str, tuple[str, Mapping[str, str], Options]]
    """Source name -> its layout, column mapping and options, in the order of the sources."""
    seed: int
    eval_fraction: float
    split_by: SplitBy = "prompt"
    ties: Ties = "drop"
    overrides: Mapping[str, Action] = field(default_factory=dict[str, Action])
    """pair_id -> what a person decided."""
    uses: Mapping[str, Use] = field(default_factory=dict[str, Use])
    """Source name -> what its pairs are for, where it is not training and evaluation both."""

    def held_out_of(self, source: str) -> float:
        """The share of a source's prompts that is held out. All of those that are excluded are, so
        that nothing of them is trained on."""
        use = self.uses.get(source, "both")
        return {"both": self.eval_fraction, "train": 0.0}.get(use, 1.0)

    @cached_property
    def overrides_of_new_ids(self) -> Mapping[str, Action]:
        """What a person may decide of a pair by the id that an earlier decision gave it; a flip is
        not taken back by another: that would be no decision."""
        return {pair_id: action for pair_id, action in self.overrides.items() if action != "flip"}

    @cached_property
    def joined(self) -> frozenset[str]:
        """The sources of which several rows may make one pair."""
        return frozenset(n for n, (layout, *_) in self.layouts.items() if LAYOUTS[layout].joins)
