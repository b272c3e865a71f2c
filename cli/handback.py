"""``tenon handback``: hands a cluster over to Karpenter without replacing any node.

It terminates Tenon's workflows, which would otherwise continue when a worker starts again, and removes Tenon's own
labels, annotations and taints from Nodes and NodeClaims. Instances, pods, finalizers and Karpenter's labels stay, so
that Karpenter continues with them.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import LEASES, NODECLAIMS, NODES
from activities.teardown.open_workflows import end_open_workflows
from cli.application import create_app, examples
from cli.context import ContextError, resolve
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim
from tenon.errors import TenonError
from tenon.kube.claim_record import ClaimRecord
from tenon.node.handback import handed_back
from tenon.sentences import counted
from worker.runtime.lease import LEASE_NAME, is_tenons
from worker.runtime.temporal_client import TemporalError, connect
from workflows import names
from workflows.garbage_collection import schedule_id

app = create_app()
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
]
Lease = Annotated[
    str, typer.Option("--lease", metavar="NAME", envvar="LEADER_ELECTION_NAME", help="Name of the workers' Lease.")
]

CONCURRENCY = 20
PAUSE = 1.0
LEASE_SECONDS = 15.0


class StillLeadsError(TenonError):
    """A running worker would start everything again. The message is one sentence."""


@app.command(
    epilog=examples(
        "kubectl -n tenon scale deployment tenon --replicas 0",
        "tenon handback --cluster prod",
    )
)
def handback(cluster: Cluster = None, lease: Lease = LEASE_NAME) -> None:
    """End Tenon's workflows and remove what it wrote on objects, so that Karpenter takes over the same nodes.

    Stop all workers first. It replaces, drains and terminates nothing; running it again is harmless.
    """
    try:
        asyncio.run(_hand_back(cluster, lease))
    except (StillLeadsError, ContextError, TemporalError, ConfigError, ApiError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except RPCError as error:
        print(f"Temporal refused: {error.message}.", file=sys.stderr)
        raise typer.Exit(2) from None


async def _hand_back(cluster: str | None, lease: str) -> None:
    context = resolve(cluster)
    context.apply()
    kube = await Kube.connect()
    try:
        await wait_until_lease_free(kube, lease)
        client = await connect()
        ended = await end_workflows(client, context.cluster)
        print(f"ended {ended} workflows of cluster {context.cluster}, and the Schedule {schedule_id(context.cluster)}")
        nodes, claims = await _tenon_objects(kube)
        cleaned = sum(await bounded([*nodes, *claims], CONCURRENCY, lambda obj: _clean(kube, obj)))
        print(marks_removed(cleaned, len(nodes), len(claims)))
        unlaunched = sorted(claim.name for claim in map(ClaimRecord.of, claims) if not claim.provider_id)
        if unlaunched:
            print(f"not launched yet, Karpenter launches them: {', '.join(unlaunched)}")
        print("you can start Karpenter now")
    finally:
        await kube.close()


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


async def wait_until_lease_free(kube: Kube, name: str) -> None:
    """Wait for the Lease of a killed worker to expire.

    Raises:
        StillLeadsError: a worker renews a Lease.
    """
    before = await _held(kube, name)
    if not before:
        return
    print(f"a worker holds the Lease {', '.join(before)}: waiting {LEASE_SECONDS:.0f} s for it to expire")
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
