"""Benchmarks in an evaluation: read by the model's own template, scored, reported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from transformers import BertTokenizer

from flows.findings import _benchmark_rows
from flows.params import load
from flows.result_lines import result_lines
from tasks.artifact import Store
from tasks.conversion.preference.identity import prompt_group
from tasks.conversion.preference.pair import Pair
from tasks.errors import DataError, ModelError
from tasks.evaluation import EvaluationParams, step
from tasks.evaluation.benchmarks import passes
from tasks.evaluation.benchmarks.encoding import ItemReader
from tasks.evaluation.benchmarks.files import benchmark_files, items_of
from tasks.evaluation.benchmarks.items import Item, Place
from tasks.evaluation.measures.metrics import flat
from tasks.evaluation.scoring.score import RewardScorer
from tests.evaluation.pieces import conversations, everything, stored

ROOT = Path(__file__).parents[3]
HERE = Place("rewardbench", "a.jsonl", 7)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_model_directory):
    scratch = tmp_path_factory.mktemp("benchmarks")
    store = Store(scratch / "data")
    rows = conversations(6)
    for row in rows:
        row["group"] = prompt_group(Pair(row["prompt"], row["chosen"], row["rejected"]))
    return store, everything(store, scratch / "sources", tiny_model_directory, 1, rows), rows


def params_of(*benchmarks, **more):
    off = {"first_tokens": None, "probe_prompts": 0, "suspects": 0, "null_model_pairs": 0}
    return EvaluationParams.model_validate(off | {"benchmarks": benchmarks} | more)


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def rows_of(n, prompt="What color is the grass"):
    return [
        {"id": i, "subset": ("hep-go", "hep-js")[i % 2], "prompt": f"{prompt} {i}?"}
        | {"chosen": f"It is green {i}.", "rejected": "It is blue." + " the" * i, "more": None}
        for i in range(n)
    ]


def test_a_benchmark_is_scored_like_a_conversation_and_reported(whole, tmp_path):
    store, artifacts, pairs = whole
    rows = rows_of(5)
    rows[1]["prompt"] = pairs[0]["prompt"][0]["content"].upper()  # stands in the training pairs
    path = write(tmp_path / "rb.jsonl", rows)
    found = store.obtain(step(params_of({"name": "rewardbench", "path": path}), *artifacts))
    figures = json.loads((found.path / "benchmarks.json").read_bytes())["rewardbench"]
    table = pq.read_table(found.path / "benchmarks" / "rewardbench.parquet").to_pylist()

    model = artifacts[0].path / "model"
    reader, scorer = ItemReader(model, "quarantine"), RewardScorer(model)
    messages = [{"role": "user", "content": rows[0]["prompt"]}]
    messages.append({"role": "assistant", "content": rows[0]["chosen"]})
    tokenizer = reader.reader.tokenizer
    ids = tokenizer(tokenizer.apply_chat_template(messages, tokenize=False))["input_ids"]
    reward = scorer.rewards([np.asarray(ids, np.int32)])[0]
    assert table[0]["rewards"][0] == pytest.approx(reward, abs=1e-6)
    assert table[0]["tokens"][0] == len(ids)

    right = [row["rewards"][0] > row["rewards"][1] for row in table]
    assert [row["score"] for row in table] == right
    assert {row["correct"] for row in table} == {1}
    assert figures["sections"]["Reasoning"]["n"] == figures["items"] == 5
    assert figures["subsets"]["hep-js"]["score"] == (right[1] + right[3]) / 2
    assert figures["contamination"] == {"items": 5, "shared": 1, "share": 0.2, "ids": ["1"]}
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    assert metrics["benchmarks"]["rewardbench"] == figures
    names = {warning["figure"] for warning in metrics["warnings"]}
    assert {"benchmarks.rewardbench.contamination", "benchmarks.rewardbench.missing"} <= names
    assert "benchmarks.rewardbench.overall.score_low" in flat(metrics)
    official = json.loads((found.path / "benchmarks" / "rewardbench.json").read_bytes())
    assert official == {
        "model": f"reward-model-{artifacts[0].key}",
        "model_type": "Seq. Classifier",
        "chat_template": "tokenizer",
        **{name: subset["score"] for name, subset in figures["subsets"].items()},
    }
    head = found.report["benchmarks"]["rewardbench"]
    assert head["overall"] == figures["overall"]
    assert set(head["sections"]) == set(figures["sections"])
    assert "RewardBench" in (found.path / "report.html").read_text("utf-8")


def test_items_of_subsets_that_the_benchmark_does_not_have_are_counted_and_named(whole, tmp_path):
    store, artifacts, _ = whole
    rows = rows_of(5)
    for row, subset in zip(rows[:3], ("Hep-Go", "Hep-Go", "of\x1bmine"), strict=False):
        row["subset"] = subset
    path = write(tmp_path / "rb.jsonl", rows)
    found = store.obtain(step(params_of({"name": "rewardbench", "path": path}), *artifacts))
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    [told] = [
        w["message"] for w in metrics["warnings"] if w["figure"] == "benchmarks.rewardbench.unknown"
    ]
    assert told.startswith("RewardBench: 3 of 5 items are of subsets that it does not have, and ")
    assert "'Hep-Go' (2; did you mean 'hep-go'?), 'of\\x1bmine' (1); correct the names" in told
    lines = result_lines(
        {"metrics": {}, "registered": None, "benchmarks": found.report["benchmarks"]}
    )
    assert lines[0].startswith("benchmark: RewardBench ")
    assert lines[0].endswith(", on 2 of 5 items, not all of it")


def test_a_set_of_ones_own_has_the_mean_over_its_items_and_is_told_by_what_it_is_called(
    whole, tmp_path
):
    store, artifacts, _ = whole
    rows = [row | {"subset": "gold"} for row in rows_of(5)]
    path = write(tmp_path / "rb.jsonl", rows)
    gold = {"name": "rewardbench", "path": path, "called": "gold"}
    found = store.obtain(step(params_of(gold), *artifacts))
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    figures = metrics["benchmarks"]["gold"]
    assert (figures["overall"], figures["item_mean"]["n"]) == (None, 5)
    assert figures["item_mean"]["score"] == figures["subsets"]["gold"]["score"]
    benchmarks = found.report["benchmarks"]
    line = f"RewardBench (gold) has no score: {figures['item_mean']['score']:.3f} is the mean over"
    told = result_lines({"metrics": {}, "registered": None, "benchmarks": benchmarks})
    assert told == [f"benchmark: {line} 5 items, none is of a subset that it has"]
    assert [row[1:2] + row[-1:] for row in _benchmark_rows(benchmarks["gold"])] == [
        ("mean over items", "5")
    ]
    assert all(
        warning["message"].startswith("RewardBench (gold): ")
        for warning in metrics["warnings"]
        if warning["figure"].startswith("benchmarks.")
    )
    assert "mean over items" in (found.path / "report.html").read_text("utf-8")


def test_the_bytes_of_the_files_are_in_the_key_and_a_wrong_row_stops_at_once(whole, tmp_path):
    _, artifacts, _ = whole
    path = tmp_path / "rb.jsonl"
    params = params_of({"name": "rewardbench", "path": write(path, rows_of(2))})
    first = step(params, *artifacts)
    assert step(params, *artifacts).key == first.key
    write(path, rows_of(3))
    assert step(params, *artifacts).key != first.key
    with pytest.raises(DataError, match="changed while it was read"):
        Store(tmp_path / "data").obtain(first)
    write(path, [{"id": 1, "prompt": "P", "chosen": "a", "rejected": "b"}])
    with pytest.raises(DataError, match="needs column 'subset'"):
        Store(tmp_path / "data").obtain(step(params, *artifacts))


def test_long_items_lose_their_beginning_and_are_counted(whole, tmp_path):
    store, artifacts, _ = whole
    path = write(tmp_path / "rb.jsonl", rows_of(3))
    short = {"name": "rewardbench", "path": path, "max_length": 6, "called": "short"}
    found = store.obtain(step(params_of(short), *artifacts))
    figures = json.loads((found.path / "benchmarks.json").read_bytes())["short"]
    assert (figures["answers"], figures["truncated"], figures["max_length"]) == (6, 6, 6)
    item = Item(HERE, "0", "hep-go", "What color?", ("It is green.", "It is blue."), 1)
    reader = ItemReader(artifacts[0].path / "model", "quarantine")
    whole_ids, cut = reader.encode(item, None), reader.encode(item, 6)
    assert cut.ids[0].tolist() == whole_ids.ids[0][-6:].tolist()
    assert cut.tokens == whole_ids.tokens


@pytest.mark.parametrize("template", [None, "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_a_long_item_of_an_encoder_keeps_the_token_that_its_reward_is_read_at(template, tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sky", "is", "blue", "green"]
    tokenizer = BertTokenizer(vocab={word: n for n, word in enumerate(words)})
    tokenizer.chat_template = template and "{{ cls_token }}" + template
    tokenizer.save_pretrained(tmp_path)
    item = Item(HERE, "0", "hep-go", "the sky " * 9, ("is blue", "is green"), 1)
    reader = ItemReader(tmp_path, "quarantine")
    cut = reader.encode(item, 6)
    last = [side.tolist()[-5:] for side in reader.encode(item, None).ids]
    assert [side.tolist() for side in cut.ids] == [[tokenizer.cls_token_id, *ids] for ids in last]
    assert reader.encode(item, 1).ids[0].tolist() == [tokenizer.cls_token_id]


def test_a_special_token_in_an_item_is_plain_text_unless_the_model_kept_it(whole):
    _, artifacts, _ = whole
    model = artifacts[0].path / "model"
    safe, kept = ItemReader(model, "quarantine"), ItemReader(model, "keep")
    token = safe.reader.tokenizer.eos_token
    item = Item(HERE, "0", "hep-go", f"What is {token}?", ("It is green.", "It is blue."), 1)
    number = safe.reader.tokenizer.eos_token_id
    plain, genuine = safe.encode(item, None), kept.encode(item, None)
    assert (plain.forged, genuine.forged) == (2, 0)
    assert plain.ids[0].tolist().count(number) == genuine.ids[0].tolist().count(number) - 1
    clean = Item(HERE, "0", "hep-go", "What?", ("No.", "Yes."), 1)
    assert [i.tolist() for i in safe.encode(clean, None).ids] == [
        i.tolist() for i in kept.encode(clean, None).ids
    ]


def test_equal_answers_are_scored_and_tie(whole, tmp_path):
    store, artifacts, _ = whole
    rows = [rows_of(1)[0] | {"chosen": "No.", "rejected": "No."}]
    path = write(tmp_path / "rb.jsonl", rows)
    found = store.obtain(step(params_of({"name": "rewardbench", "path": path}), *artifacts))
    subset = json.loads((found.path / "benchmarks.json").read_bytes())["rewardbench"]["subsets"]
    assert (subset["hep-go"]["score"], subset["hep-go"]["ties"]) == (0, 1)


def test_an_item_that_the_template_refuses_is_left_out_counted_and_named(whole, tmp_path):
    store, artifacts, _ = whole
    rows = rows_of(2)
    rows[1]["prompt"] = [{"role": "assistant", "content": "I begin."}]
    shutil.copytree(artifacts[0].path / "model", tmp_path / "training" / "model")
    template = tmp_path / "training" / "model" / "chat_template.jinja"
    refuse = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}"
    template.write_text(refuse + template.read_text())
    strict = stored(store, "training", tmp_path / "training")
    path = write(tmp_path / "rb.jsonl", rows)
    params = params_of({"name": "rewardbench", "path": path})
    found = store.obtain(step(params, strict, *artifacts[1:]))
    metrics = json.loads((found.path / "metrics.json").read_bytes())
    figures = metrics["benchmarks"]["rewardbench"]
    assert (figures["items"], figures["unscored"], figures["overall"]["n"]) == (2, 1, 1)
    [left_out] = figures["unscored_items"]
    assert (left_out["file"], left_out["row"]) == ("rb.jsonl", 2)
    assert "user first" in left_out["unscored"]
    assert any(w["figure"] == "benchmarks.rewardbench.unscored" for w in metrics["warnings"])


def test_a_model_without_a_template_reads_text(whole, tmp_path):
    _, artifacts, _ = whole
    plain = tmp_path / "model"
    shutil.copytree(artifacts[0].path / "model", plain)
    (plain / "chat_template.jinja").unlink()
    reader = ItemReader(plain, "quarantine")
    item = Item(HERE, "0", "hep-go", "What color?", ("It is green.", "It is blue."), 1)
    text = reader.reader.tokenizer.decode(reader.encode(item, None).ids[0])
    assert text.startswith("What color?\nIt is green.")
    assert text.endswith(reader.reader.tokenizer.eos_token)
    turns = [{"role": "user", "content": " P"}, {"role": "user", "content": [_part("Q")]}]
    answer = [{"role": "assistant", "content": "A "}]
    [as_turns] = reader.encode(Item(HERE, "1", "s", turns, (answer,), 1), None).ids
    [as_text] = reader.encode(Item(HERE, "1", "s", "P\nQ", ("A",), 1), None).ids
    assert as_turns.tolist() == as_text.tolist()


def _part(text):
    return {"type": "text", "text": text}


def test_an_answer_whose_reward_is_no_number_is_named_by_its_file_and_row(whole, tmp_path):
    _, artifacts, _ = whole
    params = params_of({"name": "rewardbench", "path": write(tmp_path / "rb.jsonl", rows_of(3))})
    [benchmark] = params.benchmarks
    items = items_of(benchmark, benchmark_files(benchmark))
    scorer = RewardScorer(artifacts[0].path / "model")
    scorer.model.score.weight.data[:] = float("nan")
    work = passes.BenchmarkPasses(params, [(benchmark, items)], scorer, artifacts[1].path, None)
    with pytest.raises(ModelError, match=r"an answer of rb\.jsonl row 1 earns \[nan, nan\], exp"):
        work._part(items, None)


@pytest.mark.slow
def test_an_interrupted_benchmark_keeps_its_finished_items(whole, tmp_path, monkeypatch):

    _, artifacts, _ = whole
    monkeypatch.setattr(passes, "ITEMS_AT_ONCE", 2)
    calls = []
    part = passes.BenchmarkPasses._part

    def dies_at_the_second(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return part(self, *arguments)

    monkeypatch.setattr(passes.BenchmarkPasses, "_part", dies_at_the_second)
    path = write(tmp_path / "rb.jsonl", rows_of(5))
    work = step(params_of({"name": "rewardbench", "path": path}), *artifacts)
    store = Store(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        store.obtain(work)
    found = store.obtain(work)
    assert len(calls) == 2 + 2  # of items 0-1, 2-3 and 4 the first two are not repeated
    rewards = pq.read_table(found.path / "benchmarks" / "rewardbench.parquet")["rewards"]
    again = Store(tmp_path / "again").obtain(work)
    assert again.digest == found.digest
    assert len(rewards) == 5


def test_the_params_file_declares_benchmarks():
    given = ["evaluation.benchmarks=[{name: rewardbench, path: a}, {name: rewardbench, path: b}]"]
    with pytest.raises(ValueError, match="'rewardbench' stands twice"):
        load(ROOT / "params/quickstart.yaml", given)
    given = ["evaluation.benchmarks=[{name: judgebench, path: a.jsonl}]"]
    [found] = load(ROOT / "params/quickstart.yaml", given).evaluation.benchmarks
    assert (found.label, found.max_length) == ("judgebench", 2048)
