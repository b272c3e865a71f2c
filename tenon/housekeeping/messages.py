"""What crosses the wire of the housekeeping sweep; a result stays small however much was found."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tenon.lifecycle.messages import Message

COLLECT_GARBAGE = "collect garbage"
"""The activity by the name that the Temporal UI shows."""


class HousekeepingInput(Message):
    """Asks for one sweep of a cluster. ``left_since`` is what the sweep before left to the workflows."""

    cluster: str
    actions: int = 200
    """At most so many findings are acted on; the rest waits for the next sweep."""
    tags: int = 60
    """At most so many instances are tagged, one a second."""
    left_since: dict[str, datetime] = Field(default_factory=dict)
    failed: list[str] = Field(default_factory=list)
    """What sweeps before could not end, the longest untried first: its turn comes after that of all others."""


class Figures(Message):
    """One kind of finding in a sweep: how many there were, were ended or healed, failed, and wait for the next."""

    found: int = 0
    ended: int = 0
    failed: int = 0
    put_off: int = 0


class HousekeepingResult(Message):
    """A sweep in figures. ``unread`` says what could not be read, so that nothing was judged by it."""

    figures: dict[str, Figures] = Field(default_factory=dict)
    unread: dict[str, str] = Field(default_factory=dict)
    faults: list[str] = Field(default_factory=list)
    """The first failures, a sentence each."""
    left_since: dict[str, datetime] = Field(default_factory=dict)
    """Instances without NodeClaim that an open workflow is to end, and since when they are left to it."""
    failed: list[str] = Field(default_factory=list)
    """What could not be ended, for the next sweep."""
