"""The champion's rewards of another run's held-out pairs, also of those that it cannot read."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer
from transformers.utils.logging import enable_progress_bar, is_progress_bar_enabled

from tasks.artifact import Store
from tasks.evaluation.scoring.score import RewardScorer
from tasks.registration.aliases import champion_scores as scoring
from tasks.registration.aliases.champion_scores import champion_scores
from tasks.registration.task import receipt
from tasks.training.handover.contract import replay, write_contract
from tests.evaluation.pieces import conversations, everything
from tests.registration.conftest import Place

ROWS = 12


@pytest.fixture
def made(tmp_path, tiny_model_directory):
    """`make(rows)`: the model's directory and the tokenized pairs of these conversations."""

    def make(rows):
        training, tokenization, _ = everything(
            Store(tmp_path / "data"), tmp_path / "sources", tiny_model_directory, 1, rows
        )
        return training.path / "model", tokenization

    return make


def copied(model, destination, **config):
    """A champion in a directory of its own, with its contract, and these settings changed."""
    directory = shutil.copytree(model, destination)
    write_contract(directory)
    if config:
        told = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps(told | config))
        (directory / "reward_contract.json").unlink()
    return directory


def with_another_tokenizer(model, destination):
    """A successor whose tokenizer is the same, in other bytes."""
    directory = shutil.copytree(model, destination)
    file = directory / "tokenizer_config.json"
    file.write_text(file.read_text() + "\n")
    return directory


def rewards_of(table: pa.Table):
    return [table[f"reward_{side}"].to_pylist() for side in ("chosen", "rejected")]


@pytest.mark.parametrize("other", [False, True])
def test_pairs_that_would_change_the_champions_rotary_positions_are_left_out(made, tmp_path, other):
    """Beside one of them, and ever after, all other pairs would get other rewards."""
    rows = conversations(ROWS)
    rows[4]["rejected"] = [{"role": "assistant", "content": "It is green. " * 30}]
    model, tokenization = made(rows)
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    settings = {"rope_parameters": rope, "max_position_embeddings": 100}
    directory = copied(model, tmp_path / "champion", **settings)
    successor = with_another_tokenizer(model, tmp_path / "successor") if other else model
    found = champion_scores(directory, successor, tokenization, 16, "cpu")
    fitting = [i for i in range(ROWS) if i != 4]
    assert found.rows.tolist() == [i in fitting for i in range(ROWS)]
    assert found.table["pair_id"].to_pylist() == [rows[i]["pair_id"] for i in fitting]
    assert found.note.startswith(f", 1 left out that it cannot read: {rows[4]['pair_id']} has ")
    assert found.note.endswith(" tokens, of 100 at most")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    scorer = RewardScorer(directory, device="cpu")
    for side, rewards in zip(("chosen", "rejected"), rewards_of(found.table), strict=True):
        ids = [
            tokenizer.apply_chat_template([*rows[i]["prompt"], *rows[i][side]], return_dict=False)
            for i in fitting
        ]
        alone = scorer.rewards([pa.array(each, pa.int32()).to_numpy() for each in ids])
        assert rewards == pytest.approx(alone.tolist(), abs=1e-5)


def test_no_bar_stands_among_the_lines_of_a_comparison(made, tmp_path, capfd):
    model, tokenization = made(conversations(ROWS))
    champion = copied(model, tmp_path / "champion")
    other = with_another_tokenizer(model, tmp_path / "other")
    enable_progress_bar()
    capfd.readouterr()
    for successor in (model, other):
        champion_scores(champion, successor, tokenization, 16, "cpu")
    assert not any(verdict.difference for verdict in replay(champion))
    assert capfd.readouterr().err == ""
    assert is_progress_bar_enabled()


def test_a_champion_of_another_template_scores_all_pairs_but_those_that_it_refuses(made, tmp_path):
    rows = conversations(ROWS)
    end = "<|im_end|>"
    rows[2]["chosen"] = [{"role": "assistant", "content": f"It ends in {end} here."}]
    rows[7]["prompt"] = [{"role": "system", "content": "so"}, *rows[7]["prompt"]]
    model, tokenization = made(rows)
    directory = shutil.copytree(model, tmp_path / "source")
    template = (directory / "chat_template.jinja").read_text()
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    (directory / "chat_template.jinja").write_text(refuses + template)
    directory = copied(directory, tmp_path / "champion")
    contract = json.loads((directory / "reward_contract.json").read_text())
    assert contract["rendering"]["special_tokens_in_text"] == "quarantine"
    found = champion_scores(directory, model, tokenization, 16, "cpu")
    assert found.rows.tolist() == [i != 7 for i in range(ROWS)]
    assert f"1 left out that it cannot read: {rows[7]['pair_id']} cannot be" in found.note
    assert "no system" in found.note
    same = champion_scores(model, model, tokenization, 16, "cpu")  # by the run's own ids
    assert same.rows.all()
    assert same.note == ""
    for texts, ids in zip(rewards_of(found.table), rewards_of(same.table), strict=True):
        others = [i for i in range(ROWS) if i not in (2, 7)]
        without = [reward for i, reward in enumerate(ids) if i in others]
        assert texts[:2] + texts[3:] == pytest.approx(without, abs=1e-5)
    # The end token in the row's own words is no markup to the champion, as to no policy.
    assert rewards_of(found.table)[0][2] != pytest.approx(rewards_of(same.table)[0][2], abs=1e-5)


@pytest.mark.parametrize(
    ("shorter", "told"), [(True, "on {} frozen pairs, "), (False, "{} frozen")]
)
def test_both_models_are_compared_on_the_pairs_that_the_champion_reads(
    overtaken: Place, monkeypatch, shorter, told
):
    place = overtaken
    own = pq.read_table(place.worse[1].path / "scores.parquet")
    champions = pq.read_table(place.better[1].path / "scores.parquet")
    lengths = np.maximum(own["chosen_tokens"].to_numpy(), own["rejected_tokens"].to_numpy())
    limit = int(np.median(lengths)) if shorter else 1
    fits = lengths <= limit
    monkeypatch.setattr(scoring, "last_readable", lambda _: limit)
    place.params = place.params.model_copy(update={"min_improvement": 0.001})  # judged anew
    found = place.register(place.worse)
    decision = receipt(found)["decision"]
    assert f"{len(fits) - fits.sum()} left out that it cannot read" in decision
    assert told.format(fits.sum()) in decision
    kept = pq.read_table(found.path / "champion_scores.parquet")
    wanted = champions.filter(pa.array(fits))  # scored among others then: equal but for rounding
    assert kept["pair_id"].equals(wanted["pair_id"])
    for side, expected in zip(rewards_of(kept), rewards_of(wanted), strict=True):
        assert side == pytest.approx(expected, abs=1e-6)
    if shorter:
        new, old = (t["correct"].to_numpy()[fits].mean() for t in (own, champions))
        assert f"accuracy {new:.4f} against {old:.4f}" in decision
    else:
        assert "not compared with version 2" in decision
