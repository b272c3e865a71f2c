"""The Kubernetes events of a sweep: one for each finding that it ended or repaired."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.event_references import reference
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from tenon.cleanup.findings import Finding, Kind

SweepEvent = tuple[dict[str, Any], str, str]
"""The object, the reason and the message of an event."""


HELD_BACK = "GarbageCollectionHeldBack"
"""The reason of the events about findings that a person must confirm."""


def subject_of(finding: Finding) -> dict[str, Any]:
    """The object that the events about a finding are about. It may be gone already."""
    match finding.kind:
        case Kind.INSTANCE_WITHOUT_CLAIM if finding.pool:
            return reference(NODEPOOLS, finding.pool)
        case Kind.NODE_WITHOUT_CLAIM:
            return reference(NODES, finding.node_name, finding.uid)
        case Kind.UNUSED_TEMPLATE:
            return reference(EC2NODECLASSES, finding.node_class)
        case _:
            return reference(NODECLAIMS, finding.claim, finding.uid)


def event_for(finding: Finding) -> SweepEvent | None:
    """The event about a finding that was acted on, or None if operators do not need to know."""
    about = subject_of(finding)
    match finding.kind:
        case Kind.INSTANCE_WITHOUT_CLAIM:
            bought = f"; it was bought for NodeClaim {finding.claim}" if finding.claim else ""
            text = f"Terminated instance {finding.instance_id}, which no NodeClaim refers to{bought}"
            return about, "InstanceWithoutNodeClaim", text
        case Kind.CLAIM_WITHOUT_INSTANCE:
            text = f"Instance {finding.instance_id} is gone although Tenon did not terminate it: the node leaves"
            return about, "NodeClaimWithoutInstance", text
        case Kind.CLAIM_WITHOUT_WORKFLOW:
            return about, "NodeClaimWithoutWorkflow", "No workflow managed this node: a new one was started"
        case Kind.WORKFLOW_WITHOUT_CLAIM:
            text = "The NodeClaim is gone but its workflow was open: the workflow terminates the instance"
            return about, "WorkflowWithoutNodeClaim", text
        case Kind.NODE_WITHOUT_CLAIM:
            text = f"NodeClaim and instance {finding.instance_id} are gone: deleted the Node"
            return about, "NodeWithoutNodeClaim", text
        case Kind.UNUSED_TEMPLATE:
            return about, "LaunchTemplateUnused", f"Deleted launch template {finding.template}, which nothing uses"
        case Kind.FOREIGN_FINALIZER:
            text = (
                "The node is gone, but finalizers of other controllers keep the NodeClaim: "
                f"{', '.join(finding.finalizers)}. Their controllers, or an operator, must remove them"
            )
            return about, "HeldByFinalizer", text
        case Kind.UNTAGGED_INSTANCE:
            return None
