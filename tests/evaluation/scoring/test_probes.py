"""Extreme answers are rendered as real ones are, and their figures say where they stand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from transformers import AutoTokenizer

from tasks.evaluation.measures.concerns import warnings_of
from tasks.evaluation.measures.metrics import all_metrics
from tasks.evaluation.scoring.probes import SCHEMA, probe_figures, probe_table
from tasks.evaluation.scoring.score import RewardScorer
from tests.evaluation.pieces import conversations, made_scores, write_conversion, write_reward_model


@pytest.fixture(scope="module")
def model(tiny_model_directory, tmp_path_factory):
    directory = tmp_path_factory.mktemp("reward-model")
    write_reward_model(tiny_model_directory, directory, seed=1)
    return directory


def ids_of(rows):
    return np.array([row["pair_id"] for row in rows]), np.array([row["source"] for row in rows])


def test_each_prompt_gets_each_case_in_its_own_rendering(model, tmp_path):
    rows = conversations(6)
    text = {"prompt": "What is it?", "chosen": " Blue.", "rejected": " Red."}
    rows[2] |= text | {"format": "standard"}
    write_conversion(tmp_path, rows)
    pair_ids, sources = ids_of(rows)
    made = replace(made_scores([1.0] * 6), pair_id=pair_ids, source=sources)
    tokenizer, scorer = AutoTokenizer.from_pretrained(model), RewardScorer(model, device="cpu")
    found = probe_table(scorer, tokenizer, tmp_path, made, 3)
    assert found.schema.equals(SCHEMA)
    cases = found["case"].to_pylist()
    assert cases.count("empty") == cases.count("other_answer") == 3
    assert set(found["pair_id"].to_pylist()) == set(pair_ids[:3].tolist())
    by_case = {(r["pair_id"], r["case"]): r for r in found.to_pylist()}

    def reward(text, *, special):
        ids = np.array(tokenizer(text, add_special_tokens=special)["input_ids"], np.int32)
        return float(scorer.rewards([ids])[0]), len(ids)

    refusal = {"role": "assistant", "content": "I'm sorry, but I can't help with that."}
    whole = tokenizer.apply_chat_template([*rows[0]["prompt"], refusal], tokenize=False)
    row = by_case[(rows[0]["pair_id"], "refused")]
    assert (row["reward"], row["tokens"]) == (
        pytest.approx(reward(whole, special=False)[0]),
        reward(whole, special=False)[1],
    )
    expected = reward("What is it?" + tokenizer.eos_token, special=True)
    row = by_case[(rows[2]["pair_id"], "empty")]
    assert (row["reward"], row["tokens"]) == (pytest.approx(expected[0]), expected[1])
    shuffled = made.take(np.array([4, 0, 5, 2, 1, 3]))
    assert probe_table(scorer, tokenizer, tmp_path, shuffled, 3).equals(found)


def test_a_case_that_is_longer_than_the_model_reads_is_left_out(model, tmp_path):
    write_conversion(tmp_path, conversations(2))
    pair_ids, sources = ids_of(conversations(2))
    made = replace(made_scores([1.0] * 2), pair_id=pair_ids, source=sources)
    scorer = RewardScorer(model, device="cpu")
    scorer.model.config.max_position_embeddings = 40
    tokenizer = AutoTokenizer.from_pretrained(model)
    found = probe_table(scorer, tokenizer, tmp_path, made, 2)
    assert max(found["tokens"].to_pylist()) <= 40
    assert "repeated_token" not in found["case"].to_pylist()
    assert "empty" in found["case"].to_pylist()
    scorer.model.config.max_position_embeddings = 2
    assert probe_table(scorer, tokenizer, tmp_path, made, 2).equals(SCHEMA.empty_table())


def test_without_an_end_token_the_separator_is_the_special_one_and_some_models_read_any_length(
    model, tmp_path
):
    write_conversion(tmp_path, conversations(2))
    pair_ids, sources = ids_of(conversations(2))
    made = replace(made_scores([1.0] * 2), pair_id=pair_ids, source=sources)
    scorer = RewardScorer(model, device="cpu")
    vars(scorer.model.config)["max_position_embeddings"] = None  # as families have it without any
    assert scorer.most_tokens is None
    tokenizer = AutoTokenizer.from_pretrained(model)
    ended = probe_table(scorer, tokenizer, tmp_path, made, 2)
    tokenizer.sep_token, tokenizer.eos_token = tokenizer.eos_token, None
    assert probe_table(scorer, tokenizer, tmp_path, made, 2).equals(ended)
    tokenizer.sep_token = None
    lengths = {(r["pair_id"], r["case"]): r["tokens"] for r in ended.to_pylist()}
    assert {case for _, case in lengths} >= {"repeated_token", "very_long"}
    without = probe_table(scorer, tokenizer, tmp_path, made, 2).to_pylist()
    changed = {r["case"] for r in without if lengths[r["pair_id"], r["case"]] != r["tokens"]}
    assert changed == {"special_tokens"}
    assert {r["tokens"] for r in without if r["case"] == "special_tokens"} <= {
        r["tokens"] for r in without if r["case"] == "empty"
    }


def test_an_answer_from_elsewhere_is_no_probe_where_it_is_the_chosen_one(model, tmp_path):
    rows = conversations(3)
    rows[1]["chosen"] = rows[0]["chosen"]
    write_conversion(tmp_path, rows)
    pair_ids, sources = ids_of(rows)
    made = replace(made_scores([1.0] * 3), pair_id=pair_ids, source=sources)
    tokenizer, scorer = AutoTokenizer.from_pretrained(model), RewardScorer(model, device="cpu")

    def asked(prompts):
        found = probe_table(scorer, tokenizer, tmp_path, made, prompts).to_pylist()
        return [row["pair_id"] for row in found if row["case"] == "other_answer"]

    assert asked(1) == []  # the next prompt is the same one
    assert asked(2) == []  # both have one answer
    assert asked(3) == pair_ids[1:].tolist()  # but not the first


def probes(rewards: dict[str, list[float]]) -> pa.Table:
    rows = [
        {"pair_id": str(i), "case": case, "tokens": 3, "reward": r, "reward_chosen": 1.5}
        for case, values in rewards.items()
        for i, r in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_figures_and_warnings_of_probes_by_hand():
    # rewards 2 0 4 -2: mean 1, median 1, deviation sqrt((1 + 1 + 9 + 9) / 4) = sqrt 5
    made = made_scores([2.0, 6.0], rewards=[(2.0, 0.0), (4.0, -2.0)])
    earned = {"empty": [3.0, 1.0], "punctuation": [-1.0, 0.0], "refused": [5.0, 5.0]}
    table = probes(earned | {"very_long": [1.5, 1.0]})
    found = probe_figures(table, made)
    assert found["empty"] == {
        "prompts": 2,
        "degenerate": True,
        "mean_reward": 2.0,
        "z": pytest.approx(1 / np.sqrt(5)),
        "above_median": 0.5,
        "beats_chosen": 0.5,
    }
    assert found["punctuation"]["above_median"] == 0
    assert found["very_long"]["beats_chosen"] == 0  # the chosen answers earn 1.5 as well
    metrics = all_metrics(made, probes=table)
    warnings = [w["message"] for w in metrics["warnings"] if w["figure"] == "readiness.probes"]
    assert warnings == [
        "answers that reply nothing earn more on average than the median answer (1.00), and a "
        "policy will find them: empty 2.00"  # a refusal is an answer
    ]
    assert warnings_of(metrics) == metrics["warnings"]


def test_the_answer_to_another_prompt_is_no_answer_without_content():
    made = made_scores([0.0, 0.0], rewards=[(-0.001, -0.001)] * 2)
    table = probes({"empty": [1.0, 1.0], "other_answer": [2.0, 2.0]})
    message = all_metrics(made, probes=table)["warnings"][-1]["message"]
    assert "the median answer (0.00), and" in message  # not -0.00
    assert message.endswith("empty 1.00, the answer to another prompt 2.00")


def test_a_null_model_as_good_as_the_model_is_a_warning():
    # the longer answer is chosen in both, the model finds one of them
    made = made_scores([1.0, -1.0], tokens=[(9, 5), (9, 5)])
    assert [w["figure"] for w in all_metrics(made)["warnings"]] == [
        "bias.null_models.longer_tokens"
    ]
