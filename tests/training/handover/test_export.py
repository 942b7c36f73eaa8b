"""What training leaves does not depend on where it ran."""

import shutil

from peft import LoraConfig

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import export
from tests.training.tiny import QUIET, make_rows


def test_an_adapter_is_the_same_bytes_wherever_its_base_model_stands(base, tmp_path):
    written = []
    for place in ("here", "there"):
        trainer = RewardTrainer(
            shutil.copytree(base, tmp_path / place / "base"),
            RewardConfig(output_dir=str(tmp_path / "runs"), **QUIET),
            train_dataset=make_rows(4),
            peft_config=LoraConfig(r=2, target_modules=["q_proj"]),
        )
        output = tmp_path / place / "out"
        export(trainer, output, tokens=0)
        files = [path for path in output.rglob("*") if path.is_file()]
        written.append({path.relative_to(output): path.read_bytes() for path in files})
    assert written[0] == written[1]
