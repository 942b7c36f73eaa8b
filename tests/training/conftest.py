"""The tiny base model and pairs that most tests of this stage start from."""

from pathlib import Path

import pytest

from tasks.training.model import products
from tests.training.tiny import make_model, make_rows, write_pairs


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A causal Qwen3 with its tokenizer: no score head."""
    return make_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    """45 training pairs and 9 held-out ones, in Arrow shards."""
    directory = tmp_path_factory.mktemp("pairs")
    write_pairs(directory, make_rows(45), "train")
    return write_pairs(directory, make_rows(9, seed=1), "eval")


@pytest.fixture(params=["oneDNN", "BLAS"])
def of_gradients(request, monkeypatch) -> str:
    """Whose products gradients are: either library's, whatever processor this is."""
    monkeypatch.setattr(products, "gradients_are_of_mkl", lambda: request.param == "BLAS")
    return request.param
