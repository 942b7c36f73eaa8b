"""The `model:` section: which base model and tokenizer the reward model starts from."""

from typing import Self

from pydantic import Field, model_validator

from tasks.artifact import Params
from tasks.ingestion.places.downloads import is_url


class ScratchParams(Params):
    """A model built from a config with seeded weights, and a tokenizer trained on the data."""

    architecture: str = "qwen3"
    """A `model_type` of transformers that has a causal language model: qwen3, llama, ..."""
    vocab_size: int = Field(default=2048, ge=300)
    """Size to which the byte-level BPE vocabulary is trained; small data may end below it."""
    hidden_size: int = Field(default=128, ge=8)
    intermediate_size: int = Field(default=384, ge=8)
    num_hidden_layers: int = Field(default=2, ge=1)
    num_attention_heads: int = Field(default=4, ge=1)
    num_key_value_heads: int = Field(default=2, ge=1)
    head_dim: int | None = Field(default=None, ge=2)
    """None: hidden_size / num_attention_heads."""
    max_position_embeddings: int = Field(default=4096, ge=16)
    tie_word_embeddings: bool = True
    seed: int = Field(default=0, ge=-(2**63), lt=2**64)
    """Seed of the weights."""


class ModelParams(Params):
    """Exactly one of `path`, `hub` and `scratch`."""

    path: str | None = None
    """A local directory in Hugging Face's layout: config.json, safetensors, tokenizer."""
    hub: str | None = None
    """A repository on the hub, `owner/name`."""
    revision: str = "main"
    """Commit, tag or branch on the hub; what moves is resolved to its commit first."""
    scratch: ScratchParams | None = None

    @model_validator(mode="after")
    def _exactly_one_origin(self) -> Self:
        given = [n for n in ("path", "hub", "scratch") if getattr(self, n) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"needs exactly one of path, hub and scratch, found {found}")
        if self.hub is None and "revision" in self.model_fields_set:
            raise ValueError("revision is for a `hub` model only")
        if self.path is not None and is_url(self.path):
            raise ValueError("path is a URL; give a local directory, or `hub` for a repository")
        return self
