"""NodeClaim (karpenter.sh/v1): one node, requested or running.

The models of the manifest are for what needs every field: the CRD, validation and launches. Code that only reads a
NodeClaim uses `tenon.kube.claim_record`.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import ClassVar, Literal

from pydantic import Field

from tenon.apis.base import SERVER, ApiModel, FaultKind, ResourceList, Rule, Timestamp
from tenon.apis.common import Conditions, NodeResources, NodeSpec, ObjectMeta
from tenon.apis.restricted import cel_allowed

LAUNCHED = "Launched"
REGISTERED = "Registered"
INITIALIZED = "Initialized"
READY_DEPENDENTS = (LAUNCHED, REGISTERED, INITIALIZED)
DRIFTED = "Drifted"
CONSISTENT_STATE_FOUND = "ConsistentStateFound"
CONSOLIDATABLE = "Consolidatable"
DISRUPTION_REASON = "DisruptionReason"
DRAINED = "Drained"
VOLUMES_DETACHED = "VolumesDetached"
INSTANCE_TERMINATING = "InstanceTerminating"
REBOOTING = "Rebooting"
"""True while the machine of the node reboots. Not one of `READY_DEPENDENTS`."""
REBOOT_REQUESTED, REBOOT_ISSUED = "RebootRequested", "RebootIssued"
"""The reasons of `REBOOTING` while it is True: before and after EC2 accepted the reboot."""
REBOOT_SUCCEEDED, REBOOT_FAILED = "RebootSucceeded", "RebootFailed"
"""The reasons of `REBOOTING` once it is False."""


class NodeClaimSpec(NodeSpec):
    """What the node must be like; fixed once it is written."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", "the spec of a NodeClaim cannot be changed", SERVER),
        Rule(
            f"self.requirements.all(term, {cel_allowed('term.key')})",
            "requirements must not use a reserved label",
            kind=FaultKind.RESERVED_REQUIREMENTS,
        ),
    )

    resources: NodeResources = Field(default_factory=NodeResources)
    """What the node must offer."""


class NodeClaimStatus(ApiModel):
    """The status of the node."""

    node_name: str | None = None
    """The name of the Node."""
    provider_id: str | None = None
    """The instance, as the cloud writes it: aws:///ZONE/ID."""
    image_id: str | None = None
    """The machine image of the instance."""
    capacity: ResourceList = {}
    """All resources of the node."""
    allocatable: ResourceList = {}
    """The resources that the node offers to pods."""
    last_pod_event_time: Timestamp | None = None
    """When a pod was last added to the node or removed from it."""
    conditions: Conditions = []
    """Facts about the node."""


class NodeClaim(ApiModel):
    """One node, requested or running: what it must be like, and its status."""

    api_version: Literal["karpenter.sh/v1"] = "karpenter.sh/v1"
    kind: Literal["NodeClaim"] = "NodeClaim"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeClaimSpec
    status: NodeClaimStatus = Field(default_factory=NodeClaimStatus)
