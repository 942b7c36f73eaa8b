"""The params of registration."""

from typing import Annotated

from pydantic import Field, field_validator

from tasks.artifact import Params

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


class RegistrationParams(Params):
    """Where a model is registered, and when it takes the champion's place."""

    model_name: Annotated[str, Field(pattern=NAME)] = "reward-model"
    """Name of the registered model; its versions compete for the alias `champion`."""
    experiment_name: Annotated[str, Field(pattern=NAME)] = "reward-pipeline"
    """MLflow experiment that holds the runs."""
    tracking_uri: str | None = None
    """MLflow's store; null is SQLite in `mlruns/mlflow.db`, artifacts in `mlruns/artifacts`."""
    min_improvement: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Accuracy by which the champion must be beaten; at 0, equal accuracy is decided by loss."""

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
