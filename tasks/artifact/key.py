"""The identity of a stage's work: params, canonical JSON and the key hashed from them.

Two runs share a result exactly when their canonical JSON is equal, so a value without a stable
identity is refused here instead of being hashed by accident.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from tasks.errors import ArtifactError

_AS_IT_IS = {type(None), bool, int, str}
"""Types that are JSON already: most values are, and need not be called for one by one."""
KEY_LENGTH = 16
"""Hex characters of a key: 64 bits, ample for the artifacts of one store."""


class Inert:
    """Marks a params field that cannot change the result: `workers: Annotated[int, Inert] = 1`."""


class Params(BaseModel):
    """Base of every stage's params: frozen, of finite numbers, and closed against names that it
    does not know. A number is no yes or no, which `off` is in YAML."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and info.field_name:
            taken = _types_in(cls.model_fields[info.field_name].annotation)
            if taken & {int, float} and bool not in taken:
                wanted = "a number, or null" if type(None) in taken else "a number"
                raise ValueError(f"Input should be {wanted} (yes, no, on and off are none)")
        return value


def _types_in(annotation: Any) -> set[Any]:
    """The types that an annotation such as `Annotated[int, Inert] | None` is made of."""
    if get_origin(annotation) is Annotated:
        return _types_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set[Any]().union(*(_types_in(part) for part in get_args(annotation)))
    return {annotation}


def canonical(value: Any, path: str = "") -> Any:
    """`value` as plain JSON data whose dump is equal in every process.

    Mappings need string keys; sets are sorted; params lose their `Inert` fields.

    Raises:
        ArtifactError: a value has no stable identity (NaN, an object, a function); names its path.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ArtifactError(f"{path or 'value'} is {value}: a key cannot hold NaN or infinity")
        return value
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, Mapping):
        return {
            _text_key(k, path): v if type(v) in _AS_IT_IS else canonical(v, f"{path}.{k}")
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            v if type(v) in _AS_IT_IS else canonical(v, f"{path}[{i}]") for i, v in enumerate(value)
        ]
    if isinstance(value, set | frozenset):
        return sorted((canonical(item, f"{path}{{}}") for item in value), key=canonical_json)
    if isinstance(value, BaseModel):
        return _canonical_params(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: canonical(getattr(value, f.name), f"{path}.{f.name}") for f in fields}
    raise ArtifactError(
        f"{path.lstrip('.') or 'value'} is a {type(value).__name__}, which has no stable identity; "
        "use text, numbers, lists, mappings, sets, paths, dataclasses or params"
    )


def _text_key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    raise ArtifactError(f"{path.lstrip('.') or 'value'} has the key {key!r}: keys must be text")


def _canonical_params(params: BaseModel, path: str) -> dict[str, Any]:
    return {
        name: canonical(getattr(params, name), f"{path}.{name}")
        for name, field in type(params).model_fields.items()
        if Inert not in field.metadata
    }


def canonical_json(value: Any) -> str:
    """The one JSON text of `value`: sorted keys, no spaces, no NaN."""
    return json.dumps(
        canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def digest_json(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
