"""The base model and its tokenizer: a local directory, a hub snapshot, or built from scratch."""

from tasks.model.directory import BaseModel
from tasks.model.params import ModelParams, ScratchParams
from tasks.model.task import base_model, step

__all__ = ["BaseModel", "ModelParams", "ScratchParams", "base_model", "step"]
