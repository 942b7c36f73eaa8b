"""The trainer learns: real pairs to the last one, and the samples whatever the seed."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset

from tasks.model.params import ScratchParams
from tasks.model.scratch import build_scratch
from tasks.training import RewardConfig, RewardTrainer

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2)
LONGEST = 2500
"""Characters of a pair."""
QUICKSTART_ACCURACY = 0.85


@pytest.fixture(scope="module")
def real_pairs(shared_data) -> list[dict]:
    """The first 64 English pairs that are no longer than a page, as they are in the file."""
    with gzip.open(shared_data / "llamafactory_dpo_en/dpo_en_demo.json.gz") as file:
        rows = json.load(file)
    who = {"system": "system", "human": "user", "gpt": "assistant"}
    pairs = [
        {
            "prompt": [
                {"role": who[m["from"]], "content": m["value"]} for m in row["conversations"]
            ],
            **{
                side: [{"role": "assistant", "content": row[side]["value"]}]
                for side in ("chosen", "rejected")
            },
        }
        for row in rows
    ]
    return [pair for pair in pairs if len(json.dumps(pair)) < LONGEST][:64]


@pytest.mark.slow
def test_a_tiny_model_overfits_sixty_four_real_pairs(real_pairs, tmp_path):
    words = (turn["content"] for row in real_pairs for turns in row.values() for turn in turns)
    (tmp_path / "base").mkdir()
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    build_scratch(ScratchParams(vocab_size=1000, **sizes), words, tmp_path / "base")
    trainer = RewardTrainer(
        str(tmp_path / "base"),
        RewardConfig(
            output_dir=str(tmp_path / "run"),
            use_cpu=True,
            gradient_checkpointing=False,
            disable_tqdm=True,
            max_length=1024,
            learning_rate=2e-3,
            num_train_epochs=12,
            per_device_train_batch_size=8,
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            seed=0,
        ),
        train_dataset=Dataset.from_list(real_pairs),
        eval_dataset=Dataset.from_list(real_pairs),
    )
    assert len(trainer.train_dataset) == 64
    trainer.train()
    found = trainer.evaluate()
    assert found["eval_accuracy"] == 1.0
    assert found["eval_loss"] < 0.1


@pytest.mark.slow
def test_the_samples_are_learned_from_every_seed(tmp_path):
    """The quickstart with another head and another order of the pairs each time."""
    found = {}
    for seed in SEEDS:
        words = ["params/quickstart.yaml", f"training.seed={seed}", "--until", "evaluation"]
        done = subprocess.run(
            [sys.executable, "-m", "flows", "run", *words, "--root", str(tmp_path), "--json"],
            cwd=ROOT,
            env={**os.environ, "PREFECT_LOGGING_LEVEL": "ERROR"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        path = Path(json.loads(done.stdout)["stages"]["evaluation"]["path"])
        metrics = json.loads((tmp_path / path / "metrics.json").read_text())
        found[seed] = metrics["overall"]["accuracy"]
    print(found)
    assert min(found.values()) >= QUICKSTART_ACCURACY, found
