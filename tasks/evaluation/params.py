"""The params of evaluation."""

from typing import Annotated

from pydantic import Field

from tasks.artifact import Inert, Params


class EvaluationParams(Params):
    """How the held-out pairs are scored, and which figures are made. Every pair is scored."""

    batch_size: Annotated[int, Field(ge=1), Inert] = 16
    """Sequences in one forward pass (a pair is two); changes rewards by less than 1e-6."""
    device: Annotated[str | None, Field(pattern=r"^(cpu|mps|cuda(:\d+)?)$"), Inert] = None
    """Where the model runs; null takes CUDA where there is one, else the CPU."""
    histogram_bins: Annotated[int, Field(ge=5, le=500)] = 40
    """Bars in each plot."""
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Draws of the bootstrap, which makes the intervals where a prompt has several pairs (up to
    2000 prompts; of more, a formula gives the same)."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the bootstrap."""
    first_tokens: Annotated[int, Field(ge=1)] | None = 64
    """Tokens of each answer that are scored apart, to see whether the rest is judged at all: at
    most one more pass over pairs with longer answers. null: not done."""
    null_model_pairs: Annotated[int, Field(ge=0)] = 2000
    """Training pairs that the null models (length, markup, opening) are fitted on; 0: none."""
    probe_prompts: Annotated[int, Field(ge=0)] = 8
    """Held-out prompts that get nine extreme answers each (empty, repeated, ...); 0: none."""
    suspects: Annotated[int, Field(ge=0)] = 100
    """Most pairs in the table of labels that the model contradicts; 0: no table."""
