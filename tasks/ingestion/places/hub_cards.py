"""The configs in a dataset repository's card, and the files of each split.

configs:
- config_name: en
  data_files: [{split: train, path: "data/en/train-*"}]      -> globs
- config_name: de
  data_dir: data/de                                          -> a directory
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tasks.errors import DataError, shown

CARD = "README.md"


@dataclass(frozen=True)
class Chosen:
    """The files of a repository that are chosen; without patterns and directory, all."""

    patterns: Sequence[str] = ()
    directory: str | None = None
    """Files below it belong to the split that their names tell."""


def chosen_by_card(repository: str, card: str, config: str | None, split: str | None) -> Chosen:
    """The choice by `configs:` in the card's front matter; without configs, the directory `config`.

    Raises:
        DataError: it has configs, but not this one, or not this split; or they are malformed.
    """
    configs = _configs(repository, card)
    entries = {
        str(c.get("config_name", "default")): c
        for c in configs
        if c.get("data_files") or c.get("data_dir")
    }
    if not entries:
        return Chosen(directory=config)
    default = next((n for n, c in entries.items() if c.get("default")), "default")
    name = config or (default if default in entries else next(iter(entries)))
    if name not in entries or (config is None and len(entries) > 1 and default not in entries):
        raise DataError(
            f"{repository} has the configs {', '.join(sorted(entries))}"
            + (f", not {shown(config)}" if config else "")
            + "; give one as `config`"
        )
    if not entries[name].get("data_files"):
        return Chosen(directory=str(entries[name]["data_dir"]))
    by_split = _by_split(repository, entries[name]["data_files"])
    if split is not None and split not in by_split:
        raise DataError(
            f"{repository} config {name} has the splits {', '.join(sorted(by_split))}, not "
            f"{shown(split)}; correct `split`"
        )
    return Chosen([p for s, globs in by_split.items() if split in (None, s) for p in globs])


def _configs(repository: str, card: str) -> list[dict[str, Any]]:
    import yaml

    parts = card.split("---\n", 2)
    try:
        front: Any = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except yaml.YAMLError:
        return []
    configs: Any = front.get("configs") or [] if isinstance(front, dict) else []
    if not isinstance(configs, list) or not all(isinstance(c, dict) for c in _listed(configs)):
        raise _malformed(repository, configs, "a list of configs, each with config_name")
    return cast(list[dict[str, Any]], configs)


def _by_split(repository: str, data_files: Any) -> dict[str, list[str]]:
    """Split -> globs, from any form that cards allow: a glob, several, or one entry per split."""
    entries = _listed(data_files)
    if all(isinstance(entry, str) for entry in entries):
        return {"train": [str(entry) for entry in entries]}
    if not all(isinstance(entry, dict) and entry.get("path") for entry in entries):
        raise _malformed(repository, data_files, "a glob, several, or entries of split and path")
    return {
        str(entry.get("split", "train")): [str(path) for path in _listed(entry["path"])]
        for entry in entries
    }


def _listed(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _malformed(repository: str, found: Any, expected: str) -> DataError:
    return DataError(
        f"{repository}: `configs` of its card ({CARD}) has {shown(found)}; expected {expected}: "
        "give globs as `data_files` in place of `config` and `split`"
    )
