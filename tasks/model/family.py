"""Whether transformers can give a family of models a reward head: its sequence classifier.

Without one, training would find it out when all data have been prepared.
"""

from pathlib import Path

from tasks.errors import ModelError, shown


def check_family(name: str | Path, model_type: object) -> None:
    """Refuses a family that this transformers has no sequence classifier of, by its `model_type`.

    Raises:
        ModelError: as above.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS,
    )

    if model_type not in CLASSIFIERS:
        raise without_classifier(name, model_type)


def without_classifier(name: str | Path, model_type: object) -> ModelError:
    """What a family without a sequence classifier is refused with."""
    from transformers import __version__

    return ModelError(
        f"{name} is of the family {shown(str(model_type))}, for which transformers {__version__} "
        "has no sequence classifier, so it cannot be given a reward head; use one of a family that "
        "has one (Llama, Qwen, Mistral, Gemma 3, OLMo 2, ...)"
    )
