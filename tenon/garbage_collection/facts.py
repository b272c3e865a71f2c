"""What a sweep has read from Kubernetes, EC2 and Temporal.

None stands for a record that could not be read, and is never treated as an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.kube.claim_record import instance_id_of
from tenon.node.release import OF_KUBERNETES

GONE_STATES = (None, "shutting-down", "terminated")
"""States of an instance that is shutting down or gone. None: EC2 does not know it."""
ENDED_STATES = (None, "terminated")
"""States of an instance that runs nothing.

An instance that is shutting down still gives its pods their grace period.
"""


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A NodeClaim as the sweep compares it with instances and Nodes.

    It is read from the API server, not from the cache: the sweep terminates instances, so its data must be fresh. It is
    not a `ClaimRecord`, because a sweep would hold the JSON of all NodeClaims at once.
    """

    name: str
    uid: str
    created_at: datetime
    pool: str = ""
    node_class: str = ""
    provider_id: str = ""
    launched_at: datetime | None = None
    registered: bool = False
    registered_at: datetime | None = None
    node_name: str = ""
    deleted_at: datetime | None = None
    terminating: bool = False
    """EC2 has accepted that its workflow terminates the instance, or does not know it."""
    finalizers: tuple[str, ...] = ()
    managed: bool = True
    """Tenon manages it. A claim of another controller only accounts for its own instance and Node."""
    group: str = ""
    """The launch group of the claim."""
    network: Mapping[str, str] = field(default_factory=dict)
    """The annotations that say where its instance is in the network."""

    @property
    def instance_id(self) -> str:
        """The instance that the claim names."""
        return instance_id_of(self.provider_id)

    @property
    def foreign_finalizers(self) -> tuple[str, ...]:
        """The finalizers of others, if the claim is deleted and only they hold it; otherwise empty."""
        if self.deleted_at is None or labels.TERMINATION_FINALIZER in self.finalizers:
            return ()
        return tuple(finalizer for finalizer in self.finalizers if finalizer not in OF_KUBERNETES)


@dataclass(frozen=True, slots=True)
class ObservedInstance:
    """An instance that has the cluster's tag and one of Tenon's."""

    id: str
    state: str
    launched_at: datetime
    claim: str = ""
    pool: str = ""
    name: str = ""
    group: str = ""
    """The launch group that bought it."""
    subnet_id: str = ""
    security_group_ids: tuple[str, ...] = ()
    template_id: str = ""
    """The launch template that it was launched from."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A Node. ``ours``: it has the finalizer and may be Tenon's. ``claim``: the NodeClaim that owns it.

    ``registered``: it has the label that registration writes.
    """

    name: str
    uid: str
    created_at: datetime
    provider_id: str = ""
    claim: str = ""
    ready: bool = False
    ours: bool = False
    registered: bool = False


@dataclass(frozen=True, slots=True)
class ObservedWorkflow:
    """An open NodeClaim workflow. ``uid`` is that of the claim it was started for, if known."""

    claim: str
    started_at: datetime
    uid: str = ""
    leaving: bool = False
    """It is already removing its node."""


@dataclass(frozen=True, slots=True)
class ObservedTemplate:
    """A launch template of the cluster."""

    id: str
    name: str
    created_at: datetime
    node_class: str = ""


@dataclass(frozen=True, slots=True)
class Observations:
    """All records at one time."""

    now: datetime
    claims: tuple[ObservedClaim, ...] | None = None
    instances: tuple[ObservedInstance, ...] | None = None
    nodes: tuple[ObservedNode, ...] | None = None
    workflows: tuple[ObservedWorkflow, ...] | None = None
    templates: tuple[ObservedTemplate, ...] | None = None
    classes: frozenset[str] | None = None
    states: Mapping[str, str] | None = field(default_factory=dict)
    """By id, the states of instances that a NodeClaim or a Node names and that ``instances`` lacks.

    It has terminated instances as long as EC2 shows them, and living ones without the cluster's tags.
    """
    left_since: Mapping[str, datetime] = field(default_factory=dict)
    """Since when each instance without a NodeClaim is left to its open workflow."""

    @property
    def managed_claims(self) -> tuple[ObservedClaim, ...]:
        """The NodeClaims that Tenon manages."""
        return tuple(claim for claim in self.claims or () if claim.managed)

    @property
    def known_states(self) -> dict[str, str]:
        """By id, the state of each instance that EC2 knows."""
        return {**(self.states or {}), **{instance.id: instance.state for instance in self.instances or ()}}

    def may_be_open(self, claim: str) -> bool:
        """True if this NodeClaim has an open workflow, or if the workflows could not be read."""
        return self.workflows is None or claim in self.open_claims

    @property
    def open_claims(self) -> frozenset[str]:
        """The names of NodeClaims, existing or not, with an open workflow."""
        return frozenset(workflow.claim for workflow in self.workflows or ())


@dataclass(frozen=True, slots=True)
class Graces:
    """How long each kind of thing may look lost, because records lag behind, before it counts as lost."""

    instance: timedelta = timedelta(seconds=30)
    second_instance: timedelta = timedelta(minutes=5)
    """For an instance whose NodeClaim names another instance."""
    left_to_workflow: timedelta = timedelta(minutes=30)
    """For an instance without a NodeClaim but with an open workflow: the workflow has this long to terminate it."""
    launched: timedelta = timedelta(minutes=2)
    workflow: timedelta = timedelta(minutes=2)
    node: timedelta = timedelta(minutes=2)
    template: timedelta = timedelta(hours=1)
    template_of_busy_class: timedelta = timedelta(hours=24)
    """For a template that launches nothing while others of its class do."""
