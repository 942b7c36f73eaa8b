"""Runs RewardTrainers in every process of a launch, so that a test can compare them with one.

python -m torch.distributed.run --nproc_per_node 2 -m tests.training.process.two_processes \
    BASE CASES_JSON OUT_DIRECTORY
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from datasets import Dataset
from torch._dynamo.utils import counters

from tasks.training import RewardConfig, RewardTrainer
from tests.training.process.leaving import leave_together
from tests.training.tiny import make_rows

REPOSITORY = Path(__file__).parents[3]


class OwnLoss(RewardTrainer):
    """Whose loss is RewardTrainer's, of whose making the evaluation knows nothing."""

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        rewards = model(inputs["input_ids"], inputs["attention_mask"]).logits.squeeze(-1)
        chosen, rejected = rewards.chunk(2)
        loss = -torch.nn.functional.logsigmoid(chosen - rejected).mean()
        return (loss, {"rewards": rewards}) if return_outputs else loss


def history(base, directory, case):
    """What a run of `case` logs; of it `rows` (a list or a number), `stream` (of how many files),
    `own_loss`, `held_out` (a number of rows, whose loss is in the last record) and `fields`."""
    rows = case["rows"] if isinstance(case["rows"], list) else make_rows(case["rows"], margin=True)
    rows = Dataset.from_list(rows)
    fields = {
        "use_cpu": True,
        "gradient_checkpointing": False,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "preflight": False,
        **case["fields"],
    }
    trainer = (OwnLoss if case.get("own_loss") else RewardTrainer)(
        str(base),
        RewardConfig(output_dir=str(directory), **fields),
        train_dataset=rows.to_iterable_dataset(case["stream"]) if case.get("stream") else rows,
    )
    trainer.train()
    records = [record for record in trainer.state.log_history if "loss" in record]
    if case.get("held_out"):
        held_out = Dataset.from_list(make_rows(case["held_out"], seed=1))
        records[-1]["eval_loss"] = trainer.evaluate(held_out)["eval_loss"]
    return records


def histories_of_two(base, directory, cases, **environment):
    """The histories of all cases in two processes, of one launch; the last record says how
    many `graphs` were compiled."""
    directory.mkdir(parents=True)
    (directory / "cases.json").write_text(json.dumps(cases))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    words = [
        "-m",
        "tests.training.process.two_processes",
        base,
        directory / "cases.json",
        directory,
    ]
    done = subprocess.run(
        [*launch, *map(str, words)],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return {name: json.loads((directory / f"{name}.json").read_text()) for name in cases}


if __name__ == "__main__":
    base, cases, out = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    for name, case in json.loads(cases.read_text()).items():
        counters.clear()
        found = history(base, out / f"run-{name}", case)
        found[-1]["graphs"] = counters["stats"]["unique_graphs"]
        if os.environ["RANK"] == "0":
            (out / f"{name}.json").write_text(json.dumps(found))
    leave_together()
