"""The file of a score contract, read where a model is verified and where it is loaded.

Travels inside the registered model: it may import only modules that travel with it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from tasks.templating.tokenizer.special_tokens import Policy

CONTRACT, FORMAT = "reward_contract.json", 1
OBJECTS = {
    "rendering": ("special_tokens_in_text", "date", "eos_token", "formats"),
    "tolerance": ("float32",),
}
LISTS = {"probes": ("name", "row", "ids", "rewards"), "pairs": ("pair_id", "ids", "rewards")}
"""What is read of a contract. A probe that is refused has neither ids nor rewards, and the first
contracts had no formats."""
SIDES = ("chosen", "rejected")
OF_TWO = ("eos_token", "ids", "rewards")
"""Text and id; of the chosen and the rejected side."""
ROW = ("format", "prompt", "chosen", "rejected", "tools", "chat_template_kwargs")
ANSWERS = {"standard": str, "conversational": list}
"""What the texts of a row's format hold as JSON."""


def spelled(row: Mapping[str, Any], eos_token: str | None) -> dict[str, Any]:
    """A golden row whose `{EOS}`, within JSON texts, is replaced by the tokenizer's end token."""
    end = json.dumps(eos_token or "")[1:-1]
    return {k: v.replace("{EOS}", end) if isinstance(v, str) else v for k, v in row.items()}


def parsed(path: Path) -> Any:
    """The JSON value of one of a model's files.

    Raises:
        ValueError: it holds none.
    """
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"{path} is no JSON ({error}): it is cut or damaged; copy or download the model's "
            "files again"
        ) from error


def read_contract(path: Path) -> dict[str, Any]:
    """What the file of a contract holds.

    Raises:
        ValueError: no JSON object, one of another format, or one that lacks something.
    """
    contract = parsed(path)
    if not isinstance(contract, dict):
        raise ValueError(f"{path} holds a {type(contract).__name__}, expected an object")
    found = cast(dict[str, Any], contract)
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {found.get('format')!r}, expected {FORMAT}; use the version of the "
            "project that wrote it"
        )
    if lacking := next(_lacking(found), None):
        raise ValueError(
            f"{path} lacks {lacking}, or has something else there: it was changed or damaged; copy "
            "or download the model's files again"
        )
    return found


def _lacking(contract: Mapping[str, Any]) -> Iterator[str]:
    """The places of what is not there, as `probes[2].ids`."""
    for name, fields in OBJECTS.items():
        yield from _absent(name, contract.get(name), fields)
    for name, fields in LISTS.items():
        entries = contract.get(name)
        if not isinstance(entries, list):
            yield name
            continue
        for place, entry in enumerate(cast(list[Any], entries)):
            where = f"{name}[{place}]"
            refused = isinstance(entry, dict) and isinstance(entry.get("refused"), str)
            yield from _absent(where, entry, fields[:2] if refused else fields)
            if name == "probes" and isinstance(entry, dict) and "row" in entry:
                row: Any = cast(dict[str, Any], entry)["row"]
                yield from _absent(f"{where}.row", row, ROW)
                yield from (f"{where}.row.{field}" for field in ROW if not _is_of_row(row, field))


def _absent(name: str, part: Any, fields: Sequence[str]) -> Iterator[str]:
    if not isinstance(part, dict):
        yield name
        return
    given = cast(dict[str, Any], part)
    for field in fields:
        if not _fits(field, given[field]) if field in given else field != "formats":
            yield f"{name}.{field}"


def _fits(field: str, value: Any) -> bool:
    """Whether a field has what is reckoned with."""
    if field == "float32":
        return _is_number(value)
    if field == "formats":
        return value is None or (
            isinstance(value, list) and all(each in [*ANSWERS] for each in cast(list[Any], value))
        )
    if field == "special_tokens_in_text":
        return value in [*get_args(Policy)]
    if field not in OF_TWO:
        return True
    if not isinstance(value, list) or len(both := cast(list[Any], value)) != 2:
        return False
    if field == "rewards":
        return all(map(_is_number, both))
    return field != "ids" or all(
        isinstance(ids, list)
        and ids
        and all(type(i) is int and i >= 0 for i in cast(list[Any], ids))
        for ids in both
    )


def _is_of_row(row: Mapping[str, Any], field: str) -> bool:
    """Whether a field of a golden row holds what is rendered."""
    value = row[field]
    if field == "format":
        return value in [*ANSWERS]
    kinds = {"tools": list, "chat_template_kwargs": dict}
    try:
        inner = None if value is None else json.loads(value)
    except (TypeError, ValueError):
        return False
    if inner is None:
        return field not in SIDES
    return isinstance(inner, kinds.get(field, ANSWERS[row["format"]]))


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)
