"""Each test finds out of a template what it asks for: a stage before it has left nothing."""

import threading

import pytest

from tasks.templating import TemplatingParams
from tasks.templating.shards import shard
from tasks.templating.template import with_effective_template
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tests.at_length import at_length
from tests.templating.families import NEEDS_DATE, build_family
from tests.templating.stage_runs import DAY

SOME = ("chatml", "qwen3", "llama3", *at_length("mistral", "gemma", "deepseek"))


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(shard, "_last", threading.local())


@pytest.fixture(scope="module", params=SOME)
def tokenizer(request, tmp_path_factory):
    model = build_family(request.param, tmp_path_factory.mktemp(request.param))
    day = DAY if request.param in NEEDS_DATE else None
    return with_effective_template(plain_tokenizer(model.path), TemplatingParams(date=day))
