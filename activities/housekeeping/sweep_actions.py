"""Acts on one finding. Reads its object again by name first, so that a stale or incomplete list ends nothing."""

from __future__ import annotations

import asyncio

from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from activities.housekeeping.node_workflows import NodeWorkflows
from activities.housekeeping.sweep_reader import claim_seen, node_seen, read_claims
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import TAGGED, annotate_claim
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES
from tenon.housekeeping.facts import ENDED_STATES, GONE_STATES, Graces, Observations, ObservedClaim, ObservedTemplate
from tenon.housekeeping.findings import Finding, Kind
from tenon.kube.claim_record import instance_id_of
from tenon.lifecycle.messages.base import ClaimRef
from tenon.lifecycle.messages.node import Poke
from tenon.lifecycle.release import without_finalizer


class SweepActions:
    """Acts on the findings of one cluster. The caller handles errors of Kubernetes, EC2 and Temporal."""

    def __init__(self, kube: Kube, ec2: Ec2Provider, workflows: NodeWorkflows, graces: Graces) -> None:
        self._kube = kube
        self._ec2 = ec2
        self._workflows = workflows
        self._graces = graces

    async def act(self, found: Finding, seen: Observations) -> bool:
        """Check the finding again and act on it if it still holds. Return whether it does."""
        match found.kind:
            case Kind.INSTANCE_WITHOUT_CLAIM:
                return await self._terminate_instance(found, seen)
            case Kind.CLAIM_WITHOUT_INSTANCE:
                return await self._notify_instance_gone(found)
            case Kind.CLAIM_WITHOUT_WORKFLOW:
                return await self._start_workflow(found)
            case Kind.WORKFLOW_WITHOUT_CLAIM:
                return await self._notify_claim_gone(found)
            case Kind.NODE_WITHOUT_CLAIM:
                return await self._release_node(found)
            case Kind.UNUSED_TEMPLATE:
                return await self._delete_template(found, seen)
            case Kind.FOREIGN_FINALIZER:
                claim = await self._claim(found.claim, found.uid)
                return claim is not None and bool(claim.foreign_finalizers)
            case Kind.UNTAGGED_INSTANCE:
                return await self._tag_instance(found)

    async def _tag_instance(self, found: Finding) -> bool:
        name = asyncio.to_thread(self._ec2.name_instance, found.instance_id, found.claim, found.node_name)
        tagged = await with_heartbeat(name)
        if tagged:
            ref = ClaimRef(cluster=self._ec2.cluster.name, name=found.claim, uid=found.uid)
            await annotate_claim(self._kube, ref, TAGGED)
        return tagged

    async def _terminate_instance(self, found: Finding, seen: Observations) -> bool:
        if await self._is_held(found, seen):
            return False
        if await self._instance_gone(found.instance_id):
            return False
        await with_heartbeat(asyncio.to_thread(self._ec2.terminate, found.instance_id))
        for node in seen.nodes or ():
            if instance_id_of(node.provider_id) == found.instance_id:
                await self._free(node.name, node.uid)
        return True

    async def _is_held(self, found: Finding, seen: Observations) -> bool:
        """Whether the instance belongs to a claim after all, or to a workflow whose grace period is not over."""
        if not found.claim:
            claims = await read_claims(self._kube)
            own = [each for each in claims if (each.group if found.group else each.pool) == (found.group or found.pool)]
            launching = any(not claim.provider_id for claim in own)
            return launching or any(claim.instance_id == found.instance_id for claim in claims)
        claim = await self._claim(found.claim)
        if claim is not None:
            return not claim.managed or claim.instance_id in ("", found.instance_id)
        left = seen.left_since.get(found.instance_id)
        if left is not None and seen.now - left >= self._graces.left_to_workflow:
            return False
        return await self._workflows.is_open(found.claim)

    async def _notify_instance_gone(self, found: Finding) -> bool:
        claim = await self._claim(found.claim, found.uid)
        if claim is None or claim.terminating:
            return False
        if await with_heartbeat(asyncio.to_thread(self._ec2.instance_state, found.instance_id)) not in ENDED_STATES:
            return False
        if claim.registered and claim.node_name:
            raw = await self._kube.get(NODES, claim.node_name)
            if raw is not None and node_seen(raw).ready:
                return False
        return await self._workflows.poke(found.claim, Poke(instance_gone=True, reason="instance gone"))

    async def _start_workflow(self, found: Finding) -> bool:
        if await self._claim(found.claim, found.uid) is None or await self._workflows.is_open(found.claim):
            return False
        await self._workflows.start(found.claim, found.uid, found.pool)
        return True

    async def _notify_claim_gone(self, found: Finding) -> bool:
        if await self._claim(found.claim, found.uid) is not None:
            return False
        return await self._workflows.poke(found.claim, Poke(claim_deleting=True, claim_gone=True, reason="gone"))

    async def _release_node(self, found: Finding) -> bool:
        if found.claim and (await self._claim(found.claim) is not None or await self._workflows.is_open(found.claim)):
            return False
        if not await self._instance_gone(found.instance_id):
            return False
        return await self._free(found.node_name, found.uid)

    async def _delete_template(self, found: Finding, seen: Observations) -> bool:
        unknown = bool(found.node_class) and found.node_class not in (seen.classes or ())
        if unknown and await self._kube.get(EC2NODECLASSES, found.node_class) is not None:
            return False
        template = ObservedTemplate(found.name, found.template, found.since, found.node_class)
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
