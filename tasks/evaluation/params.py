"""The params of evaluation."""

from typing import Annotated

from pydantic import Field

from tasks.artifact import Inert, Params


class EvaluationParams(Params):
    """How the held-out pairs are scored and drawn. Every pair of the split is scored."""

    batch_size: Annotated[int, Field(ge=1), Inert] = 16
    """Sequences in one forward pass (a pair is two); changes rewards by less than 1e-6."""
    device: Annotated[str | None, Field(pattern=r"^(cpu|mps|cuda(:\d+)?)$"), Inert] = None
    """Where the model runs; null takes CUDA where there is one, else the CPU."""
    histogram_bins: Annotated[int, Field(ge=5, le=500)] = 40
    """Bars in each plot."""
