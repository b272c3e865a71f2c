"""What a sweep has read of the three records. What could not be read is None, which is never taken for "none"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.lifecycle.release import OF_KUBERNETES

GONE_STATES = (None, "shutting-down", "terminated")
"""States of an instance that is on its way out; None: EC2 does not know it."""
ENDED_STATES = (None, "terminated")
"""States of an instance that no longer runs anything: one that shuts down gives its pods their grace."""


def instance_id_of(provider_id: str) -> str:
    """The instance of a provider ID, empty when it names none of EC2."""
    last = provider_id.rsplit("/", 1)[-1]
    return last if last.startswith("i-") else ""


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A NodeClaim as the sweep compares it with instances and Nodes.

    It is read from the API server, not from the cache: the sweep ends instances, so what it sees must be fresh.
    """

    name: str
    uid: str
    created_at: datetime
    pool: str = ""
    node_class: str = ""
    provider_id: str = ""
    launched_at: datetime | None = None
    registered: bool = False
    node_name: str = ""
    deleted_at: datetime | None = None
    terminating: bool = False
    """Its workflow is ending the instance."""
    finalizers: tuple[str, ...] = ()
    managed: bool = True
    """It is Tenon's to act on; another controller's claim only answers for its own instance and Node."""
    group: str = ""
    """The launch group that the claim is a member of."""

    @property
    def instance_id(self) -> str:
        """The instance that the claim names."""
        return instance_id_of(self.provider_id)

    @property
    def foreign_finalizers(self) -> tuple[str, ...]:
        """Finalizers of others that alone hold the deleted claim; empty while it lives or carries Tenon's."""
        if self.deleted_at is None or labels.TERMINATION_FINALIZER in self.finalizers:
            return ()
        return tuple(one for one in self.finalizers if one not in OF_KUBERNETES)


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """An instance that carries the cluster's tag and one of Tenon's."""

    id: str
    state: str
    launched_at: datetime
    claim: str = ""
    pool: str = ""
    name: str = ""
    group: str = ""
    """The launch group that bought it."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A Node. ``ours``: it carries the finalizer and may be Tenon's; ``claim`` is the NodeClaim that owns it."""

    name: str
    uid: str
    created_at: datetime
    provider_id: str = ""
    claim: str = ""
    ready: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowSeen:
    """An open NodeClaim workflow; ``uid`` is that of the claim it was begun for, when it says so."""

    claim: str
    started_at: datetime
    uid: str = ""
    leaving: bool = False
    """It is ending its node already."""


@dataclass(frozen=True, slots=True)
class TemplateSeen:
    """A launch template of the cluster."""

    id: str
    name: str
    created_at: datetime
    node_class: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """All of it, at one instant."""

    now: datetime
    claims: tuple[ClaimSeen, ...] | None = None
    instances: tuple[InstanceSeen, ...] | None = None
    nodes: tuple[NodeSeen, ...] | None = None
    workflows: tuple[WorkflowSeen, ...] | None = None
    templates: tuple[TemplateSeen, ...] | None = None
    classes: frozenset[str] | None = None
    left_since: Mapping[str, datetime] = field(default_factory=dict)
    """Since when an instance without NodeClaim is left to its open workflow."""

    @property
    def managed_claims(self) -> tuple[ClaimSeen, ...]:
        """The NodeClaims that are Tenon's."""
        return tuple(claim for claim in self.claims or () if claim.managed)

    def may_be_open(self, claim: str) -> bool:
        """Whether a workflow of this NodeClaim is open, as far as anyone knows."""
        return self.workflows is None or claim in self.open_claims

    @property
    def open_claims(self) -> frozenset[str]:
        """The NodeClaims, there or not, whose workflow is open."""
        return frozenset(each.claim for each in self.workflows or ())


@dataclass(frozen=True, slots=True)
class Graces:
    """For how long each kind of thing may look lost, because the records are late, before it counts as lost."""

    instance: timedelta = timedelta(seconds=30)
    second_instance: timedelta = timedelta(minutes=5)
    """Of a NodeClaim that names another."""
    left_to_workflow: timedelta = timedelta(minutes=30)
    """An instance without NodeClaim whose workflow is open: the workflow is asked to end it, and given so long."""
    launched: timedelta = timedelta(minutes=2)
    workflow: timedelta = timedelta(minutes=2)
    node: timedelta = timedelta(minutes=2)
    template: timedelta = timedelta(hours=1)
