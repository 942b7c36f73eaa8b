"""Whatever stands in the rows of a layout, its ledger balances, and their order changes nothing."""

import contextlib
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.artifact import Store
from tasks.conversion import ConversionParams, Unusable, step
from tasks.conversion.layouts import LAYOUTS, NAMES, options_of
from tasks.conversion.layouts.known import columns_of
from tasks.errors import DataError
from tasks.ingestion import Source

LENIENT = {"eval_fraction": 0.0, "max_bad_fraction": 1.0}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def made(ingest, directory, rows, cuts, layout, options):
    """The step on rows of one source, in shards that end at `cuts`."""
    entries = [("votes", "v.jsonl", i, json.dumps(row)) for i, row in enumerate(rows, 1)]
    edges = [0, *sorted(cuts), None]
    shards = [entries[a:b] for a, b in pairwise(edges)]
    source = Source(name="votes", path="v.jsonl", layout=layout, options=options)
    return step(ConversionParams(**LENIENT), (source,), ingest(directory, shards))


WORDS = st.sampled_from(["a", "b", "c d", "", " a", "e"])
SCORE = st.sampled_from([1, 2, "3", 0.5, True, False, None, "N/A"])
LABEL = st.sampled_from([True, False, 1, "0", None, "?"])
FLAG = st.sampled_from(["0", "1"])
TURNS = st.lists(st.sampled_from(["a", "b", None]), max_size=2)
TALK = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": WORDS}),
    max_size=3,
)
RATING = st.fixed_dictionaries({"Rating": st.sampled_from(["1", "3", "5", "N/A", 2, None])})


def shape(**columns):
    return st.fixed_dictionaries({k: v | st.none() for k, v in columns.items()})


PROMPT = st.sampled_from(["p", "q", "r"])
CELL = TALK.map(json.dumps) | st.sampled_from(["a", "[", "[]", "{}", " "])
TRANSCRIPT = st.lists(st.tuples(st.sampled_from(["Human", "Assistant"]), WORDS), max_size=4).map(
    lambda turns: "".join(f"\n\n{who}: {said}" for who, said in turns)
)
TURN = shape(**{"from": st.sampled_from(["human", "gpt"]), "value": WORDS})
PART = st.fixed_dictionaries({"type": st.just("text"), "value": WORDS})
PARTED = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.lists(PART, max_size=2)}
    ),
    max_size=3,
)
HALF = st.sampled_from([0, 0.5, -0.5, "0.5", 2])
STEP = shape(
    completions=st.lists(shape(text=WORDS, rating=st.sampled_from([-1, 0, 1])), max_size=2),
    chosen_completion=st.integers(-1, 2),
    human_completion=shape(text=WORDS),
)
TREE = st.recursive(
    st.fixed_dictionaries({"text": WORDS, "role": st.just("prompter"), "replies": st.just([])}),
    lambda below: shape(
        text=WORDS,
        role=st.sampled_from(["prompter", "assistant"]),
        rank=st.sampled_from([0, 1, 2.0, None, "x"]),
        deleted=st.booleans(),
        replies=st.lists(below, max_size=4),
    ),
    max_leaves=8,
)
GENERATED = {
    "unpaired": shape(prompt=PROMPT, completion=WORDS, label=LABEL)
    | shape(messages=TALK, label=LABEL),
    "scored": shape(prompt=PROMPT, response=WORDS, score=SCORE)
    | shape(prompt=PROMPT, responses=st.lists(WORDS, max_size=4),
            scores=st.lists(SCORE, max_size=4)),
    "helpsteer": shape(prompt=PROMPT, response=WORDS, helpfulness=SCORE)
    | shape(prompt=PROMPT, response_1=WORDS, response_2=WORDS,
            preference_strength=st.integers(-4, 4)),
    "stepwise": shape(prompt=PROMPT, completions=st.lists(WORDS, max_size=2),
                      labels=st.lists(LABEL, max_size=2))
    | shape(original_question=PROMPT, modified_question=PROMPT,
            original_process=st.lists(WORDS, max_size=2),
            modified_process=st.lists(WORDS, max_size=2),
            error_steps=st.lists(st.integers(0, 3), max_size=2)),
    "arena": shape(prompt=TURNS, response_a=TURNS.map(json.dumps), response_b=TURNS,
                   winner_model_a=FLAG, winner_model_b=FLAG, winner_tie=FLAG)
    | shape(winner=st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)", "x"]),
            conversation_a=TALK, conversation_b=TALK),
    "ultrafeedback": shape(instruction=PROMPT, completions=st.lists(
        shape(response=WORDS, annotations=st.fixed_dictionaries({"honesty": RATING})), max_size=4)),
    "shp": shape(history=PROMPT, human_ref_A=WORDS, human_ref_B=WORDS, labels=LABEL,
                 score_A=st.integers(-1, 3), score_B=st.integers(-1, 3)),
    "pairwise_label": shape(prompt=PROMPT, response_a=WORDS, response_b=WORDS,
                            label=st.sampled_from([0, 1, "2", 3])),
    "rewardbench": shape(prompt=PROMPT, chosen=WORDS, rejected=WORDS, subset=WORDS),
    "rewardbench2": shape(prompt=PROMPT, chosen=st.lists(WORDS, max_size=3),
                          rejected=st.lists(WORDS, max_size=3)),
    "context_ranking": shape(context=TALK, chosen=TALK, rejected=TALK),
    "trl": shape(prompt=WORDS, chosen=WORDS, rejected=WORDS)
    | shape(prompt=TALK, chosen=TALK, rejected=TALK)
    | shape(chosen=TALK, rejected=TALK, margin=SCORE),
    "trl, cells": shape(prompt=WORDS, chosen=TALK.map(json.dumps), rejected=CELL),
    "columns": shape(prompt=WORDS, chosen=WORDS, rejected=WORDS, margin=SCORE),
    "hh_rlhf": shape(chosen=TRANSCRIPT, rejected=TRANSCRIPT),
    "sharegpt_ranking": shape(conversations=st.lists(TURN, max_size=2), chosen=TURN | WORDS,
                              rejected=TURN | WORDS, system=WORDS),
    "alpaca": shape(instruction=WORDS, input=WORDS, chosen=WORDS, rejected=WORDS, system=WORDS,
                    history=st.lists(st.lists(WORDS, min_size=1, max_size=2), max_size=2)),
    "ms_swift": shape(messages=TALK, rejected_response=WORDS)
    | shape(messages=TALK, rejected_messages=TALK),
    "openai_dpo": shape(input=shape(messages=TALK), preferred_output=TALK,
                        non_preferred_output=TALK),
    "typed_parts": shape(chosen_messages=PARTED, rejected_messages=PARTED),
    "distilabel": shape(instruction=PROMPT, generations=st.lists(WORDS, max_size=4),
                        ratings=st.lists(SCORE, max_size=4), system=WORDS),
    "nectar": shape(prompt=TRANSCRIPT, answers=st.lists(
        shape(answer=WORDS, rank=st.sampled_from([1, 2.0, 3, None, "x"])), max_size=4)),
    "message_trees": shape(prompt=TREE, tree_state=WORDS),
    "webgpt": shape(question=shape(full_text=PROMPT), answer_0=WORDS, answer_1=WORDS,
                    score_0=HALF, score_1=HALF),
    "summaries": shape(info=shape(post=WORDS, article=WORDS),
                       choice=st.sampled_from([0, 1, "1", 2]),
                       summaries=st.lists(shape(text=WORDS), max_size=3)),
    "prm800k": shape(question=shape(problem=PROMPT,
                                    pre_generated_steps=st.lists(WORDS, max_size=3)),
                     label=shape(steps=st.lists(STEP, max_size=3), finish_reason=st.sampled_from(
                         ["solution", "found_error", "give_up"]))),
}  # fmt: skip


def says(asked, answered):
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]


GOOD = {
    "unpaired": [{"prompt": "z", "completion": "x", "label": True},
                 {"prompt": "z", "completion": "y", "label": False}],
    "scored": [{"prompt": "z", "responses": ["x", "y"], "scores": [1, 2]}],
    "helpsteer": [{"prompt": "z", "response_1": "x", "response_2": "y", "preference_strength": 1}],
    "stepwise": [{"prompt": "z", "completions": ["x"], "labels": [True]},
                 {"prompt": "z", "completions": ["y"], "labels": [False]}],
    "arena": [{"winner": "model_a", "conversation_a": [{"role": "user", "content": "z"},
                                                       {"role": "assistant", "content": "x"}],
               "conversation_b": [{"role": "user", "content": "z"},
                                  {"role": "assistant", "content": "y"}]}],
    "ultrafeedback": [{"instruction": "z", "completions": [
        {"response": r, "annotations": {"honesty": {"Rating": r}}} for r in ("1", "2")]}],
    "shp": [{"history": "z", "human_ref_A": "x", "human_ref_B": "y", "labels": 1}],
    "pairwise_label": [{"prompt": "z", "response_a": "x", "response_b": "y", "label": 1}],
    "rewardbench": [{"prompt": "z", "chosen": "x", "rejected": "y", "subset": "s"}],
    "rewardbench2": [{"prompt": "z", "chosen": ["x"], "rejected": ["y"]}],
    "context_ranking": [{"context": [{"from": "user", "content": "z"}],
                         "chosen": [{"from": "gpt", "content": "x"}],
                         "rejected": [{"from": "gpt", "content": "y"}]}],
    "trl": [{"prompt": "z", "chosen": "x", "rejected": "y"}],
    "trl, cells": [{"prompt": "z", "chosen": json.dumps(says("z", "x")),
                    "rejected": json.dumps(says("z", "y"))}],
    "columns": [{"prompt": "z", "chosen": "x", "rejected": "y"}],
    "hh_rlhf": [{s: f"\n\nHuman: z\n\nAssistant: {s}" for s in ("chosen", "rejected")}],
    "sharegpt_ranking": [{"conversations": [{"from": "human", "value": "z"}], "chosen": "x",
                          "rejected": "y"}],
    "alpaca": [{"instruction": "z", "input": "", "chosen": "x", "rejected": "y"}],
    "ms_swift": [{"messages": says("z", "x"), "rejected_response": "y"}],
    "openai_dpo": [{"input": {"messages": says("z", "x")[:1]},
                    "preferred_output": says("z", "x")[1:],
                    "non_preferred_output": says("z", "y")[1:]}],
    "typed_parts": [{"chosen_messages": says("z", "x"), "rejected_messages": says("z", "y")}],
    "distilabel": [{"instruction": "z", "generations": ["x", "y"], "ratings": [2, 1]}],
    "nectar": [{"prompt": "\n\nHuman: z\n\nAssistant: ", "answers": [
        {"answer": "x", "rank": 1}, {"answer": "y", "rank": 2}]}],
    "message_trees": [{"prompt": {"text": "z", "role": "prompter", "replies": [
        {"text": said, "role": "assistant", "rank": i} for i, said in enumerate("xy")]}}],
    "webgpt": [{"question": {"full_text": "z"}, "answer_0": "x", "answer_1": "y", "score_0": 1,
                "score_1": -1}],
    "summaries": [{"info": {"post": "z"}, "summaries": [{"text": "x"}, {"text": "y"}],
                   "choice": 0}],
    "prm800k": [{"question": {"problem": "z"}, "label": {"finish_reason": finish, "steps": [
        {"completions": [{"text": finish, "rating": rating}], "chosen_completion": 0}]}}
        for finish, rating in (("solution", 1), ("found_error", -1))],
}  # fmt: skip
OPTIONS = {
    "pairwise_label": {"first": 1, "second": 2, "tie": 0},
    "unpaired": {"max_pairs": 3},
    "scored": {"max_pairs": 4},
    "trl, cells": {"json_columns": ["chosen", "rejected"]},
    "prm800k": {"max_pairs": 3, "tool_turns": "quarantine"},
    "trl": {"tool_turns": "quarantine"},
}

EXAMPLES, MANY = 6, 60
every_layout = pytest.mark.parametrize("layout", sorted(GENERATED))
alone = settings(deadline=None, suppress_health_check=list(HealthCheck))


def test_rows_of_every_layout_are_generated():
    assert {name.partition(",")[0] for name in GENERATED} == set(NAMES)
    assert set(GENERATED) == set(GOOD)


class Watched(dict):
    """A row that remembers the columns that were asked for."""

    def __init__(self, row):
        super().__init__(row)
        self.asked = set()

    def get(self, name, default=None):
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name):
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.asked.add(name)
        return super().__contains__(name)


@settings(alone, max_examples=EXAMPLES)
@given(data=st.data())
@every_layout
def test_a_layout_names_all_columns_that_it_reads(layout, data):
    name = layout.partition(",")[0]
    options = options_of("votes", name, OPTIONS.get(layout, {}))
    for row in map(Watched, GOOD[layout] + data.draw(st.lists(GENERATED[layout], max_size=4))):
        given = (row,) if LAYOUTS[name].options is None else (row, options)
        with contextlib.suppress(Unusable):
            LAYOUTS[name].read(*given)
        assert row.asked <= set(columns_of(name, options))


@settings(alone, max_examples=EXAMPLES)
@example(data=None)
@given(data=st.data())
@every_layout
def test_ledger_balances_whatever_the_rows_their_shards_and_their_order(
    ingest, pairs_of, quarantine_of, layout, data
):
    _check(ingest, pairs_of, quarantine_of, layout, data)


@pytest.mark.slow
@settings(alone, max_examples=MANY)
@given(data=st.data())
@every_layout
def test_ledger_balances_on_many_rows_of_every_layout(
    ingest, pairs_of, quarantine_of, layout, data
):
    _check(ingest, pairs_of, quarantine_of, layout, data)


def _check(ingest, pairs_of, quarantine_of, layout, data):
    rows = list(GOOD[layout])
    if data is not None:
        rows += data.draw(st.lists(GENERATED[layout], max_size=14))
    runs = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory)
        for run in ("one", "two"):
            mixed, cuts = rows, []
            if data is not None:
                mixed = rows if run == "one" else data.draw(st.permutations(rows))
                cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
            name = layout.partition(",")[0]
            stage = made(ingest, root / run, mixed, cuts, name, OPTIONS.get(layout))
            try:
                artifact = Store(root / f"{run}-data").obtain(stage)
            except DataError as error:  # the good rows are contradicted by generated ones
                if "no pair is left" not in str(error):
                    raise
                runs.append(None)
                continue
            account = artifact.report["ledger"]["votes"]
            dropped = account["dropped"]
            assert account["rows_in"] == len(rows)
            assert len(rows) + account["added"] == account["rows_out"] + sum(dropped.values())
            pairs = pairs_of(artifact)
            assert len(pairs) == account["rows_out"] == artifact.report["pairs"]
            reasons = {entry["reason"] for entry in quarantine_of(artifact)}
            assert reasons == set(dropped) - {"duplicate", "joined", "capped"}
            sides = sorted(json.dumps([p[s] for s in ("prompt", "chosen", "rejected")])
                           .replace('" ', '"') for p in pairs)  # fmt: skip
            runs.append((account, sides))
    assert runs[0] == runs[1]
