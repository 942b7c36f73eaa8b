"""What callbacks have counted (`ExportableState` of transformers): kept by a run that goes on.

A checkpoint has of each class the arguments it was made with, and the attributes that change. A run
that goes on gives the latter to the callbacks that it was given; their arguments are the caller's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState

Exported = Mapping[str, Any]
"""`args` and `attributes` of one callback, or a list of these for several of a class."""


def states_of(state: TrainerState) -> dict[str, Any]:
    """The exported states by class; transformers annotates them as a list of callbacks."""
    states: Any = state.stateful_callbacks
    return states


def restore(callbacks: Iterable[TrainerCallback], exported: Exported) -> None:
    """Sets the attributes that a checkpoint has, in place; of several of a class by their order."""
    taken: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        states = _as_list(exported.get(name, []))
        if isinstance(callback, ExportableState) and taken[name] < len(states):
            for attribute, value in states[taken[name]].get("attributes", {}).items():
                setattr(callback, attribute, value)
            taken[name] += 1


def places(callbacks: Iterable[TrainerCallback]) -> dict[str, Any]:
    """Empty entries, by class, for the states that Trainer puts into the next checkpoint.

    Without them Trainer appends to the lists of earlier checkpoints, and fails for a class that the
    resumed checkpoint did not have.
    """
    names = Counter(type(c).__name__ for c in callbacks if isinstance(c, ExportableState))
    return {name: [] if count > 1 else {} for name, count in names.items()}


def ran_out_of_patience(exported: Exported) -> bool:
    """Whether an `EarlyStoppingCallback`, or one that exports the like, has ended the run."""
    for state in [one for value in exported.values() for one in _as_list(value)]:
        patience = state.get("args", {}).get("early_stopping_patience")
        counter = state.get("attributes", {}).get("early_stopping_patience_counter", 0)
        if patience is not None and counter >= max(1, patience):
            return True
    return False


def export(callbacks: Iterable[TrainerCallback]) -> dict[str, Any]:
    """The states of the callbacks now, as in a checkpoint; always lists."""
    states: dict[str, Any] = {}
    for callback in callbacks:
        if isinstance(callback, ExportableState):
            states.setdefault(type(callback).__name__, []).append(callback.state())
    return states


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
