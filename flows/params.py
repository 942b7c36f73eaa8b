"""The params file: one YAML = one pipeline, checked whole before any work.

What is wrong is quoted without the secrets that a URL may carry, and never with a line of the file.

load("params/quickstart.yaml", ["training.learning_rate=3e-4", "ingestion.sources.0.limit=99"])
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError

from flows.params_faults import quoted, sentences
from flows.strict_yaml import read_yaml
from tasks.artifact import Params
from tasks.conversion import ConversionParams
from tasks.errors import ParamsError, shown
from tasks.evaluation.params import EvaluationParams
from tasks.ingestion import IngestionParams
from tasks.ingestion.formats.extensions import has_known_extension
from tasks.ingestion.redaction import has_secrets, redacted
from tasks.model import ModelParams
from tasks.registration.params import RegistrationParams
from tasks.templating import TemplatingParams
from tasks.tokenization.params import TokenizationParams
from tasks.training.params import TrainingParams

LARGEST_FILE_BYTES = 2**20


class RewardPipelineParams(Params):
    """One field per stage, and `model`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: ModelParams
    ingestion: IngestionParams
    conversion: ConversionParams = ConversionParams()
    templating: TemplatingParams = TemplatingParams()
    tokenization: TokenizationParams = TokenizationParams()
    training: TrainingParams = TrainingParams()
    evaluation: EvaluationParams = EvaluationParams()
    registration: RegistrationParams = RegistrationParams()


def load(path: str | Path, overrides: Sequence[str] = ()) -> RewardPipelineParams:
    """The params of a YAML file, with `dotted.key=value` overrides applied.

    Raises:
        ParamsError: the file cannot be read, or some keys or values are wrong; names them all.
    """
    if "://" in str(path):
        raise ParamsError(f"params file {redacted(str(path))} is a URL; give a local file")
    value = _read(Path(path))
    for override in overrides:
        _apply(value, override)
    return check(value, str(path))


def refuse_secrets(given: Sequence[str]) -> None:
    """Raises ParamsError for a signed URL: Prefect records what a run is given as it is."""
    for override in given:
        if has_secrets(override):
            raise ParamsError(
                f"{redacted(override)!r} holds a URL with a password or a signature, and "
                "a run's parameters are recorded: write it into the params file instead, and have "
                "the URL signed anew"
            )


def check(value: Any, origin: str) -> RewardPipelineParams:
    """The params that a nested mapping stands for.

    Raises:
        ParamsError: some keys or values are wrong; every one of them is named.
    """
    try:
        return RewardPipelineParams.model_validate(value)
    except ValidationError as error:
        lines = sentences(RewardPipelineParams, error)
        raise ParamsError("\n".join([f"{origin}:", *(f"  {line}" for line in lines)])) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_dir():
            raise ParamsError(f"params file {path} is a directory; give the YAML file itself")
        if not path.exists():
            raise ParamsError(f"params file {path} does not exist (looked in {Path.cwd()})")
        if has_known_extension(path.name) and path.suffix.lower() != ".json":
            raise ParamsError(
                f"params file {path} is data by its name, expected YAML; write its "
                "path into a params file: ingestion: {sources: [{name: mine, path: ...}]}"
            )
        with path.open("rb") as file:  # a pipe, too: `run <(sed ... my.yaml)`
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ParamsError(
            f"params file {shown(str(path))} cannot be read: {error.strerror}"
        ) from None
    if len(content) > LARGEST_FILE_BYTES:
        raise ParamsError(f"params file {path} is over 1 MiB; is it a data file?")
    try:
        value = read_yaml(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{content[error.start]:02x} in line {line}"
        raise ParamsError(
            f"params file {path} is not UTF-8 ({found}); save it in that encoding"
        ) from None
    except yaml.YAMLError as error:
        raise ParamsError(f"params file {path} is no valid YAML: {_fault(error)}") from None
    if not isinstance(value, dict):
        raise ParamsError(f"params file {path} must be a mapping, found {quoted(value)}")
    return value


def _apply(value: dict[str, Any], override: str) -> None:
    dotted, equals, text = override.partition("=")
    override = redacted(override)  # as it is quoted
    if not equals or not dotted:
        raise ParamsError(f"override {override!r} is not of the form dotted.key=value")
    place: Any = value
    *parents, last = dotted.split(".")
    for name in parents:
        if isinstance(place, list):
            place = _element(place, name, override)
        else:
            place = place.setdefault(name, {})
            if place is None or not isinstance(place, dict | list):
                raise ParamsError(f"override {override!r}: {name} is {quoted(place)}, no mapping")
    try:
        parsed = read_yaml(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"override {override!r} is no valid YAML: {_fault(error)}") from None
    if isinstance(place, list):
        _element(place, last, override)
        place[int(last)] = parsed
    else:
        place[last] = parsed


def _element(place: list[Any], name: str, override: str) -> Any:
    if not name.isdecimal() or int(name) >= len(place):
        raise ParamsError(f"override {override!r}: {name!r} is no index below {len(place)}")
    return place[int(name)]


def _fault(error: Exception) -> str:
    """What is wrong with YAML and where, without the line itself: a URL in it may be signed."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return redacted(str(error))
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    parts = [part for part in (error.context, error.problem) if part]
    return redacted(f"{place}{', '.join(parts)}")
