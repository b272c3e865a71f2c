"""Acts on one finding. Reads its object again by name first, so that a stale or incomplete list ends nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from activities.ec2.provider import Ec2Provider
from activities.garbage_collection.node_workflows import NodeWorkflows
from activities.garbage_collection.sweep_reader import claim_seen, node_seen, read_claims
from activities.heartbeat import with_heartbeat
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import reference
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.nodeclaims import TAGGED, annotate_claim
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from tenon.garbage_collection.claims import has_lost_node
from tenon.garbage_collection.facts import (
    ENDED_STATES,
    GONE_STATES,
    Graces,
    Observations,
    ObservedClaim,
    ObservedTemplate,
)
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import ClaimRef
from tenon.messages.node import Poke
from tenon.node import leave_text
from tenon.node.release import without_finalizer

SweepEvent = tuple[dict[str, Any], EventReason, str]
"""The object, the reason and the message of an event."""

ACTIONS = {
    FindingKind.INSTANCE_WITHOUT_CLAIM: "The sweep terminated an instance without a NodeClaim",
    FindingKind.CLAIM_WITHOUT_INSTANCE: "The sweep signaled a workflow that the instance of its NodeClaim is gone",
    FindingKind.CLAIM_WITHOUT_NODE: "The sweep deleted a NodeClaim whose Node is gone",
    FindingKind.CLAIM_WITHOUT_WORKFLOW: "The sweep started the workflow of a NodeClaim",
    FindingKind.WORKFLOW_WITHOUT_CLAIM: "The sweep signaled a workflow that its NodeClaim is gone",
    FindingKind.NODE_WITHOUT_CLAIM: "The sweep deleted a Node without NodeClaim and instance",
    FindingKind.UNUSED_TEMPLATE: "The sweep deleted an unused launch template",
    FindingKind.UNTAGGED_INSTANCE: "The sweep tagged an instance",
}
"""What was done about a finding of each kind, for the log. Tenon does nothing about a foreign finalizer."""


def subject_of(finding: Finding) -> dict[str, Any]:
    """The object that the events about a finding are about. It may be gone already."""
    match finding.kind:
        case FindingKind.INSTANCE_WITHOUT_CLAIM if finding.pool:
            return reference(NODEPOOLS, finding.pool)
        case FindingKind.NODE_WITHOUT_CLAIM:
            return reference(NODES, finding.node_name, finding.uid)
        case FindingKind.UNUSED_TEMPLATE:
            return reference(EC2NODECLASSES, finding.node_class)
        case _:
            return reference(NODECLAIMS, finding.claim, finding.uid)


def event_for(finding: Finding) -> SweepEvent | None:
    """The event about a finding that was acted on, or None if operators do not need to know."""
    about = subject_of(finding)
    match finding.kind:
        case FindingKind.INSTANCE_WITHOUT_CLAIM:
            bought = f"; it was bought for NodeClaim {finding.claim}" if finding.claim else ""
            text = f"Terminated instance {finding.instance_id}, which no NodeClaim refers to{bought}"
            return about, EventReason.INSTANCE_WITHOUT_NODE_CLAIM, text
        case FindingKind.CLAIM_WITHOUT_INSTANCE:
            text = f"Instance {finding.instance_id} is gone although Tenon did not terminate it: the node leaves"
            return about, EventReason.NODE_CLAIM_WITHOUT_INSTANCE, text
        case FindingKind.CLAIM_WITHOUT_NODE:
            text = f"The Node of instance {finding.instance_id}, which runs, was deleted: the node leaves"
            return about, EventReason.NODE_CLAIM_WITHOUT_NODE, text
        case FindingKind.CLAIM_WITHOUT_WORKFLOW:
            return (
                about,
                EventReason.NODE_CLAIM_WITHOUT_WORKFLOW,
                "No workflow managed this node: a new one was started",
            )
        case FindingKind.WORKFLOW_WITHOUT_CLAIM:
            text = "The NodeClaim is gone but its workflow was open: the workflow terminates the instance"
            return about, EventReason.WORKFLOW_WITHOUT_NODE_CLAIM, text
        case FindingKind.NODE_WITHOUT_CLAIM:
            text = f"NodeClaim and instance {finding.instance_id} are gone: deleted the Node"
            return about, EventReason.NODE_WITHOUT_NODE_CLAIM, text
        case FindingKind.UNUSED_TEMPLATE:
            return (
                about,
                EventReason.LAUNCH_TEMPLATE_UNUSED,
                f"Deleted launch template {finding.template}, which nothing uses",
            )
        case FindingKind.FOREIGN_FINALIZER:
            text = (
                "The node is gone, but finalizers of other controllers keep the NodeClaim: "
                f"{', '.join(finding.finalizers)}. Their controllers, or an operator, must remove them"
            )
            return about, EventReason.HELD_BY_FINALIZER, text
        case FindingKind.UNTAGGED_INSTANCE:
            return None


class SweepActions:
    """Acts on the findings of one cluster. The caller handles errors of Kubernetes, EC2 and Temporal."""

    def __init__(self, kube: Kube, ec2: Ec2Provider, workflows: NodeWorkflows, graces: Graces) -> None:
        self._kube = kube
        self._ec2 = ec2
        self._workflows = workflows
        self._graces = graces

    async def act(self, finding: Finding, observations: Observations) -> bool:
        """Check the finding again and act on it if it still holds. Return whether it does."""
        match finding.kind:
            case FindingKind.INSTANCE_WITHOUT_CLAIM:
                return await self._terminate_instance(finding, observations)
            case FindingKind.CLAIM_WITHOUT_INSTANCE:
                return await self._notify_instance_gone(finding)
            case FindingKind.CLAIM_WITHOUT_NODE:
                return await self._delete_claim(finding)
            case FindingKind.CLAIM_WITHOUT_WORKFLOW:
                return await self._start_workflow(finding)
            case FindingKind.WORKFLOW_WITHOUT_CLAIM:
                return await self._notify_claim_gone(finding)
            case FindingKind.NODE_WITHOUT_CLAIM:
                return await self._release_node(finding)
            case FindingKind.UNUSED_TEMPLATE:
                return await self._delete_template(finding, observations)
            case FindingKind.FOREIGN_FINALIZER:
                claim = await self._claim(finding.claim, finding.uid)
                return claim is not None and bool(claim.foreign_finalizers)
            case FindingKind.UNTAGGED_INSTANCE:
                return await self._tag_instance(finding)

    async def _tag_instance(self, finding: Finding) -> bool:
        name = asyncio.to_thread(self._ec2.name_instance, finding.instance_id, finding.claim, finding.node_name)
        tagged = await with_heartbeat(name)
        if tagged:
            ref = ClaimRef(cluster=self._ec2.cluster.name, name=finding.claim, uid=finding.uid)
            await annotate_claim(self._kube, ref, TAGGED)
        return tagged

    async def _terminate_instance(self, finding: Finding, observations: Observations) -> bool:
        if await self._is_held(finding, observations):
            return False
        if await self._instance_gone(finding.instance_id):
            return False
        await with_heartbeat(asyncio.to_thread(self._ec2.terminate, finding.instance_id))
        for node in observations.nodes or ():
            if instance_id_of(node.provider_id) == finding.instance_id:
                await self._free(node.name, node.uid)
        return True

    async def _is_held(self, finding: Finding, observations: Observations) -> bool:
        """Whether the instance belongs to a claim after all, or to a workflow whose grace period is not over."""
        if not finding.claim:
            claims = await read_claims(self._kube)
            own = [
                pool_claim
                for pool_claim in claims
                if (pool_claim.group if finding.group else pool_claim.pool) == (finding.group or finding.pool)
            ]
            launching = any(not claim.provider_id for claim in own)
            return launching or any(claim.instance_id == finding.instance_id for claim in claims)
        claim = await self._claim(finding.claim)
        if claim is not None:
            return not claim.managed or claim.instance_id in ("", finding.instance_id)
        since = observations.left_since.get(finding.instance_id)
        if since is not None and observations.now - since >= self._graces.left_to_workflow:
            return False
        return await self._workflows.is_open(finding.claim)

    async def _notify_instance_gone(self, finding: Finding) -> bool:
        claim = await self._claim(finding.claim, finding.uid)
        if claim is None or claim.terminating:
            return False
        if await with_heartbeat(asyncio.to_thread(self._ec2.instance_state, finding.instance_id)) not in ENDED_STATES:
            return False
        if claim.registered and claim.node_name:
            raw = await self._kube.get(NODES, claim.node_name)
            if raw is not None and node_seen(raw).ready:
                return False
        return await self._workflows.poke(finding.claim, Poke(instance_gone=True, reason="instance gone"))

    async def _delete_claim(self, finding: Finding) -> bool:
        claim = await self._kube.get(NODECLAIMS, finding.claim)
        node = await self._kube.get(NODES, finding.node_name) if finding.node_name else None
        if claim is None or claim["metadata"].get("uid") != finding.uid:
            return False
        if not has_lost_node(claim_seen(claim), node_seen(node) if node else None):
            return False
        return await delete_with_finalizer(self._kube, ClaimRecord.of(claim), leave_text.deletion("Node"))

    async def _start_workflow(self, finding: Finding) -> bool:
        if await self._claim(finding.claim, finding.uid) is None or await self._workflows.is_open(finding.claim):
            return False
        await self._workflows.start(finding.claim, finding.uid, finding.pool)
        return True

    async def _notify_claim_gone(self, finding: Finding) -> bool:
        if await self._claim(finding.claim, finding.uid) is not None:
            return False
        return await self._workflows.poke(finding.claim, Poke(claim_deleting=True, claim_gone=True, reason="gone"))

    async def _release_node(self, finding: Finding) -> bool:
        if finding.claim and (
            await self._claim(finding.claim) is not None or await self._workflows.is_open(finding.claim)
        ):
            return False
        if not await self._instance_gone(finding.instance_id):
            return False
        return await self._free(finding.node_name, finding.uid)

    async def _delete_template(self, finding: Finding, observations: Observations) -> bool:
        unknown = bool(finding.node_class) and finding.node_class not in (observations.classes or ())
        if unknown and await self._kube.get(EC2NODECLASSES, finding.node_class) is not None:
            return False
        template = ObservedTemplate(finding.name, finding.template, finding.since, finding.node_class)
        return await with_heartbeat(asyncio.to_thread(self._ec2.delete_launch_template, template))

    async def _claim(self, name: str, uid: str = "") -> ObservedClaim | None:
        raw = await self._kube.get(NODECLAIMS, name)
        if raw is None or (uid and raw["metadata"].get("uid") != uid):
            return None
        return claim_seen(raw)

    async def _instance_gone(self, instance_id: str) -> bool:
        return await with_heartbeat(asyncio.to_thread(self._ec2.instance_state, instance_id)) in GONE_STATES

    async def _free(self, name: str, uid: str) -> bool:
        """Delete a Node and remove Tenon's finalizer, because no workflow is left to do it."""
        existed = await self._kube.delete(NODES, name, uid=uid)
        await change(self._kube, NODES, name, without_finalizer, uid=uid)
        return existed
