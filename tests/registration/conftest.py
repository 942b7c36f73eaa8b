"""A real MLflow on SQLite for every test, and real artifacts to register."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Artifact, Store
from tasks.evaluation import EvaluationParams
from tasks.evaluation import step as evaluation_step
from tasks.registration import RegistrationParams, load_reward_model
from tasks.registration import step as registration_step
from tasks.registration.params import GateParams
from tests.evaluation.pieces import (
    conversations,
    stored,
    write_conversion,
    write_reward_model,
    write_tokenization,
)

Made = tuple[Artifact, Artifact, Artifact]
"""A trained model, its evaluation, and the tokenized pairs."""


LENIENT = RegistrationParams(gate=GateParams(min_accuracy=None))
"""The models here have random heads: worse than a coin is no reason to reject them."""


def upstream(store: Store, scratch: Path, base: Path, seed: int) -> tuple[Artifact, Artifact]:
    """A trained model with its score contract, and 20 tokenized pairs whose prompts it has not
    seen: the train split of conversion has the same pairs under other prompts."""
    from tasks.training.handover.contract import write_contract

    rows = conversations(20)
    write_conversion(scratch / "conversion", rows)
    file = scratch / "conversion" / "pairs" / "00000.parquet"
    pairs = pq.read_table(file).to_pylist()
    for pair in pairs:
        pair["group"] = f"{pair['split']}: {pair['group']}"
    pq.write_table(pa.Table.from_pylist(pairs), file)
    write_tokenization(scratch / "tokenization", rows, base)
    write_reward_model(base, scratch / "training" / "model", seed)
    write_contract(scratch / "training" / "model")
    history = [{"global_step": s, "loss": 0.7 - s / 100, "epoch": s / 20} for s in (10, 20)]
    (scratch / "training" / "metrics.jsonl").write_text("\n".join(map(json.dumps, history)) + "\n")
    (scratch / "templating").mkdir()
    (scratch / "templating" / "note.txt").write_text("rendered")
    conversion = stored(store, "conversion", scratch / "conversion")
    templating = stored(store, "templating", scratch / "templating", {"conversion": conversion})
    inputs = {"templating": templating}
    tokenization = stored(store, "tokenization", scratch / "tokenization", inputs)
    inputs = {"tokenization": tokenization}
    pinned = {"determinism": {"device": "cpu", "seed": seed, "bit_exact": True}}
    trained = stored(store, "training", scratch / "training", inputs, pinned, seed=seed)
    return trained, tokenization


@dataclass
class Place:
    """A checkout of its own: `data/`, `mlruns/`, and what the tests do with them."""

    root: Path
    base: Path
    workshop: Callable[[Path, int], Made]
    params: RegistrationParams = LENIENT

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

    @property
    def worse(self) -> Made:
        return self._ranked[0]

    @property
    def better(self) -> Made:
        return self._ranked[1]

    @property
    def _ranked(self) -> list[Made]:
        both = (self.evaluated(1), self.evaluated(2))
        return sorted(both, key=lambda made: made[1].report["metrics"]["correct"])

    def step(self, made: Made) -> Any:
        context = {"params": {"training": {"learning_rate": 1e-4}, "sources": [{"name": "skies"}]}}
        return registration_step(self.params, self.root, *made, context)

    def register(self, made: Made, store: Store | None = None):
        """The registration artifact of a model."""
        return (store or self.store).obtain(self.step(made))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory) -> Path:
    """MLflow's tables, made once: that takes seconds. Their maker shares them with his group."""
    from tasks.registration.tracking import client_for

    root = tmp_path_factory.mktemp("mlflow")
    before = os.umask(0o002)
    client_for(RegistrationParams(), root).search_experiments()
    os.umask(before)
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


class Kept:
    """A place as it was, put back before every test: proving a version takes seconds.

    MLflow keeps absolute paths and open connections, so the directory stays the same one, and the
    database gets its old pages instead of making way for another file.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.copy = place.root.with_name(f"{place.root.name}-kept")
        shutil.copytree(place.root, self.copy)

    def back(self) -> Place:
        root, database = self.place.root, Path("mlruns") / "mlflow.db"
        for name in ("data", "mlruns/artifacts"):
            shutil.rmtree(root / name)
            shutil.copytree(self.copy / name, root / name)
        with (
            closing(sqlite3.connect(self.copy / database)) as old,
            closing(sqlite3.connect(root / database)) as present,
        ):
            old.backup(present)
        return replace(self.place)


@pytest.fixture(scope="session")
def new_place(tmp_path_factory, empty_database, tiny_model_directory, workshop):
    """Makes a place with an empty registry."""

    def make(name: str) -> Place:
        root = tmp_path_factory.mktemp(name)
        (root / "mlruns").mkdir()
        shutil.copyfile(empty_database, root / "mlruns" / "mlflow.db")
        return Place(root, tiny_model_directory, workshop)

    return make


@pytest.fixture(scope="session")
def better_first(new_place) -> Kept:
    place = new_place("better-first")
    place.register(place.better)
    place.register(place.worse)
    return Kept(place)


@pytest.fixture(scope="session")
def worse_first(new_place) -> Kept:
    place = new_place("worse-first")
    place.register(place.worse)
    place.register(place.better)
    return Kept(place)


@pytest.fixture
def defended(better_first) -> Place:
    """Version 1, the better model, is champion; version 2 is only a challenger."""
    return better_first.back()


@pytest.fixture
def overtaken(worse_first) -> Place:
    """Version 2, the better model, took the alias champion from version 1."""
    return worse_first.back()


@pytest.fixture
def place(new_place) -> Place:
    """An empty registry."""
    return new_place("place")


@pytest.fixture(scope="session")
def model_directory(tiny_model_directory, tmp_path_factory):
    """A reward model as training leaves it; nobody changes it."""
    from tasks.training.handover.contract import write_contract

    directory = tmp_path_factory.mktemp("loaded")
    write_reward_model(tiny_model_directory, directory, seed=1)
    write_contract(directory)
    return directory


@pytest.fixture(scope="session")
def model(model_directory):
    """The same, loaded."""
    return load_reward_model(model_directory, "cpu")


@pytest.fixture
def copied(model_directory, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(model_directory, tmp_path / "copy")
