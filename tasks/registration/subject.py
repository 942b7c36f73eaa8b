"""What is registered: a trained model with its evaluation, and where it is worked on."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tasks.artifact import Artifact, digest_json
from tasks.registration.package import carried_files


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

    @property
    def digest(self) -> str:
        """Identity of what is registered: equal bytes get one version."""
        return digest_json([self.training.digest, self.evaluation.digest])

    @cached_property
    def sizes(self) -> dict[str, int]:
        """`{name: bytes}` of the model's files that travel."""
        return {n: (self.model / n).stat().st_size for n in carried_files(self.model)}
