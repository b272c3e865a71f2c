"""The Kubernetes events of a sweep: one for each finding that it ended or repaired."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES, Resource
from tenon.housekeeping.findings import Finding, Kind

SweepEvent = tuple[dict[str, Any], str, str]
"""The object, the reason and the message of an event."""


def event_for(found: Finding) -> SweepEvent | None:
    """The event about a finding that was acted on, or None if operators do not need to know."""
    claim = reference(NODECLAIMS, found.claim, found.uid)
    match found.kind:
        case Kind.INSTANCE_WITHOUT_CLAIM:
            about = reference(NODEPOOLS, found.pool) if found.pool else claim
            bought = f"; it was bought for NodeClaim {found.claim}" if found.claim else ""
            text = f"Terminated instance {found.instance_id}, which no NodeClaim refers to{bought}"
            return about, "InstanceWithoutNodeClaim", text
        case Kind.CLAIM_WITHOUT_INSTANCE:
            text = f"Instance {found.instance_id} is gone although Tenon did not terminate it: the node leaves"
            return claim, "NodeClaimWithoutInstance", text
        case Kind.CLAIM_WITHOUT_WORKFLOW:
            return claim, "NodeClaimWithoutWorkflow", "No workflow managed this node: a new one was started"
        case Kind.WORKFLOW_WITHOUT_CLAIM:
            text = "The NodeClaim is gone but its workflow was open: the workflow terminates the instance"
            return claim, "WorkflowWithoutNodeClaim", text
        case Kind.NODE_WITHOUT_CLAIM:
            text = f"NodeClaim and instance {found.instance_id} are gone: deleted the Node"
            return reference(NODES, found.node_name, found.uid), "NodeWithoutNodeClaim", text
        case Kind.UNUSED_TEMPLATE:
            about = reference(EC2NODECLASSES, found.node_class)
            return about, "LaunchTemplateUnused", f"Deleted launch template {found.template}, which nothing uses"
        case Kind.FOREIGN_FINALIZER:
            text = (
                "The node is gone, but finalizers of other controllers keep the NodeClaim: "
                f"{', '.join(found.finalizers)}. Their controllers, or an operator, must remove them"
            )
            return claim, "HeldByFinalizer", text
        case Kind.UNTAGGED_INSTANCE:
            return None


def reference(resource: Resource, name: str, uid: str = "") -> dict[str, Any]:
    """A reference to the object that an event is about. The object may be gone already."""
    metadata = {"name": name, **({"uid": uid} if uid else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
