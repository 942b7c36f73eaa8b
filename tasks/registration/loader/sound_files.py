"""The model of a directory and its tokenizer, refused if a file is damaged or a weight is missing:
transformers would draw it at random.

Travels inside the registered model: it may import only modules that travel with it.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tasks.training.model.whole import loaded_whole


def tokenizer_of(directory: Path) -> Any:
    """The tokenizer.

    Raises:
        ValueError: transformers cannot load it.
    """
    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # of any class: a file is cut, a library missing
        said = " ".join(str(error).split())[:400]
        raise ValueError(
            f"the tokenizer in {directory} cannot be loaded ({type(error).__name__}: {said}); copy "
            "or download the model's files again"
        ) from error


def model_of(directory: Path) -> Any:
    """The model, in float32.

    Raises:
        ValueError: a file is cut or damaged, a weight is missing or of another shape, or its head
            gives several figures.
    """
    try:
        with loaded_whole():
            model, loading = AutoModelForSequenceClassification.from_pretrained(
                directory,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
            )
    except SafetensorError as error:
        raise ValueError(
            f"{directory} holds a safetensors file that is cut or damaged ({error}); copy or "
            "download the model's files again"
        ) from error
    for name, shape, expected in sorted(loading["mismatched_keys"]):
        raise ValueError(
            f"{directory}: {name} has shape {[*shape]}, and config.json expects {[*expected]}: "
            "they are of two models; copy or download the model's files again"
        )
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(
            f"{directory} lacks {', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}, so "
            "its rewards would be random; give a trained reward model: a registered version, or "
            "the folder `model` of a training"
        )
    if model.config.num_labels != 1:
        raise ValueError(
            f"{directory} classifies into {model.config.num_labels} labels, and a reward model has "
            "one; give a model that was trained with num_labels=1"
        )
    return model
