"""Cases of a test that wait for the long run: `.ci/test -m slow`, which CI does as well."""

from typing import Any

import pytest


def at_length(*values: Any) -> list[Any]:
    """These cases, marked slow: a test's others stand for them in the default run."""
    return cases_at_length(*((value,) for value in values))


def cases_at_length(*cases: tuple[Any, ...]) -> list[Any]:
    """The same for a test with several parameters: a case has a value for each."""
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]
