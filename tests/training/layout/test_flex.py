"""The attention that the GPU benchmark holds ours against computes the same; the script runs."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AttentionInterface

from tasks.training.layout.attention import FLAT, flat_attention
from tasks.training.layout.on_device import Layout
from tasks.training.layout.plan import flat_plan
from tasks.training.scoring import score_flat
from tests.benchmarks.flex import seen_rows, use_flex
from tests.training.layout.test_layout import reward_model


@pytest.fixture
def _flex():
    use_flex(compiled=False)
    yield
    AttentionInterface.register(FLAT, flat_attention)


def test_a_row_sees_its_prompt_and_its_own_block_up_to_itself():
    prompt = [7, 8, 9]
    plan = flat_plan([np.array([*prompt, *rest]) for rest in ([1, 2], [3], [4, 5])], [0, 0, 0])
    layout = Layout(plan.blocks, torch.from_numpy(plan.last))
    own, home, seen = seen_rows(layout, 10)
    assert own.tolist() == [0] * 5 + [5] + [6] * 2 + [8, 9]
    assert home.tolist() == [0] * 10
    assert seen.tolist() == [0] * 5 + [3] * 3 + [0] * 2


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("_flex")
@pytest.mark.parametrize("answers", [2, 4])
def test_rewards_are_those_of_our_attention(answers):
    model = reward_model("qwen3")
    rng = np.random.default_rng(0)
    sequences, groups = [], []
    for group in range(3):
        prompt = rng.integers(5, 60, 20 + 90 * group)
        for _ in range(answers):
            sequences.append(np.concatenate([prompt, rng.integers(5, 60, rng.integers(3, 70))]))
            groups.append(group)
    plan = flat_plan(sequences, groups)
    with torch.no_grad():
        theirs = score_flat(model, plan)
        AttentionInterface.register(FLAT, flat_attention)
        ours = score_flat(model, plan)
    assert torch.allclose(theirs, ours, rtol=0, atol=1e-5)
    assert ours.std() > 1e-3


@pytest.mark.slow
def test_the_script_for_gpus_runs_on_a_processor(tmp_path):
    pytest.importorskip("trl", reason="trl, which the script compares with, is not installed")
    out = tmp_path / "gpu.json"
    names = [
        "peer_default",
        "peer_best",
        "peer_sorted",
        "ours",
        "ours_checkpointed",
    ]  # flex has no gradients here
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--sizes", "tiny", "--lengths", "hh"]
    command += ["--steps", "5", "--repeats", "1", "--max-length", "128", "--json", str(out)]
    subprocess.run([*command, "--contestants", *names], check=True, capture_output=True)
    runs = {run["who"]: run for run in json.loads(out.read_text())["runs"]}
    assert [*runs] == names
    for run in runs.values():
        assert "failed" not in run
        assert math.isfinite(run["pairs_per_second"])
        assert run["computed_tokens_per_second"] > 0
    for who in ("ours", "ours_checkpointed"):
        assert runs[who]["reward_difference"] < 0.01  # of bfloat16
