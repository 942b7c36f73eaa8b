"""What is registered: a trained model with its evaluation, and where it is worked on."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.artifact import Artifact
from tasks.registration.proving.package import carried_files, identity


@dataclass(frozen=True)
class Subject:
    """The artifacts of one registration, and a directory that is gone afterwards."""

    training: Artifact
    evaluation: Artifact
    tokenization: Artifact
    scratch: Path

    @property
    def model(self) -> Path:
        """The reward model directory."""
        return self.training.path / "model"

    @cached_property
    def digest(self) -> str:
        """Identity of what is registered: equal model files get one version."""
        return identity(self.model)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` of the evaluation holds."""
        return json.loads((self.evaluation.path / "metrics.json").read_bytes())

    @cached_property
    def sizes(self) -> dict[str, int]:
        """`{name: bytes}` of the model's files that travel."""
        return {n: (self.model / n).stat().st_size for n in carried_files(self.model)}
