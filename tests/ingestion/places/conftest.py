"""What the tests of places share: no pause between two tries."""

import pytest

from tasks.ingestion.places import downloads


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.001)
