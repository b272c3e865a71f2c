"""Ends Tenon's workflows of a cluster and removes its own marks from objects, so that Karpenter finds its own form.

Instances, pods, finalizers and Karpenter's labels stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio.client import Client

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES, NODECLAIMS, NODES
from activities.teardown.open_workflows import end_open_workflows
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim
from tenon.errors import TenonError
from tenon.kube.claim_record import ClaimRecord
from tenon.node.handback import handed_back
from tenon.sentences import counted
from worker.runtime.election.lease import is_tenons
from worker.runtime.temporal.temporal_client import connect
from workflows import names
from workflows.garbage_collection import schedule_id

CONCURRENCY = 20
PAUSE = 1.0
LEASE_SECONDS = 15.0


class StillLeadsError(TenonError):
    """A running worker would start everything again. The message is one sentence."""


async def clear(kube: Kube, cluster: str, report: Callable[[str], None]) -> None:
    """End the workflows and remove the marks. It may be repeated.

    Raises:
        TemporalError: Temporal cannot be reached.
        RPCError: Temporal refuses.
        ApiError: the API server refuses.
    """
    client = await connect()
    ended = await end_workflows(client, cluster)
    report(f"ended {ended} workflows of cluster {cluster}, and the Schedule {schedule_id(cluster)}")
    nodes, claims = await _tenon_objects(kube)
    cleaned = sum(await bounded([*nodes, *claims], CONCURRENCY, lambda obj: _clean(kube, obj)))
    report(marks_removed(cleaned, len(nodes), len(claims)))
    unlaunched = sorted(claim.name for claim in map(ClaimRecord.of, claims) if not claim.provider_id)
    if unlaunched:
        report(f"not launched yet, Karpenter launches them: {', '.join(unlaunched)}")


def marks_removed(cleaned: int, nodes: int, claims: int) -> str:
    """Say how many of the objects had marks."""
    counts = f"{counted(nodes, 'Node')} and {counted(claims, 'NodeClaim')}"
    return f"removed Tenon's marks from {cleaned} of {counted(nodes + claims, 'object')}: {counts}"


async def _tenon_objects(kube: Kube) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the Nodes and NodeClaims that another controller does not manage."""
    nodes, claims = await kube.list(NODES, label_selector=labels.NODEPOOL), await kube.list(NODECLAIMS)
    others = {ClaimRecord.of(claim).provider_id for claim in claims if not manages_claim(claim)}
    return (
        [node for node in nodes if node["spec"].get("providerID") not in others - {""}],
        [claim for claim in claims if manages_claim(claim)],
    )


async def wait_until_lease_free(kube: Kube, name: str, report: Callable[[str], None]) -> None:
    """Wait for the Lease of a killed worker to expire.

    Raises:
        StillLeadsError: a worker renews a Lease.
    """
    before = await _held(kube, name)
    if not before:
        return
    report(f"a worker holds the Lease {', '.join(before)}: waiting {LEASE_SECONDS:.0f} s for it to expire")
    for _ in range(round(LEASE_SECONDS / PAUSE)):
        await asyncio.sleep(PAUSE)
        renewed = [lease for lease, version in (await _held(kube, name)).items() if before.get(lease) != version]
        if renewed:
            namespace = renewed[0].partition("/")[0]
            raise StillLeadsError(
                f"A worker renews the Lease {renewed[0]}: stop all workers first, "
                f"with: kubectl scale deployment tenon --replicas=0 -n {namespace}"
            )


async def _held(kube: Kube, name: str) -> dict[str, str]:
    """Return the Leases that Tenon workers hold, with their resource versions."""
    leases = await kube.list(LEASES, field_selector=f"metadata.name={name}")
    return {
        f"{lease['metadata']['namespace']}/{name}": lease["metadata"]["resourceVersion"]
        for lease in leases
        if is_tenons(str((lease.get("spec") or {}).get("holderIdentity") or ""))
    }


async def end_workflows(client: Client, cluster: str) -> int:
    """Terminate all open workflows of the cluster and return their number."""
    why = "tenon handback: Karpenter takes over"
    prefix = names.node_schedules_prefix(cluster)
    return await end_open_workflows(client, names.task_queue(cluster), schedule_id(cluster), prefix, why)


async def _clean(kube: Kube, obj: JsonObject) -> bool:
    """Remove Tenon's marks from the object. Return True if there were any."""
    resource = NODES if obj["kind"] == "Node" else NODECLAIMS
    if not handed_back(obj):
        return False
    metadata = obj["metadata"]
    await change(kube, resource, metadata["name"], handed_back, uid=metadata["uid"], read_object=obj)
    return True
