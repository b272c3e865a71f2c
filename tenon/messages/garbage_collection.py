"""Messages of the sweep. A result stays small however much was found."""

from datetime import datetime

from pydantic import Field

from tenon.messages.base import Message, WorkflowInput

COLLECT_GARBAGE = "collect garbage"
"""The activity type, as the Temporal UI shows it."""


class GarbageCollectionInput(WorkflowInput):
    """Asks for one sweep of a cluster. ``left_since`` is what the previous sweep left to the workflows."""

    cluster: str
    actions: int = 200
    """The most findings to act on, unless more are confirmed. The rest waits for the next sweep."""
    tags: int = 60
    """The most instances to tag, one per second."""
    left_since: dict[str, datetime] = Field(default_factory=dict)
    failed: list[str] = Field(default_factory=list)
    """What earlier sweeps failed to remove, the longest untried first. These findings come after all others."""
    confirmed: int = 0
    """How many findings a person has confirmed that an earlier sweep held back."""


class Figures(Message):
    """Counts for one kind of finding.

    Found, removed or repaired, failed, put off to the next sweep, and held back until a person confirms them.
    """

    findings: int = 0
    ended: int = 0
    failed: int = 0
    put_off: int = 0
    held_back: int = 0


class GarbageCollectionResult(Message):
    """The counts of a sweep. ``unread`` says what could not be read and was therefore not judged."""

    figures: dict[str, Figures] = Field(default_factory=dict)
    unread: dict[str, str] = Field(default_factory=dict)
    faults: list[str] = Field(default_factory=list)
    """The first failures, one sentence each."""
    left_since: dict[str, datetime] = Field(default_factory=dict)
    """Instances without a NodeClaim that an open workflow must terminate, and since when it is left to that."""
    failed: list[str] = Field(default_factory=list)
    """What could not be removed, for the next sweep."""
    ended: list[str] = Field(default_factory=list)
    """The first of what was ended or repaired, each with what was done."""
    held_back: list[str] = Field(default_factory=list)
    """Why findings are held back, one sentence for each kind."""
