"""Texts closed at a glance are those that the renderer closes."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.templating import TemplatingParams
from tasks.templating.replay.plain_texts import PlainTexts
from tasks.templating.shards.row_by_row import Differs
from tasks.templating.shards.shard import renderers
from tests.templating.outcomes import WORDS, outcome, table

PARTS = st.sampled_from((*WORDS, "Hi", "Hi", "", "</s>", "yes</s>", "<|end_of_text|>", "<bos>go"))
TEXT_ROW = st.fixed_dictionaries(
    {"prompt": st.none() | PARTS, "chosen": PARTS, "rejected": PARTS | PARTS.map("Hi{}".format)}
)


@given(
    rows=st.lists(TEXT_ROW, min_size=1, max_size=30),
    forged=st.sampled_from(("quarantine", "encode", "keep")),
    many=st.booleans(),
    closes=st.booleans(),
)
def test_texts_are_closed_as_the_renderer_alone_closes_them(tokenizer, rows, forged, many, closes):
    params = TemplatingParams(special_tokens_in_text=forged)
    batches, known = [table(rows)], renderers(tokenizer, params)
    if many and known.renderer.special:  # tokens that end in so many ways that none is looked for
        known.renderer.special = dataclasses.replace(known.renderer.special, ends=())
    known.renderer.own = dataclasses.replace(known.renderer.own, closes=closes)
    ours, replayed = outcome(tokenizer, params, batches, replaying=True, known=known)
    alone = outcome(tokenizer, params, batches, replaying=False, known=known)
    assert (ours, replayed) == alone


@pytest.mark.parametrize("forged", ["quarantine", "keep"])
def test_most_texts_are_closed_at_a_glance(tokenizer, monkeypatch, forged):
    """The renderer sees a sample, and those in which a special token may stand."""
    texts = [f"word {n} <" if n % 10 == 7 else f"It\u2019s {n}." for n in range(300)]
    prompts = itertools.cycle(("Is it?", None))
    rows = [{"prompt": next(prompts), "chosen": text, "rejected": "No."} for text in texts]
    seen: list[str] = []
    params = TemplatingParams(special_tokens_in_text=forged)
    given = renderers(tokenizer, params)
    sides = given.renderer.sides
    monkeypatch.setattr(given.renderer, "sides", lambda row: seen.append(row) or sides(row))
    (found, *_), _ = outcome(tokenizer, params, [table(rows)], replaying=True, known=given)
    assert found[0].num_rows == 300
    looked_for = forged == "quarantine" and "<" in given.renderer.special.ends
    assert len(seen) == (32 if looked_for else 2)


def test_a_text_that_is_closed_otherwise_than_by_the_renderer_is_found(tokenizer, monkeypatch):
    monkeypatch.setattr(PlainTexts, "_closed", lambda _, text: f"{text}.")
    refused = f" No{tokenizer.eos_token}"  # by the renderer, which does not take it for its end
    for rejected in (" No", refused):
        rows = [{"prompt": "Is it?", "chosen": " Yes", "rejected": rejected}]
        with pytest.raises(Differs):
            outcome(tokenizer, TemplatingParams(), [table(rows)], replaying=True)
