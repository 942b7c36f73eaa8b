"""A model directory -> a reward model that can be trusted: one finite float32 reward, a known head.

What is refused is refused here, before any training (see `soundness`): code or pickles in the
directory, weights that are missing or not finite, more labels than one.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import CONFIG_NAME
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from tasks.errors import ModelError
from tasks.model.weights import weight_files
from tasks.training.model.score_head import Head, draw_head, head_digest, read_head
from tasks.training.model.soundness import (
    check_directory,
    check_finite,
    check_keys,
    check_labels,
    place_of,
)
from tasks.training.model.whole import loaded_whole
from tasks.training.scoring import HEAD, head_names, is_decoder, read_by_length


@dataclass(frozen=True)
class RewardModel:
    """A model whose rewards are read by `score`, and the origin of its head."""

    model: PreTrainedModel
    head: Head


def load_reward_model(
    path: str | Path,
    *,
    dtype: str | torch.dtype = "float32",
    seed: int = 0,
    need_head: bool = False,
    **options: Any,
) -> RewardModel:
    """The reward model of a directory (or hub id), with a head drawn from `seed` if it has none.

    `options` go to `from_pretrained`; torch_dtype is an older name of dtype. With `need_head` a
    directory without a head is refused, as evaluation and serving must.

    Raises:
        ModelError: the directory cannot serve as a reward model; says why and what to do.
    """
    dtype = options.pop("torch_dtype", dtype)
    trusted = bool(options.get("trust_remote_code"))
    check_directory(Path(path), trusted)
    check_labels(path, trusted, options)
    with torch.random.fork_rng(), _quiet_loading():
        torch.manual_seed(seed)
        model, loading = _from_pretrained(str(path), dtype, options)
    redrawn = _redrawn(loading) if options.get("ignore_mismatched_sizes") else set[str]()
    missing = check_keys(path, model, loading)
    missing += sorted(name for name in redrawn if name.startswith(head_names(model)))
    check_finite(path, model, known=missing)
    if missing and need_head:
        raise ModelError(
            f"{path} has no score head ({missing[0]} is missing); it was never trained"
        )
    realign(model)
    read_by_length(model)
    files = weight_files(_files_of(path, options), options.get("variant"))
    read_head(files, model, known=missing)
    if missing and is_decoder(model):
        draw_head(getattr(model, HEAD), model.config, seed)
    model.config.problem_type = "regression"
    model.config.id2label, model.config.label2id = {0: "reward"}, {"reward": 0}
    return RewardModel(model, Head("new" if missing else "loaded", head_digest(model)))


def _from_pretrained(
    path: str, dtype: str | torch.dtype, options: dict[str, Any]
) -> tuple[PreTrainedModel, dict[str, Any]]:
    fixed = {"num_labels": 1, "use_safetensors": True, "output_loading_info": True}
    arguments = {"dtype": dtype, "trust_remote_code": False, **options, **fixed}
    arguments.setdefault("ignore_mismatched_sizes", True)  # refused by `check_keys`, by name
    # transformers looks for an adapter in its usual cache and on the hub, unless told once more.
    arguments.setdefault("adapter_kwargs", place_of(options, ("cache_dir", "local_files_only")))
    try:
        with loaded_whole():
            return AutoModelForSequenceClassification.from_pretrained(path, **arguments)
    except SafetensorError as error:
        raise ModelError(
            f"{path} holds a safetensors file that is cut or damaged ({error}); copy or download "
            "the model's files again"
        ) from error
    except (ValueError, OSError, RuntimeError, TypeError, AttributeError, ImportError) as error:
        raise ModelError(f"{path} cannot be loaded as a reward model: {error}") from error


def realign(model: nn.Module) -> None:
    """Moves every weight out of the file that it is mapped from, into memory of its own.

    A tensor starts anywhere in a file, and products over unaligned memory end in other last digits:
    measured as a reward that changes by one unit in the last place over save and load.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.device.type == "cpu" and parameter.is_floating_point():
                parameter.data = parameter.data.clone()


def _redrawn(loading: dict[str, Any]) -> set[str]:
    """Names of weights of another shape, which transformers drew anew: `check_keys` is not to
    refuse them."""
    names = {name for name, *_ in loading["mismatched_keys"]}
    loading["mismatched_keys"] = ()
    return names


def _files_of(path: str | Path, options: dict[str, Any]) -> Path:
    """The directory of the files that a model was loaded from: of a hub id, in the cache."""
    if Path(path).is_dir():
        return Path(path)
    cached: Any = cached_file(
        str(path),
        CONFIG_NAME,
        **{**place_of(options), "local_files_only": True, "force_download": False},
    )
    return Path(cached).parent


@contextmanager
def _quiet_loading() -> Generator[None, None, None]:
    """Silences the table of missing keys: the keys are checked here, with plain sentences."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
