"""What a scenario of disruption of every kind says: its name, its rows, and why it expects what it does."""

from __future__ import annotations

from pydantic import Field

from tests.tenon.disruption.clusters import Spec


class DescribedScenario(Spec):
    """What every kind has."""

    scenario: str
    rows: list[str] = Field(min_length=1)
    derivation: str = Field(min_length=20, max_length=400)
    """How the expectation follows from the row and the catalogue."""
