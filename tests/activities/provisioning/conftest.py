"""What all tests of planning share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that fail by chance are repeated at once."""
    monkeypatch.setattr("activities.provisioning.claim_writer.PAUSES", (0.0, 0.0))
    monkeypatch.setattr("activities.provisioning.pod_events.PAUSE", 0.0)
