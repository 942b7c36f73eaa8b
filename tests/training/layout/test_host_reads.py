"""Between two logged records the host reads nothing back from the device, on our account.

On a CPU every read is counted by who asks; on a GPU torch itself tells of every wait.
"""

import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from tasks.training import RewardConfig, RewardTrainer
from tests.at_length import at_length
from tests.training.tiny import make_rows

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "nonzero")
FIRST, LAST = 3, 9
OURS = str(Path(__file__).parents[3] / "tasks")


class Watch(TrainerCallback):
    """Starts before step FIRST and stops behind step LAST; none of them is logged."""

    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def on_step_begin(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == FIRST - 1:
            self.start()

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == LAST:
            self.stop()


def trainer_for(base, directory, callback, **fields):
    return RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            layout="prefix_shared",
            max_steps=LAST + 1,
            logging_steps=100,
            per_device_train_batch_size=4,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **fields,
        ),
        train_dataset=Dataset.from_list(make_rows(60, margin=True)),
        callbacks=[callback],
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"gradient_accumulation_steps": 2, "center_rewards_coefficient": 0.01},
        *at_length({}, {"max_tokens_per_micro_batch": 40}),
    ],
    ids=["accumulated", "plain", "budget"],
)
def test_only_the_guard_reads_and_only_what_it_has_on_the_host(base, tmp_path, fields):
    read: Counter[str] = Counter()
    patched = pytest.MonkeyPatch()

    def start():
        for name in READS:
            patched.setattr(torch.Tensor, name, counted(name, getattr(torch.Tensor, name)))

    def counted(name, inner):
        def reading(self, *args, **kwargs):
            file = sys._getframe(1).f_code.co_filename
            who = Path(file).name if file.startswith(OURS) else "others"
            read[f"{who} {name}"] += 1
            return inner(self, *args, **kwargs)

        return reading

    trainer = trainer_for(base, tmp_path, Watch(start, patched.undo), use_cpu=True, **fields)
    assert trainer.layout == "prefix_shared"
    try:
        trainer.train()
    finally:
        patched.undo()
    steps = LAST - FIRST + 1
    ours = {who: count for who, count in read.items() if not who.startswith("others")}
    print({who: count / steps for who, count in read.items()}, "a step")
    # The guard's numbers are on the host when it looks: see _to_host in guard.py.
    assert ours == {"guard.py cpu": steps, "guard.py tolist": steps, "guard.py __bool__": steps}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_never_waited_for_between_two_records(base, tmp_path):
    caught: list[str] = []
    catching = warnings.catch_warnings(record=True)

    def start():
        caught.append(catching.__enter__())
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")

    def stop():
        torch.cuda.set_sync_debug_mode("default")
        catching.__exit__(None, None, None)

    trainer_for(base, tmp_path, Watch(start, stop), bf16=True).train()
    waits = [w for w in caught[0] if "synchroniz" in str(w.message)]
    places = Counter(f"{Path(w.filename).name}:{w.lineno}" for w in waits)
    print({place: count / (LAST - FIRST + 1) for place, count in places.items()}, "a step")
    assert not [w for w in waits if w.filename.startswith(OURS)]
