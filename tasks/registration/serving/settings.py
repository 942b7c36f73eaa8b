"""Where the server listens, what it accepts, and what is too much for it."""

import ipaddress
import os
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.errors import ParamsError

TOKEN_VARIABLE = "REWARD_PIPELINE_SERVE_TOKEN"
LOCAL_NAMES = ("localhost", "localhost.")
SHORTEST_TOKEN = 16

TooLong = Literal["error", "cut_start"]
QueryForm = Literal["auto", "rendered", "text"]
Scale = Literal["raw", "normalized", "champion", "reference"]


class ServeSettings(BaseModel):
    """One running server."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    """Address to bind; any other than loopback needs a token."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 takes a free port."""
    token: Annotated[str | None, Field(repr=False)] = None
    """What clients must show, as bearer or as the password of basic auth."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the server may be asked, beside addresses and localhost."""
    max_bytes: Annotated[int, Field(ge=1)] = 16 * 2**20
    """Of one request's body."""
    max_sequences: Annotated[int, Field(ge=1)] = 1024
    """Of one request."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one sequence; null is the model's number of positions."""
    max_waiting_tokens: Annotated[int, Field(ge=1)] = 4 * 2**20
    """Of all requests that wait; beyond, 503."""
    max_waiting_requests: Annotated[int, Field(ge=1)] = 1024
    """Requests that are read, wait or are scored; beyond, 503."""
    max_waiting_bytes: Annotated[int, Field(ge=1)] = 256 * 2**20
    """Of their bodies; beyond, 503."""
    too_long: TooLong = "error"
    """What becomes of a longer sequence: an error, or its end without its start (and a header)."""
    query_form: QueryForm = "auto"
    """How bare strings are read. `rendered`: as conversations that the chat template has rendered
    already; only what it writes after the end token is added. `text`: as plain text, which gets the
    end token and the tokenizer's special tokens. `auto`: as text if the model was trained on text
    alone or its tokenizer has no chat template, else as rendered."""
    special_tokens_in_text: Literal["quarantine", "encode"] | None = None
    """What a special token in a row's words becomes, if not what training made of it: an error, or
    ordinary text. In rendered strings and token ids they are markup."""
    scale: Scale = "raw"
    """Of the answers: raw, mean 0 and deviation 1 over held-out answers, or that of the champion
    before this version, or of the first one (coefficients of RL survive a retrain)."""
    window_ms: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How long the first of a batch waits for others; while the model works they gather anyway."""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that go to the model together; null is 16,384, and on a CPU 4,096."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """The model's threads on a CPU; null is OMP_NUM_THREADS, else one less than there are cores."""
    grace_seconds: Annotated[int, Field(ge=1)] = 30
    """Time for requests in flight after SIGTERM."""

    @model_validator(mode="after")
    def _nobody_else_without_a_token(self) -> Self:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(
                f"{TOKEN_VARIABLE} has {len(self.token)} characters, expected {SHORTEST_TOKEN} or "
                "more: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        if self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is reachable by others, and {TOKEN_VARIABLE} is not set; "
                "set it, or bind 127.0.0.1"
            )
        return self


def settings_from(**values: object) -> ServeSettings:
    """Settings with the token of the environment.

    Raises:
        ParamsError: a value is out of its range, or others could ask without a token.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        return ServeSettings.model_validate({**values, "token": token})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ParamsError(f"serve: {where}: {message}" if where else message) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
