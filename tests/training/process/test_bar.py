"""What a person at a terminal sees of a run, and what a log file gets instead."""

import fcntl
import os
import re
import resource
import struct
import sys
import termios
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from tasks.training import RewardConfig, RewardTrainer, speed
from tasks.training.bar import figures, short
from tasks.training.speed import Speed
from tests.training.loss.test_own_loss import Written
from tests.training.settings.test_arguments import make
from tests.training.tiny import make_rows


def run(base, directory, stream=False, kind=RewardTrainer):
    rows, held_out = (Dataset.from_list(each) for each in (make_rows(24), make_rows(9, seed=1)))
    trainer = kind(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            use_cpu=True,
            gradient_checkpointing=False,
            per_device_train_batch_size=4,
            max_steps=6,
            logging_steps=3,
            eval_strategy="steps",
            eval_steps=3,
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=rows.to_iterable_dataset() if stream else rows,
        eval_dataset=held_out.to_iterable_dataset() if stream else held_out,
    )
    trainer.train()
    trainer.evaluate()
    return trainer


def written_to_a_terminal(monkeypatch, work):
    """What `work` writes to standard error, which is a terminal of 80 columns."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = []

    def read():
        while data := os.read(master, 65536):
            seen.append(data)
            if data.endswith(b"\x04end"):
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    screen = os.fdopen(slave, "w")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        work()
    screen.write("\x04end")
    screen.close()
    reader.join(10)
    os.close(master)
    return b"".join(seen).decode()


@pytest.mark.parametrize("stream", [False, True], ids=["data set", "stream"])
def test_a_terminal_shows_speed_loss_accuracy_margin_memory_and_totals(
    base, tmp_path, monkeypatch, stream
):
    trainers = []
    written = written_to_a_terminal(
        monkeypatch, lambda: trainers.append(run(base, tmp_path, stream))
    )
    frames = re.split(r"[\r\n]+|\x1b\[A", written)
    last = next(f for f in reversed(frames) if "pairs/s" in f)
    assert re.search(r"100%\|█+\| 6/6 \[\d\d:\d\d<00:00, [\d.k]+ pairs/s, [\d.k]+ tokens/s\]", last)
    tokens = next(r["num_tokens"] for r in reversed(trainers[0].state.log_history) if "loss" in r)
    shown = next(f for f in reversed(frames) if " GB  24 pairs  " in f)
    pattern = rf"loss [\d.]+  accuracy [\d.]+  margin -?[\d.e-]+  [\d.]+ GB  24 pairs  {tokens} "
    assert re.search(pattern, shown)
    assert "step 3  eval loss 0." in written
    assert all(len(re.sub(r"\x1b\[.", "", frame)) <= 80 for frame in frames if "pairs" in frame)


def test_without_a_terminal_every_record_is_one_plain_line(base, tmp_path, capfd):
    run(base, tmp_path)
    out, err = capfd.readouterr()
    assert [line.partition("  ")[0] for line in out.splitlines()] == [
        *("step 3/6", "step 3/6", "step 6/6", "step 6/6", "step 6/6")
    ]
    assert re.match(
        r"step 3/6  loss [\d.]+  accuracy .* GB  12 pairs  \d+ tokens  \S+ pairs/s", out
    )
    assert "pairs/s" not in err
    assert "/6" not in err


@pytest.mark.parametrize("terminal", [False, True])
def test_a_loss_of_one_s_own_that_counts_no_pairs_is_shown_without_them(
    base, tmp_path, monkeypatch, capfd, terminal
):
    def work():
        run(base, tmp_path, kind=Written)

    if terminal:
        shown = written_to_a_terminal(monkeypatch, work)
        assert re.search(r" 6/6 \[\d\d:\d\d<00:00\]", shown)
    else:
        work()
        shown = capfd.readouterr().out
        assert re.match(r"step 3/6  loss [\d.]+  [\d.]+ GB\nstep 3/6  eval loss .*\d\n", shown)
    assert re.search(r"loss [\d.]+  [\d.]+ GB", shown)
    assert not re.search("pairs|tokens", shown)


def test_speeds_are_those_since_the_record_before(base, tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    trainer = make(base, tmp_path)
    trainer.interval.pairs_before, trainer.interval.tokens_before = 12, 300  # of a resumed run
    found = Speed(trainer)
    for seconds, pairs, tokens, pairs_per_second, tokens_per_second in (
        (4.0, 20, 1000, (20 - 12) / 4, (1000 - 300) / 4),
        (0.5, 21, 1010, (21 - 20) / 0.5, (1010 - 1000) / 0.5),
        (0.0, 21, 1010, 0, 0),
    ):
        now[0] += seconds
        trainer.interval.pairs_before, trainer.interval.tokens_before = pairs, tokens
        figures = found.of_interval()
        memory = figures.pop("memory_gigabytes")
        assert figures == {
            "seconds": seconds,
            "pairs_per_second": pairs_per_second,
            "tokens_per_second": tokens_per_second,
            "pairs": pairs,
        }
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        assert memory == pytest.approx(most, rel=0.1)


def test_numbers_have_three_digits():
    assert [short(n) for n in (0, 7.4, 999, 12_345, 4_567_890)] == [
        "0",
        "7",
        "999",
        "12.3k",
        "4.57M",
    ]
    record = {"eval_held_loss": np.float32(0.51234), "eval_held_accuracy": 0.5, "epoch": 1}
    record |= {"eval_by_group_accuracy": [0.5, 1.0], "eval_of_none_loss": None}  # a user's own
    assert figures(record) == "eval held loss 0.512  eval held accuracy 0.500"
