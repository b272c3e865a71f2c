"""What disruption reads and answers: nodes, what their NodePools allow, and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.budgets import Budget


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """What a NodePool says about disruption; ``consolidate_after`` is None for Never."""

    name: str
    consolidate_after: timedelta | None
    budgets: tuple[Budget, ...] = (Budget(),)


def policy_of(pool: NodePool) -> PoolPolicy:
    """The policy of a NodePool. A static pool wants its nodes whether or not they are empty."""
    disruption = pool.spec.disruption
    seconds = None if pool.spec.replicas is not None else disruption.consolidate_after.seconds
    return PoolPolicy(
        name=pool.metadata.name,
        consolidate_after=None if seconds is None else timedelta(seconds=seconds),
        budgets=tuple(
            Budget(
                nodes=budget.nodes,
                reasons=budget.reasons,
                schedule=budget.schedule,
                duration=None if budget.duration is None else timedelta(seconds=budget.duration.seconds or 0),
            )
            for budget in disruption.budgets
        ),
    )


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """A NodeClaim with its Node as disruption sees them, so that methods need neither the cache nor JSON.

    ``quiet_since`` is the last pod event, or the initialization; None if neither was seen.
    """

    claim: str
    uid: str
    pool: str
    initialized: bool
    ready: bool
    leaving: bool
    empty: bool
    protected: bool
    quiet_since: datetime | None
    node: str = ""
    """The name of its Node."""
    terminating: bool = False
    """Its instance is being terminated. Budgets do not count the node any more (DIS-50)."""

    def named_in(self, names: frozenset[str]) -> bool:
        """Whether the names hold its NodeClaim or its Node."""
        return self.claim in names or self.node in names


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that decisions about disruption depend on."""

    nodes: Sequence[ManagedNode]
    policies: Mapping[str, PoolPolicy]
    now: datetime
    under_command: frozenset[str] = frozenset()
    """NodeClaims that an open command takes away."""
    nominated: frozenset[str] = frozenset()
    """Nodes and NodeClaims that pods are on their way to (DIS-10)."""
    buffer_hosts: frozenset[str] = frozenset()
    """Nodes and NodeClaims on which CapacityBuffers keep room."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a method wants to take away."""

    node: ManagedNode
    since: datetime
    """Since when the method's reason holds."""
    leaves_at: datetime
    """When the node leaves if the reason still holds then; not in the future: at once."""


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes to take away together, for one reason."""

    method: str
    reason: Reason
    consolidation_type: str
    candidates: tuple[Candidate, ...]
    only_if_empty: bool = False
    """Each node stays if a pod turns out to be on it after it was tainted."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A method's answer: its commands, and when to ask again if nothing changes (None: on the next change)."""

    commands: tuple[Command, ...] = ()
    look_again: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of all methods."""

    commands: tuple[Command, ...] = ()
    look_again: datetime | None = None
    failed: Mapping[str, Exception] = field(default_factory=dict)
    """By method name, what it raised. The other methods are not affected."""
