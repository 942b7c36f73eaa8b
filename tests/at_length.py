"""Cases of a test that wait for the long run: `.ci/test -m slow`, which CI does as well."""

from typing import Any

import pytest


def at_length(*values: Any) -> list[Any]:
    """These cases, marked slow: a test's others stand for them in the default run."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
