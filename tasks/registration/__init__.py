"""A trained model becomes a version in the MLflow registry, once it has proved to be what it was.

In: reward model directory, its evaluation, the held-out pairs. Out: a verified model version with
alias `champion` or `challenger`, its run, and the record `registered.json`. Names are handed out
lazily, so that importing the package imports neither mlflow nor torch.

    loader/      what travels inside a version: rewards from it, without this project
    proving/     the version is packed, downloaded, and scored again by who has only that
    aliases/     which version serves: its judgement, the gate, who moved which alias when
    serving/     rewards over HTTP
    register     one version per model: made, proved, judged, given its alias
    logged_model its files in MLflow's store
    address, usable, store    where MLflow's store is, and that it can be used
    standing    whether the registered versions are there, with the files they had
    registry, tracking, experiment, metrics_sink    what MLflow knows: versions, runs, metrics
    retirement   old versions go
    facts, lineage, tags, publication    what is written down there of a version
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.registration.loader.inference import ServedModel, load_reward_model
    from tasks.registration.loader.reward_function import as_reward_func
    from tasks.registration.metrics_sink import MetricsSink
    from tasks.registration.params import RegistrationParams
    from tasks.registration.registry import came_of, current_alias, is_deleted, still_registered
    from tasks.registration.standing import versions_standing
    from tasks.registration.task import step

__all__ = [
    "MetricsSink",
    "RegistrationParams",
    "ServedModel",
    "as_reward_func",
    "came_of",
    "current_alias",
    "is_deleted",
    "load_reward_model",
    "step",
    "still_registered",
    "versions_standing",
]

_HOMES = {
    "MetricsSink": "metrics_sink",
    "RegistrationParams": "params",
    "ServedModel": "loader.inference",
    "as_reward_func": "loader.reward_function",
    "came_of": "registry",
    "current_alias": "registry",
    "is_deleted": "registry",
    "load_reward_model": "loader.inference",
    "step": "task",
    "still_registered": "registry",
    "versions_standing": "standing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
