"""Reads Kubernetes, EC2 and Temporal for a sweep, directly, because a cache with a stalled watch would mislead it.

Each source is read separately. If one cannot be read completely, it is None in the result and the reason is returned
too. The sweep then makes no findings that depend on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from temporalio.service import RPCError

from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.garbage_collection.node_workflows import NodeWorkflows
from activities.heartbeat import with_heartbeat
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES, Resource
from tenon.apis import labels
from tenon.apis.managed import manages_claim, may_manage_node
from tenon.ec2.launch.network_annotations import recorded_network
from tenon.garbage_collection.facts import Observations, ObservedClaim, ObservedInstance, ObservedNode
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.conditions import is_true
from tenon.kube.owners import owners
from tenon.kube.timestamps import parse_instant
from tenon.provisioning.launch_groups import group_of

PAGE = 500
NO_CREATION_TIME = datetime.max.replace(tzinfo=UTC)
"""The creation time of objects that do not state one. Their grace periods never end."""
MAX_ERROR_LENGTH = 300
"""The maximum length of an error message in the report."""

Read = TypeVar("Read")


async def observe(
    kube: Kube,
    ec2: Ec2Provider,
    workflows: NodeWorkflows,
    now: Callable[[], datetime],
    left_since: Mapping[str, datetime],
) -> tuple[Observations, dict[str, str]]:
    """Read all sources. Return what could be read, and the reason for each source that could not.

    Instances are read before claims, so that the list of claims contains the living claim of every instance seen.
    """
    unread: dict[str, str] = {}

    async def read(source: str, work: Awaitable[Read]) -> Read | None:
        try:
            return await with_heartbeat(work)
        except (ApiError, EC2Error, RPCError) as error:
            unread[source] = str(error)[:MAX_ERROR_LENGTH]
            return None

    opened = await read("workflows", workflows.opened())
    instances = await read("instances", asyncio.to_thread(ec2.owned_instances))
    templates = await read("launch templates", asyncio.to_thread(ec2.launch_templates))
    claims = await read("NodeClaims", read_claims(kube))
    nodes = await read("Nodes", _all(kube, NODES, node_seen))
    unlisted = [] if instances is None else _unlisted(instances, claims or (), nodes or ())
    states = await read("instances by id", asyncio.to_thread(ec2.states, unlisted)) if unlisted else {}
    classes = await read("EC2NodeClasses", _all(kube, EC2NODECLASSES, _name))
    observations = Observations(
        now=now(),
        claims=claims,
        instances=None if instances is None else tuple(instances),
        nodes=nodes,
        workflows=opened,
        templates=None if templates is None else tuple(templates),
        classes=None if classes is None else frozenset(classes),
        states=states,
        left_since=left_since,
    )
    return observations, unread


def _unlisted(
    instances: Sequence[ObservedInstance], claims: Sequence[ObservedClaim], nodes: Sequence[ObservedNode]
) -> list[str]:
    """The instances that Tenon's NodeClaims and Nodes name and that the list of instances lacks."""
    claimed_ids = {claim.instance_id for claim in claims if claim.managed}
    claimed_ids |= {instance_id_of(node.provider_id) for node in nodes if node.ours}
    return sorted(claimed_ids - {instance.id for instance in instances} - {""})


async def read_claims(kube: Kube) -> tuple[ObservedClaim, ...]:
    """All NodeClaims, read from the API server."""
    return await _all(kube, NODECLAIMS, claim_seen)


def claim_seen(raw: Mapping[str, Any]) -> ObservedClaim:
    """The fields of a raw NodeClaim that the sweep needs."""
    claim = ClaimRecord.of(raw)
    group = group_of(claim.annotations)
    return ObservedClaim(
        name=claim.name,
        uid=claim.uid,
        created_at=claim.created_at or NO_CREATION_TIME,
        pool=claim.pool,
        node_class=claim.node_class,
        provider_id=claim.provider_id,
        launched_at=claim.launched_at,
        registered=claim.registered,
        registered_at=claim.registered_at,
        node_name=claim.node_name,
        deleted_at=claim.deleted_at,
        terminating=claim.terminating,
        finalizers=tuple(claim.finalizers),
        managed=manages_claim(raw),
        group=group.id if group else "",
        network=recorded_network(claim.annotations),
    )


def node_seen(raw: Mapping[str, Any]) -> ObservedNode:
    """The fields of a raw Node that the sweep needs."""
    metadata = raw["metadata"]
    return ObservedNode(
        name=metadata["name"],
        uid=metadata["uid"],
        created_at=parse_instant(metadata.get("creationTimestamp")) or NO_CREATION_TIME,
        provider_id=(raw.get("spec") or {}).get("providerID") or "",
        claim=next((owner.name for owner in owners(raw) if owner.kind == NODECLAIMS.kind), ""),
        ready=is_true(raw, "Ready"),
        ours=labels.TERMINATION_FINALIZER in object_json.finalizers(raw) and may_manage_node(object_json.labels(raw)),
        registered=object_json.labels(raw).get(labels.REGISTERED) == "true",
    )


async def _all(kube: Kube, resource: Resource, reduce: Callable[[Mapping[str, Any]], Read]) -> tuple[Read, ...]:
    return tuple([reduce(raw) async for raw in _each(kube, resource)])


async def _each(kube: Kube, resource: Resource) -> AsyncIterator[Mapping[str, Any]]:
    """List the objects page by page, so that at most one page of complete objects is in memory."""
    query = {"limit": str(PAGE)}
    while True:
        page = json.loads(await kube.request("GET", resource.path(), query=query))
        for item in page.get("items") or ():
            yield item
        query["continue"] = (page.get("metadata") or {}).get("continue") or ""
        if not query["continue"]:
            return


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["name"])
