"""The MLflow registry that a command asks, as its options name it."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tasks.registration.params import RegistrationParams

TrackingUri = Annotated[
    str | None, typer.Option(help="MLflow's address.", show_default="mlruns/ below the root")
]


def registry_of(tracking_uri: str | None, model: str | None = None) -> "RegistrationParams":
    """The params of a registry, and of a model in it if one is named.

    Raises:
        ParamsError: the address or the name is none.
    """
    from pydantic import ValidationError

    from flows.params_faults import sentences
    from tasks.errors import ParamsError
    from tasks.registration.params import RegistrationParams

    given = {"tracking_uri": tracking_uri} | ({} if model is None else {"model_name": model})
    try:
        return RegistrationParams.model_validate(given)
    except ValidationError as error:
        raise ParamsError("; ".join(sentences(RegistrationParams, error))) from error
