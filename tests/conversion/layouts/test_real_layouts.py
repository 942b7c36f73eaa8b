"""Real files of judged answers: their known counts, recognition, and the examples in params."""

from pathlib import Path

import pytest

from flows.params import load
from tasks.artifact import Ledger, Store
from tasks.conversion import ConversionParams, step
from tasks.conversion.layouts import LAYOUTS, NAMES
from tasks.ingestion import IngestionParams, Source, row_shards
from tasks.ingestion import step as ingestion_step

PARAMS = Path(__file__).parents[3] / "params"
EXAMPLES = sorted((PARAMS / "layouts").glob("*.yaml"))
KNOWN = {
    # rows in, added, rows out, dropped
    "arena": (993, 0, 760, {"tie": 105, "empty_response": 52, "duplicate": 76}),
    "columns": (1000, 0, 1000, {}),
    "context_ranking": (1, 0, 1, {}),
    "one_row_each": (2, 0, 1, {"unpaired_alone": 1}),
    "openai_dpo": (284, 0, 284, {}),
    "pairwise_annotators": (
        999, 0, 760, {"tie": 105, "wrong_type": 6, "empty_response": 52, "duplicate": 76}),
    "pairwise_label": (419, 0, 419, {}),
    "rewardbench": (419, 0, 419, {}),
    "rewardbench2": (392, 736, 1050, {"duplicate": 78}),
    "scored": (
        4000, 1916, 3638, {"tie": 2217, "unpaired_alone": 4, "joined": 57}),
    "scored_in_a_row": (1319, 1695, 2426, {"unpaired_alone": 588}),
    "scored_pairs": (934, 0, 933, {"identical": 1}),
    "sharegpt_ranking": (300, 0, 295, {"duplicate": 5}),
    "stepwise": (484, 0, 32, {"unpaired_alone": 443, "joined": 9}),
    "stepwise_errors": (484, 0, 435, {"step_out_of_range": 12, "prompts_differ": 27, "tie": 10}),
    "trl": (300, 0, 295, {"duplicate": 5}),
    "typed_parts": (10, 0, 10, {}),
    "unpaired": (5276, 0, 2426, {"unpaired_alone": 2352, "joined": 498}),
    "unpaired_messages": (300, 0, 1, {"unpaired_alone": 298, "joined": 1}),
}  # fmt: skip
WITHOUT_DATA = {
    *("ultrafeedback", "helpsteer", "shp", "distilabel", "nectar", "webgpt", "summaries"),
    *("message_trees", "prm800k", "safe_rlhf", "json_cells", "alpaca", "ms_swift"),
}


@pytest.fixture(scope="module")
def converted(shared_data, tmp_path_factory):
    """The conversion of an example in params/layouts; each is run once."""
    done = {}

    def run(name):
        if name not in done:
            params = load(PARAMS / "layouts" / f"{name}.yaml")
            sources = tuple(
                s.model_copy(update={"path": str(shared_data / s.path.split("shared/data/")[1])})
                for s in params.ingestion.sources
            )
            store = Store(tmp_path_factory.mktemp(name))
            rows = store.obtain(ingestion_step(IngestionParams(sources=sources)))
            done[name] = store.obtain(step(params.conversion, sources, rows))
        return done[name]

    return run


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_its_real_file_gives_the_known_counts(path, request):
    params = load(path)
    assert {s.layout or "columns" for s in params.ingestion.sources} <= set(NAMES)
    if path.stem in WITHOUT_DATA:
        return
    artifact = request.getfixturevalue("converted")(path.stem)
    ledger = Ledger.from_json(artifact.report["ledger"])
    rows_in, added, rows_out, dropped = KNOWN[path.stem]
    assert (ledger.rows_in, ledger.rows_out, ledger.dropped) == (rows_in, rows_out, dropped)
    assert sum(account.added for account in ledger.accounts.values()) == added
    assert rows_in + added == rows_out + sum(dropped.values())


def test_every_nested_layout_has_an_example():
    shown = {source.layout for path in EXAMPLES for source in load(path).ingestion.sources}
    assert shown | {"trl", "hh_rlhf", "columns", None} == {*NAMES, None}


def test_the_answers_that_are_the_json_value_true(converted, quarantine_of):
    bad = [e for e in quarantine_of(converted("pairwise_annotators"))
           if e["reason"] == "wrong_type"]  # fmt: skip
    assert [e["row"] for e in bad] == [158, 159, 160, 162, 163, 165]
    assert all("found the boolean True" in e["message"] for e in bad)


def test_the_arena_form_of_the_same_votes_gives_the_same_pairs(converted, pairs_of):
    votes, battles = (
        {p["pair_id"] for p in pairs_of(converted(name))}
        for name in ("pairwise_annotators", "arena")
    )
    assert votes == battles


def test_labels_and_benchmark_rows_of_one_file_give_the_same_pairs(converted, pairs_of):
    labels, benchmark = (
        {p["pair_id"] for p in pairs_of(converted(name))}
        for name in ("pairwise_label", "rewardbench")
    )
    assert labels == benchmark


def test_labels_in_a_row_and_one_per_row_give_the_same_pairs(converted, pairs_of):
    forms = ("unpaired", "scored_in_a_row")
    together, apart = ({p["pair_id"] for p in pairs_of(converted(name))} for name in forms)
    assert together == apart


def test_steps_out_of_range_stand_where_they_were_found(converted, quarantine_of):
    bad = [e for e in quarantine_of(converted("stepwise_errors"))
           if e["reason"] == "step_out_of_range"]  # fmt: skip
    files = [Path(e["file"]).name for e in bad]
    assert files.count("target_data.jsonl.gz") == 11
    assert files.count("prm800k_test_p1_4o_circular.jsonl.gz") == 1


def test_margins_of_joined_scores_are_exact(converted, pairs_of):
    margins = [p["margin"] for p in pairs_of(converted("scored"))]
    assert min(margins) > 0
    assert all(len(str(margin)) < 8 for margin in margins)


RECOGNISED = {
    "anthropic_persona/agreeableness.jsonl.gz": None,
    "azure_orca_dpo/validation.jsonl.gz": "openai_dpo",
    "cje_arena_scored/base_responses.jsonl.gz": None,
    "colossalai_one_row/test_dpo_data.jsonl": "context_ranking",
    "colossalai_one_row/test_kto_data.jsonl": "unpaired",
    "gsm8k_model_solutions/example_model_solutions.jsonl.gz": None,
    "hh_rlhf_harmless_test/test.jsonl.gz": "hh_rlhf",
    "llamafactory_dpo_en/dpo_en_demo.json.gz": "sharegpt_ranking",
    "llamafactory_kto_en/kto_en_demo.json.gz": "unpaired",
    "llamafactory_v1_dpo/v1_dpo_demo.jsonl": "typed_parts",
    "llmbar/LLMBar_Natural.json": None,
    "pandalm_testset/testset-v1.json.gz": None,
    "prmbench/target_data.jsonl.gz": "stepwise",
    "relaid/arena_conversations_pandalm.parquet": "arena",
    "relaid/rewardbench2_gsm8k.jsonl.gz": "rewardbench2",
    "relaid/rewardbench_llmbar.parquet": "trl",
    "relaid/scored_pairs_cje.csv.gz": "trl",
    "relaid/trl_conversational_llamafactory_en.parquet": "trl",
    "relaid/trl_stepwise_prmbench_dev.jsonl.gz": "stepwise",
    "relaid/trl_unpaired_gsm8k.jsonl.gz": "unpaired",
}
"""None: the columns say too little, and the error lists the layouts."""


@pytest.mark.parametrize("file", RECOGNISED)
def test_every_real_file_is_recognised_as_one_layout_or_as_none(shared_data, tmp_path, file):
    from tasks.conversion.samples import first_rows

    source = Source(name="real", path=str(shared_data / file), limit=20)
    rows = Store(tmp_path).obtain(ingestion_step(IngestionParams(sources=(source,))))
    sample = first_rows(row_shards(rows), ["real"], 20)["real"].rows
    fitting = {
        name for row in sample for name, layout in LAYOUTS.items() if layout.fits(set(row), row)
    }
    assert fitting == ({RECOGNISED[file]} if RECOGNISED[file] else set())
    if RECOGNISED[file] is None:
        with pytest.raises(ValueError, match="no layout fits the columns"):
            Store(tmp_path).obtain(step(ConversionParams(), (source,), rows))
