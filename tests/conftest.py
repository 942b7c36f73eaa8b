"""What several test folders share: a tiny model built here, and the real data."""

import gc
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test depends on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What was imported is left out of collections: each start of a training makes a whole one, and
    looking through the modules of torch and transformers took it longer than training."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests go to one process; those of `registration` all to the same one, since making
    the registered models that they share takes longer than most of them."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = "tests/registration/"
            return shared if nodeid.startswith(shared) else super()._split_scope(nodeid)

    return Scheduling(config, log)


REPOSITORY = Path(__file__).parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real preference data beside the checkout; CI has it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real preference data is not at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def hh_rows(shared_data) -> list[dict[str, str]]:
    """The 2,312 rows of hh-rlhf's harmless test set."""
    with gzip.open(shared_data / "hh_rlhf_harmless_test/test.jsonl.gz") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def tiny_model_directory(tmp_path_factory) -> Path:
    """A seeded two-layer Qwen3 language model with a tokenizer trained on a few sentences."""
    from tasks.model.params import ScratchParams
    from tasks.model.scratch import build_scratch

    directory = tmp_path_factory.mktemp("tiny-model")
    params = ScratchParams(vocab_size=400, hidden_size=32, intermediate_size=48)
    corpus = ["The sky is blue. What color is the sky? It is green, or so they say."] * 20
    build_scratch(params, iter(corpus), directory)
    return directory


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_model_directory):
    """The tiny model's tokenizer, by the real loading code."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model_directory)
