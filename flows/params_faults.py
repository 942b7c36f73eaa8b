"""What is wrong with params, one sentence for each key or value.

training.lerning_rate: unknown key; did you mean learning_rate?
training.max_length: unknown key; did you mean tokenization.max_length?
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from tasks.errors import meant, shown
from tasks.ingestion.redaction import redacted, redacted_value


def sentences(params: type[BaseModel], error: ValidationError) -> list[str]:
    """All that is wrong, without what only follows from the rest; `params`: the class of all."""
    found = [dict(e) for e in error.errors()]
    return [_sentence(params, e) for e in found if not _follows(e, found)]


def quoted(value: Any) -> str:
    """A value as it may be shown: without secrets, and not too long."""
    return shown(redacted_value(value))


def _follows(error: dict[str, Any], all_errors: Sequence[dict[str, Any]]) -> bool:
    """Whether it only says that a list is too short, since those of its items that are wrong do
    not count."""
    place = error["loc"]
    inner = (e["loc"] for e in all_errors if len(e["loc"]) > len(place))
    return error["type"] == "too_short" and any(loc[: len(place)] == place for loc in inner)


def _sentence(params: type[BaseModel], error: dict[str, Any]) -> str:
    location = [str(part) for part in error["loc"]]
    dotted = redacted(".".join(location))
    if error["type"] == "extra_forbidden":
        known = _fields_at(params, location[:-1])
        elsewhere = [".".join(place) for place in _places(params) if place[-1] == location[-1]]
        hint = f"; did you mean {elsewhere[0]}?" if elsewhere else meant(location[-1], known, str)
        hint = hint or f"; known here: {', '.join(known)}"
        return f"{dotted}: unknown key{hint}"
    if error["type"] == "missing":
        return f"{dotted}: required, but missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{dotted}: {redacted(message)}, found {quoted(error['input'])}"


def _fields_at(params: type[BaseModel], location: list[str]) -> list[str]:
    """The names that the params class at a dotted place knows."""
    for name in location:
        if name in params.model_fields:
            params = params_class(params.model_fields[name].annotation) or params
    return list(params.model_fields)


def _places(params: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of every key, those of lists' items left out."""
    for name, field in params.model_fields.items():
        yield (*above, name)
        inner = params_class(field.annotation)
        if inner is not None and not is_listed(field.annotation):
            yield from _places(inner, (*above, name))


def is_listed(annotation: Any) -> bool:
    """Whether it is a list of params, as `tuple[Source, ...]` is."""
    return "tuple" in str(annotation)


def params_class(annotation: Any) -> type[BaseModel] | None:
    """The params class within an annotation such as `tuple[Source, ...]` or `LoraParams | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    arguments = getattr(annotation, "__args__", ())
    return next((found for a in arguments if (found := params_class(a)) is not None), None)
