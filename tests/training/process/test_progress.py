"""What a run prints and writes of its progress, and which rows a failure is said to come from."""

import json
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import PrinterCallback

from tasks.conversion.shards import PAIRS
from tasks.errors import ArtifactError, TrainingError
from tasks.tokenization.shards import TOKENIZER_DIRECTORY
from tasks.training.__main__ import run
from tasks.training.checkpoints.stopping import StopRequest
from tasks.training.params import TrainingParams
from tasks.training.process.job import Job
from tasks.training.process.origins import with_origins
from tasks.training.process.progress import ProgressCallback, line
from tests.training.settings.test_arguments import make
from tests.training.tiny import make_rows, write_pairs


def test_every_record_is_a_printed_line_and_one_of_json_with_its_speed(base, tmp_path, capsys):
    fields = {"eval_strategy": "steps", "eval_steps": 2, "per_device_train_batch_size": 4}
    trainer = make(base, tmp_path, eval_dataset=make_rows(4), fields=fields)
    trainer.remove_callback(PrinterCallback)
    (tmp_path / "logs").mkdir()
    trainer.add_callback(ProgressCallback(trainer, tmp_path / "logs/metrics.jsonl"))
    trainer.train()
    written = (tmp_path / "logs/metrics.jsonl").read_text().splitlines()
    records = [json.loads(text) for text in written]
    kept = [r for r in trainer.state.log_history if "train_runtime" not in r]
    first, second, evaluated = records
    for record, own in zip(records, kept, strict=True):
        assert {name: record[name] for name in own} == own
        assert record["max_steps"] == 2
        assert record["time"] > 1.7e9  # seconds since 1970
    assert (first["pairs"], second["pairs"]) == (4, 8)
    assert first["pairs_per_second"] > 0
    assert not {"seconds", "pairs", "pairs_per_second", "memory_gigabytes"} & set(evaluated)
    forecast = json.loads((tmp_path / "logs/preflight.json").read_text())
    assert forecast == asdict(trainer.forecast)
    told = [trainer.forecast.line(), *map(line, records)]
    assert capsys.readouterr().out.splitlines() == told


def test_a_run_that_goes_on_tells_the_speed_of_its_own_pairs_and_no_forecast(
    base, tmp_path, capsys
):
    fields = {"per_device_train_batch_size": 4, "save_strategy": "steps", "save_steps": 1}
    make(base, tmp_path, fields=fields).train()
    trainer = make(base, tmp_path, fields=fields)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressCallback(trainer, tmp_path / "metrics.jsonl"))
    capsys.readouterr()
    trainer.train(str(tmp_path / "checkpoint-1"))
    [record] = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert record["pairs"] == 8  # of the whole run
    assert record["pairs_per_second"] * record["seconds"] == pytest.approx(4, rel=0.2)
    assert capsys.readouterr().out.splitlines() == [line(record)]
    assert not (tmp_path / "preflight.json").exists()


def job_of(base, pairs, directory, **fields):
    params = TrainingParams(device="cpu", torch_num_threads=1, preflight=False, **fields)
    return Job(
        *(str(base), "base", str(pairs / TOKENIZER_DIRECTORY), str(pairs)),
        *(str(directory / "out"), str(directory)),
        params=params.model_dump(mode="json"),
        identity={},
    )


@pytest.mark.parametrize(
    ("split", "fields", "said"),
    [
        ("eval", {}, "holds no training pairs"),
        ("train", {"eval_strategy": "epoch"}, r"holds no held-out pairs, .*leave these out, or"),
        ("train", {"eval_on_start": True}, "holds no held-out pairs, which training.eval_strategy"),
    ],
)
def test_a_run_without_the_pairs_that_it_asks_for_says_which(base, tmp_path, split, fields, said):
    pairs = write_pairs(tmp_path / "pairs", make_rows(4), split)
    with pytest.raises(TrainingError, match=said):
        run(job_of(base, pairs, tmp_path, **fields), StopRequest())


def test_a_record_that_finds_no_room_is_told_as_a_full_disk(base, pairs, tmp_path):
    job = job_of(base, pairs, tmp_path, logging_steps=1)
    (tmp_path / "out/logs").mkdir(parents=True)
    (tmp_path / "out/logs/metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(ArtifactError, match=r"write below .*: No space left .* so make room and"):
        run(job, StopRequest())


def test_a_line_has_the_figures_that_tell_how_a_run_goes():
    record = {"step": 40, "max_steps": 116, "num_tokens": 9, "loss": 0.4123, "accuracy": 0.81}
    record |= {"margin": -1.234, "min_reward": 2.0, "grad_norm": 1.5, "learning_rate": 1e-4}
    record |= {"seconds": 3.0, "pairs_per_second": 1234.4, "tokens_per_second": 56_789.0}
    assert line({**record, "memory_gigabytes": 3.21, "pairs": 320, "time": 1.0}) == (
        "step 40/116  loss 0.412  accuracy 0.810  margin -1.23  grad norm 1.5  "
        "learning rate 1.00e-04  1,234 pairs/s  56,789 tokens/s  3.2 GB"
    )
    record = {"step": 2, "max_steps": 2, "eval_loss": 0.5, "eval_accuracy": 1, "eval_runtime": 1.0}
    assert line(record) == "step 2/2  eval loss 0.5  eval accuracy 1.000"


@pytest.mark.parametrize("count", [0, 1, 5, 7])
def test_a_message_that_names_pairs_says_where_the_first_of_them_come_from(tmp_path, count):
    ids = [f"{number:032x}" for number in range(10)]
    (tmp_path / PAIRS).mkdir()
    for shard in range(2):
        own = range(5 * shard, 5 * shard + 5)
        columns = {
            "pair_id": [ids[n] for n in own],
            "source": ["votes"] * 5,
            "file": ["my votes.jsonl"] * 5,
            "row": [10 * n for n in own],
            "prompt": ["?"] * 5,
        }
        pq.write_table(pa.table(columns), tmp_path / PAIRS / f"{shard:05d}.parquet")
    named = ids[1 : 1 + count]
    message = f"not finite (pairs {', '.join(named)}; hash {'f' * 31}, {'f' * 33})"
    told = [
        f"pair {ids[n]} is 'my votes.jsonl' row {10 * n} of source votes"
        for n in range(1, 1 + min(count, 5))
    ]
    assert with_origins(message, tmp_path) == "; ".join([message, *told])
