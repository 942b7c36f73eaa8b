"""Token ids of pairs and a base model -> a reward model directory, in a supervised child process.

    RewardTrainer, RewardConfig, DataCollatorForPreference     for whoever trains by hand
    load_reward_model, score                                   for whoever reads rewards
    TrainingParams, LoraParams                                 the `training:` section of a YAML

    params, task             the section's fields, and the stage
    process/, __main__       the child process: how it is started, supervised and reported on
    settings/                RewardConfig, and the checks of its values
    model/, scoring          loading, score head, adapters, padding; how a reward is read
    batches/                 raw or tokenized rows -> token ids -> a collated batch
    layout/                  how a batch lies in memory, and how batches are dealt to processes
    loss/, metrics/          losses; exact metrics of training and evaluation
    preflight/               the rehearsal before the first step, and what is done out of memory
    checkpoints/, handover/  what a killed run continues from; what a finished one leaves

RewardTrainer is built in layers, each a subclass of the one above it:

    transformers.Trainer
    MemoryAdaptiveTrainer   preflight/out_of_memory   a step out of memory is redone in parts
    EndingTrainer           checkpoints/ending        the order of logging, evaluating and saving
    SavingTrainer           checkpoints/saving        checkpoints are committed and rotated
    ResumableTrainer        checkpoints/resumable     training continues from one
    SharedTrainer           handover/hub              model card, tags, score contract
    HeldOutTrainer          metrics/held_out          which rows are evaluated
    EvaluatingTrainer       metrics/evaluating        metrics from the table of all pairs
    GlobalBatchTrainer      global_batches            global batches split by their tokens
    BatchLossTrainer        batch_loss                the loss, and what is logged of it
    RewardTrainer           trainer                   the arguments, and how all is put together

The names are handed out on first use: importing this package does not import torch.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.training.batches.collator import DataCollatorForPreference
    from tasks.training.model.loading import load_reward_model
    from tasks.training.params import LoraParams, TrainingParams
    from tasks.training.scoring import score
    from tasks.training.settings.config import RewardConfig
    from tasks.training.trainer import RewardTrainer

__all__ = [
    "DataCollatorForPreference",
    "LoraParams",
    "RewardConfig",
    "RewardTrainer",
    "TrainingParams",
    "load_reward_model",
    "score",
]

# On some CPUs bitsandbytes, which peft imports, warns of a kernel that is never used here: 4-bit
# layers compute exactly (model/quantized.py).
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

_HOMES = {
    "DataCollatorForPreference": "batches.collator",
    "LoraParams": "params",
    "RewardConfig": "settings.config",
    "RewardTrainer": "trainer",
    "TrainingParams": "params",
    "load_reward_model": "model.loading",
    "score": "scoring",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
