"""The file of a score contract, read where a model is verified and where it is loaded.

Travels inside the registered model: it must not import any other part of the project.
"""

import json
from pathlib import Path
from typing import Any, cast

CONTRACT, FORMAT = "reward_contract.json", 1


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
        ValueError: no JSON object, or one of another format.
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
    return found
