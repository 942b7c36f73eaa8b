"""State of callbacks (transformers' `ExportableState`, such as early stopping's counter) on resume.

A checkpoint holds, by callback class, the constructor arguments and the attributes that change. A
resumed run sets the attributes on the callbacks that it was given, whose arguments stay.
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
    """Sets the callbacks' attributes from a checkpoint; several of one class match by order."""
    taken: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        states = _as_list(exported.get(name, []))
        if isinstance(callback, ExportableState) and taken[name] < len(states):
            for attribute, value in states[taken[name]].get("attributes", {}).items():
                setattr(callback, attribute, value)
            taken[name] += 1


def places(callbacks: Iterable[TrainerCallback]) -> dict[str, Any]:
    """Empty entries, by class, that Trainer fills with the states for its next checkpoint.

    Without them it would append to the resumed checkpoint's lists, and fail for a callback class
    that is not in there.
    """
    names = Counter(type(c).__name__ for c in callbacks if isinstance(c, ExportableState))
    return {name: [] if count > 1 else {} for name, count in names.items()}


def ran_out_of_patience(exported: Exported) -> bool:
    """Whether an `EarlyStoppingCallback`, or one with the same state, has ended the run."""
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
