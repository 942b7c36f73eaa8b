"""One sample pair, one family of pairs, and the small talk around a request."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Request = tuple[str | int, ...]


@dataclass(frozen=True)
class Pair:
    """A conversation up to the last user turn, and two answers to it."""

    request: Request
    """What is asked, in the form that the family's rule reads."""
    turns: tuple[str, ...]
    """User, assistant, ..., user."""
    chosen: str
    rejected: str
    system: str | None = None


@dataclass(frozen=True)
class Family:
    """A kind of request: how to draw a pair, and the rule that tells its answers apart."""

    draw: Callable[[Random], Pair]
    follows: Callable[[Request, str], bool]


def polite(rng: Random, text: str) -> str:
    """The request as one of several people would put it."""
    before = rng.choice(("", "", "Hi! ", "Please help me. "))
    after = rng.choice(("", "", " Thanks!"))
    return f"{before}{text}{after}"


def two(rng: Random, options: tuple[str, ...]) -> tuple[str, str]:
    """Two different options: the asked one first, then the one that the rejected answer gives."""
    asked, other = rng.sample(options, 2)
    return asked, other
