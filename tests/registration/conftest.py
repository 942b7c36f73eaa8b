"""A real MLflow on SQLite for every test, and real artifacts to register."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tasks.artifact import Artifact, Store
from tasks.evaluation import EvaluationParams
from tasks.evaluation import step as evaluation_step
from tasks.registration import RegistrationParams
from tasks.registration import step as registration_step
from tests.evaluation.pieces import upstream

Made = tuple[Artifact, Artifact, Artifact]
"""A trained model, its evaluation, and the tokenized pairs."""


@dataclass
class Place:
    """A checkout of its own: `data/`, `mlruns/`, and what the tests do with them."""

    root: Path
    base: Path
    workshop: Callable[[Path, int], Made]
    params: RegistrationParams = field(default_factory=RegistrationParams)

    @property
    def store(self) -> Store:
        return Store(self.root / "data")

    @property
    def client(self) -> Any:
        from tasks.registration.tracking import client_for

        return client_for(self.params, self.root)

    def evaluated(self, seed: int) -> Made:
        """A trained model whose head was drawn from `seed`, its evaluation, and the pairs."""
        return self.workshop(self.base, seed)

    def step(self, made: Made) -> Any:
        context = {"params": {"training": {"learning_rate": 1e-4}, "sources": [{"name": "skies"}]}}
        return registration_step(self.params, self.root, *made, context)

    def register(self, made: Made, store: Store | None = None):
        """The registration artifact of a model."""
        return (store or self.store).obtain(self.step(made))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory) -> Path:
    """MLflow's tables, made once: that takes seconds."""
    from tasks.registration.tracking import client_for

    root = tmp_path_factory.mktemp("mlflow")
    client_for(RegistrationParams(), root).search_experiments()
    return root / "mlruns" / "mlflow.db"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory) -> Callable[[Path, int], Made]:
    """Makes each model once for all tests: they only read it."""
    root = tmp_path_factory.mktemp("workshop")
    store = Store(root / "data")

    @cache
    def make(base: Path, seed: int) -> Made:
        scratch = root / f"sources-{base.name}-{seed}"
        training, tokenization = upstream(store, scratch, base, seed)
        step = evaluation_step(EvaluationParams(device="cpu"), training, tokenization)
        return training, store.obtain(step), tokenization

    return make


@pytest.fixture
def place(tmp_path, empty_database, tiny_model_directory, workshop) -> Place:
    (tmp_path / "mlruns").mkdir()
    shutil.copyfile(empty_database, tmp_path / "mlruns" / "mlflow.db")
    return Place(tmp_path, tiny_model_directory, workshop)
