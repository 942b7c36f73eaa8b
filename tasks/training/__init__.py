"""Token ids of pairs and a base model -> a reward model directory, through a guarded child process.

    RewardTrainer, RewardConfig, DataCollatorForPreference     for whoever trains by hand
    load_reward_model, score                                   for whoever reads rewards
    TrainingParams, LoraParams                                 the `training:` section of a YAML

The names are handed out on first use: importing this package costs no torch.
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
