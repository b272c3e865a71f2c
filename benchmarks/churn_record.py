"""What happened in a run of the model cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

SOON = 600.0
"""Two events within this many seconds belong together: a node that leaves so soon after its launch was not needed."""


@dataclass
class Record:
    """What happened."""

    created: int = 0
    evicted: Counter[str] = field(default_factory=Counter)
    """By reason."""
    evictions: Counter[int] = field(default_factory=Counter)
    """By place of a pod."""
    soon_again: int = 0
    """Pods evicted again within `SOON`."""
    commands: Counter[str] = field(default_factory=Counter)
    """By nodes that left and came."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Commands that the validation ended, by why."""
    same_type: list[str] = field(default_factory=list)
    """Commands that replaced a node by one of its own type and capacity type."""
    launched: Counter[str] = field(default_factory=Counter)
    """Nodes, by what they were launched for."""
    short_lived: int = 0
    """Nodes that consolidation removed within `SOON` of their launch."""
    bought_back: int = 0
    """Nodes launched for pending pods within `SOON` of a consolidation that removed a node."""
    waits: list[float] = field(default_factory=list)
    """Seconds from each pod's creation until it was bound."""
    unschedulable: int = 0
    dollars: float = 0.0
    node_hours: float = 0.0
    samples: list[dict[str, float]] = field(default_factory=list)
    node_changes: list[tuple[float, int]] = field(default_factory=list)
    """When a node came or left, and how many there were then."""
    looks: int = 0
    log: list[str] = field(default_factory=list)
    """One line for each command, with its time."""
