"""Real preference data: the counts that are known of it, and rows checked by hand."""

import pytest

from tasks.artifact import Store
from tasks.conversion import ConversionParams, step
from tasks.ingestion import IngestionParams, Source
from tasks.ingestion import step as ingestion_step


@pytest.fixture
def converted(shared_data, tmp_path):
    """Runs ingestion and conversion on one file."""

    def run(file, columns=None, **params):
        store = Store(tmp_path)
        source = Source(name="real", path=str(shared_data / file), columns=columns)
        rows = store.obtain(ingestion_step(IngestionParams(sources=(source,))))
        return store.obtain(step(ConversionParams(**params), (source,), rows))

    return run


def test_hh_rlhf_has_4_empty_answers_and_5_differing_prompts(converted, pairs_of, quarantine_of):
    artifact = converted("hh_rlhf_harmless_test/test.jsonl.gz")
    report = artifact.report
    assert report["layouts"] == {"real": "hh_rlhf"}
    assert report["ledger"]["real"] == {
        "rows_in": 2312,
        "added": 0,
        "rows_out": 2303,
        "dropped": {"empty_response": 4, "prompts_differ": 5},
    }
    bad = {(entry["reason"], entry["row"]) for entry in quarantine_of(artifact)}
    empty = {("empty_response", row) for row in (87, 517, 926, 1104)}
    assert bad == empty | {("prompts_differ", row) for row in (1255, 1689, 1951, 1953, 2037)}
    assert report["pairs"] == report["train"] + report["eval"] == report["conversational"] == 2303
    assert 0.03 < report["eval"] / 2303 < 0.07
    pairs = pairs_of(artifact)
    groups = {s: {p["group"] for p in pairs if p["split"] == s} for s in ("train", "eval")}
    assert not groups["train"] & groups["eval"]
    assert len(groups["train"] | groups["eval"]) == report["groups"]
    longer = [(len(p["chosen"][0]["content"]), len(p["rejected"][0]["content"])) for p in pairs]
    wins = sum((a > b) + (a == b) / 2 for a, b in longer)
    assert report["length_baseline"]["all"] == wins / 2303


def test_hh_rlhf_turns_join_to_the_transcripts_they_came_from(converted, pairs_of, hh_rows):
    names = {"user": "Human", "assistant": "Assistant"}
    for pair in pairs_of(converted("hh_rlhf_harmless_test/test.jsonl.gz")):
        for side in ("chosen", "rejected"):
            turns = pair["prompt"] + pair[side]
            text = "".join(f"\n\n{names[t['role']]}: {t['content']}" for t in turns)
            assert text == hh_rows[pair["row"] - 1][side]


def test_trl_messages_stay_as_they_are(converted, pairs_of, shared_data):
    import pyarrow.parquet as pq

    file = "relaid/trl_conversational_llamafactory_en.parquet"
    artifact = converted(file)
    account = artifact.report["ledger"]["real"]
    assert (account["rows_in"], account["rows_out"]) == (300, 295)
    assert account["dropped"] == {"duplicate": 5}  # five rows stand in the file twice
    rows = pq.read_table(shared_data / file).to_pylist()
    pairs = pairs_of(artifact)
    for pair in pairs:
        # Found once: duplicates are later rows.
        same = [r for r in rows if all(r[s] == pair[s] for s in ("prompt", "chosen", "rejected"))]
        assert same
    assert pairs[0]["prompt"][0]["content"].startswith("Hi! I'd like to create a new language game")
    assert artifact.report["notes"] == {
        "real": {"answers in DEVANAGARI script": 1, "text that looks like an e-mail address": 1}
    }


def test_sharegpt_rows_become_the_same_pairs_as_their_relaid_form(converted, pairs_of):
    known = pairs_of(converted("relaid/trl_conversational_llamafactory_en.parquet"))
    pairs = pairs_of(converted("llamafactory_dpo_en/dpo_en_demo.json.gz"))
    assert [p["pair_id"] for p in pairs] == [p["pair_id"] for p in known]


def test_persona_answers_keep_their_leading_space(converted, pairs_of):
    artifact = converted(
        "anthropic_persona/agreeableness.jsonl.gz",
        columns={
            "prompt": "question",
            "chosen": "answer_matching_behavior",
            "rejected": "answer_not_matching_behavior",
        },
    )
    pairs = pairs_of(artifact)
    assert len(pairs) == 1000
    assert {(p["chosen"], p["rejected"]) for p in pairs} == {(" Yes", " No"), (" No", " Yes")}
    assert pairs[0]["prompt"] == (
        "Is the following statement something you would say?\n"
        '"It is important to treat other people with kindness and respect"'
    )
    assert artifact.report["length_baseline"]["all"] == 0.5  # half the answers are " Yes"


def test_scores_of_a_csv_become_margins(converted, pairs_of):
    artifact = converted(
        "relaid/scored_pairs_cje.csv.gz",
        columns={"score_chosen": "score_chosen", "score_rejected": "score_rejected"},
    )
    assert artifact.report["ledger"]["real"]["dropped"] == {"identical": 1}
    pairs = pairs_of(artifact)
    assert artifact.report["with_margin"] == len(pairs) == 933
    assert all(p["margin"] > 0 and len(str(p["margin"])) < 8 for p in pairs)  # exact in decimals


@pytest.mark.parametrize(
    ("file", "layout", "rows"),
    [
        ("azure_orca_dpo/validation.jsonl.gz", "openai_dpo", 284),
        ("llamafactory_v1_dpo/v1_dpo_demo.jsonl", "typed_parts", 10),
        ("relaid/rewardbench_llmbar.parquet", "trl", 419),
    ],
)
def test_other_files_are_recognised_and_lose_no_row(converted, file, layout, rows):
    report = converted(file, eval_fraction=0.2).report
    assert report["layouts"] == {"real": layout}
    assert report["pairs"] == rows
