"""The params of registration."""

from typing import Annotated

from pydantic import Field, field_validator

from tasks.artifact import Inert, Params

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Share = Annotated[float, Field(ge=0, le=1)]


class GateParams(Params):
    """What a model must be before it may serve; null leaves a bound out.

    A figure that a bound asks for and the evaluation could not compute fails that bound. On by
    default is only what no reward model should miss whatever its data: the right bounds of the
    others depend on the data's own leanings, of which the evaluation warns. That the version holds
    its files and its score contract is no param: without it there is no alias at all.
    """

    min_accuracy: Share | None = 0.5
    """Rejected below. Default: what tossing a coin reaches."""
    min_accuracy_low: Share | None = None
    """Rejected if the lower end of the accuracy's 95 % interval is below."""
    min_lead_over_null: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Rejected if the accuracy is not this far above the best null model's (length, markup ...)."""
    max_length_correlation: Share | None = None
    """Rejected if the partial correlation of reward and length, within prompts, is larger, either
    way."""
    max_prompt_share: Share | None = None
    """Rejected if the prompt alone explains more of the reward's variance."""
    max_tie_rate: Share | None = 0.5
    """Rejected if more pairs tie once rewards are rounded to bfloat16. Default: a collapsed reward,
    which RL could not learn from."""
    max_degenerate: Annotated[int, Field(ge=0)] | None = None
    """Rejected if more kinds of answers without content earn more than the median answer."""
    max_source_drop: Share | None = 0.0
    """Challenger only, if on any source its accuracy is lower than the champion's by more than
    this, beyond chance: a one-sided paired test on the frozen pairs."""
    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Of that test; divided by the number of sources."""


class RegistrationParams(Params):
    """Where a model is registered, and when it takes the champion's place."""

    model_name: Annotated[str, Field(pattern=NAME)] = "reward-model"
    """Name of the registered model; its versions compete for the alias `champion`."""
    experiment_name: Annotated[str, Field(pattern=NAME)] = "reward-pipeline"
    """MLflow experiment that holds the runs."""
    tracking_uri: str | None = None
    """MLflow's store; null is SQLite in `mlruns/mlflow.db`, artifacts in `mlruns/artifacts`. A
    relative path of SQLite's (`sqlite:///mlflow.db`) is one below the root."""
    min_improvement: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Accuracy by which the champion must be beaten; at 0, equal accuracy is decided by loss."""
    gate: GateParams = GateParams()
    """Bounds that decide between champion, challenger and rejected."""
    system_metrics: Annotated[bool, Inert] = False
    """Log load and memory of this machine to the run while it trains (MLflow's own sampling)."""

    @field_validator("tracking_uri")
    @classmethod
    def _no_secret_in_the_address(cls, uri: str | None) -> str | None:
        if uri is None:
            return None
        scheme, separator, rest = uri.partition("://")
        if not separator or scheme == "file":
            raise ValueError(
                "expected an address such as http://127.0.0.1:5000 or sqlite:///path/mlflow.db "
                "(MLflow keeps no registry in plain files)"
            )
        if scheme in ("http", "https") and "@" in rest.partition("/")[0]:
            raise ValueError(
                "an address must not hold a password: params are stored in clear; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead"
            )
        return uri
