"""The weights of a model directory: which files hold them, and whether these are whole.

Told without the libraries that read weights: those would import numpy or torch.
"""

import json
from pathlib import Path
from typing import Any, cast

from tasks.artifact.durable import read_json
from tasks.errors import ModelError, shown

OTHER_FORM = "consolidated*.safetensors"
"""The same weights once more, as Mistral's own programs read them; transformers never does."""


def weight_files(directory: Path, variant: str | None = None) -> list[Path]:
    """The files that transformers reads weights from; other files beside them are not read.

    Raises:
        ModelError: the index of several files is no JSON object.
    """
    part = f"{variant}." if variant else ""
    whole = directory / f"model.{part}safetensors"
    if whole.is_file():
        return [whole]
    index = directory / f"model.safetensors.index.{part}json"
    named = json_object(index).get("weight_map") if index.is_file() else None
    return sorted({directory / str(name) for name in named.values()}) if named else []


def check_safetensors(directory: Path) -> None:
    """Raises ModelError where no weights are there, or pickled ones alone."""
    if not {*directory.glob("*.safetensors")} - {*directory.glob(OTHER_FORM)}:
        raise ModelError(
            f"{directory} holds no safetensors weights, found {listing(directory)}; pickled "
            "weights can run code and are refused: convert them with save_pretrained"
        )


def check_whole(directory: Path) -> None:
    """Raises ModelError where weights that transformers will read are missing or cut: training
    would find it out when all data have been prepared."""
    files, index = weight_files(directory), directory / "model.safetensors.index.json"
    for path in files:
        if not path.is_file():
            raise ModelError(f"{path} is not there, though {index} names it; download it again")
        if fault := _fault_of(path):
            raise ModelError(
                f"{path} is not whole ({fault}); download it again (with `git lfs pull`, if it was "
                "cloned)"
            )
    parts = sorted(directory.glob("model-*-of-*.safetensors"))
    if parts and not files:
        raise ModelError(f"{parts[0]} is a part of a model without {index.name}; download that")


def _fault_of(path: Path) -> str | None:
    """How a safetensors file is cut: the length of its header, its header, or its bytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= size - 8:
            return f"{size:,} bytes do not begin with the length of a header"
        try:
            header: dict[str, dict[str, Any]] = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for n, entry in header.items() if n != "__metadata__"]
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            return f"its header cannot be read: {error}"
    expected = 8 + length + max(ends, default=0)
    return None if size == expected else f"incomplete: {size:,} bytes, expected {expected:,}"


def json_object(path: Path) -> dict[str, Any]:
    """The fields of a JSON file.

    Raises:
        ModelError: it is no JSON object.
    """
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ModelError(
            f"{path} is no JSON object: found {shown(path.read_bytes().decode('utf-8', 'replace'))}"
            "; save it again with save_pretrained, or download it again"
        )
    return cast(dict[str, Any], fields)


def listing(directory: Path) -> str:
    """The names of the first files of a directory."""
    names = sorted(path.name for path in directory.iterdir())
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "nothing"
