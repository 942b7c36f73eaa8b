"""The keys of a params file and the layouts of rows, as the code itself defines them.

The keys come from the classes that check a params file, the layouts from the modules that read
them, so this cannot differ from what happens.

    keys_of(RewardPipelineParams)   conversion.eval_fraction   0 <= number < 1   0.05   Share of ...
    keys_of(ScoredOptions)          better   higher | lower   "higher"   `lower` for ranks and ...
"""

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_origin

from pydantic import BaseModel

from flows.params import RewardPipelineParams
from flows.params_faults import is_listed, params_class
from tasks.artifact.key import Inert
from tasks.conversion.layouts.known import LAYOUTS, NAMES
from tasks.errors import ParamsError, meant, shown

REQUIRED, DECIDED = "required", "decided by the machine"


@dataclass(frozen=True)
class Key:
    """One key of a params file."""

    key: str
    """Dotted, as an override names it; `N` is the place in a list, from 0."""
    takes: str
    default: str
    """As JSON, or `REQUIRED` or `DECIDED`; empty where further keys follow below it."""
    changes_result: bool
    """Whether another value is another result, and the stage runs again for it."""
    meaning: str


@dataclass(frozen=True)
class LayoutReference:
    """One layout of rows."""

    name: str
    summary: str
    meaning: str
    """Its rows, by example, and what becomes of them."""
    reads: tuple[str, ...]
    options: tuple[Key, ...]


def keys(prefix: str = "") -> list[Key]:
    """The keys of a params file that stand at a dotted place or below it.

    Raises:
        ParamsError: no key is called so.
    """
    known = list(keys_of(RewardPipelineParams))
    wanted = ".".join("N" if part.isdigit() else part for part in prefix.split("."))
    found = [k for k in known if not wanted or f"{k.key}.".startswith(f"{wanted}.")]
    if not found:
        names = [k.key for k in known]
        near = meant(prefix, names, str) or "; `reward-pipeline keys` lists all"
        raise ParamsError(f"no key is called {shown(prefix)}{near}")
    return found


def keys_of(params: type[BaseModel], above: str = "") -> Iterator[Key]:
    """The keys of a class of params, each followed by those below it."""
    schema = params.model_json_schema()
    defined = schema.get("$defs", {})
    for name, field in params.model_fields.items():
        node = schema["properties"][name]
        inner = params_class(field.annotation)
        default = REQUIRED if field.is_required() else DECIDED
        if "default" in node:
            default = json.dumps(node["default"])
        yield Key(
            key=above + name,
            takes=_takes(node, defined),
            default="" if inner is not None and node.get("default") else default,
            changes_result=Inert not in field.metadata,
            meaning=" ".join((field.description or "").split()),
        )
        if inner is not None:
            yield from keys_of(inner, f"{above}{name}.{_within(field.annotation)}")


def _within(annotation: Any) -> str:
    """What stands between a key and those of the params below it: nothing, or a place in a list or
    a mapping."""
    if get_origin(annotation) is dict:
        return "NAME."
    return "N." if is_listed(annotation) else ""


def layout_reference(name: str) -> LayoutReference:
    """The description of a layout, from its module.

    Raises:
        ParamsError: no layout is called so.
    """
    if name not in NAMES:
        near = meant(name, NAMES, str) or "; `reward-pipeline layouts` lists all"
        raise ParamsError(f"no layout is called {shown(name)}{near}")
    layout = LAYOUTS[name]
    module = inspect.getmodule(layout.read)
    meaning = inspect.cleandoc((module and module.__doc__) or "")
    first = meaning.partition("\n\n")[0]
    return LayoutReference(
        name=name,
        summary=" ".join(first.partition(": ")[2].split()),
        meaning=meaning,
        reads=layout.reads,
        options=() if layout.options is None else tuple(keys_of(layout.options)),
    )


def schema() -> dict[str, Any]:
    """JSON Schema of a params file, as editors complete and check YAML by it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | (
        RewardPipelineParams.model_json_schema()
    )


def _takes(node: dict[str, Any], defined: dict[str, Any]) -> str:
    """What a value may be, in words, from its JSON Schema."""
    if "$ref" in node:
        node = defined[node["$ref"].rpartition("/")[2]] or {"type": "any"}
    if "anyOf" in node:
        return " or ".join(_takes(one, defined) for one in node["anyOf"])
    if "enum" in node:
        return " | ".join(map(str, node["enum"]))
    if "const" in node:
        return str(node["const"])
    if node.get("type") == "array":
        return f"list of {_takes(node.get('items', {}), defined)}"
    kind = {"object": "mapping", "string": "text", "boolean": "true | false"}
    words = kind.get(node.get("type", "any"), node.get("type", "any"))
    low = next((f"{node[k]} {sign} " for k, sign in _LOW if k in node), "")
    high = next((f" {sign} {node[k]}" for k, sign in _HIGH if k in node), "")
    return f"{low}{words}{high}"


_LOW = (("minimum", "<="), ("exclusiveMinimum", "<"))
_HIGH = (("maximum", "<="), ("exclusiveMaximum", "<"))
