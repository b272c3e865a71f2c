"""What must hold before and while the pods of a group move: Tenon leads, and Cluster Autoscaler does not run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS
from cli.node_groups.group import ScalingGroup
from cli.node_groups.nodes import NodePods, bound_to_group, read_waiting
from cli.switching.deployments import replicas_of
from cli.switching.leases import LeaseWatch
from tenon.errors import TenonError
from tenon.sentences import counted, first_few

SHOWN = 5
"""How many names a sentence lists."""
LEASE_SECONDS = 1.0
"""How long to wait between two looks at the Leases."""
NOBODY_LEADS = "Tenon does not lead, so nothing would buy nodes for the pods"
AUTOSCALERS = ("cluster-autoscaler", "aws-cluster-autoscaler")


class DrainError(TenonError):
    """The group cannot be drained. The message is one sentence that says what to do."""


async def check(kube: Kube, leases: LeaseWatch, nodes: Sequence[NodePods], remain: int) -> None:
    """Check that Tenon can take the pods.

    Raises:
        DrainError: it cannot.
    """
    scaling = [
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in await kube.list(DEPLOYMENTS)
        if replicas_of(item) and any(name in str(item["metadata"]["name"]) for name in AUTOSCALERS)
    ]
    if scaling:
        namespace, _, name = scaling[0].partition("/")
        raise DrainError(
            f"Cluster Autoscaler ({scaling[0]}) runs, and would scale the group up again: "
            f"kubectl -n {namespace} scale deployment/{name} --replicas=0"
        )
    if not await shows_that_it_leads(leases):
        raise DrainError(
            f"{NOBODY_LEADS}: start it first, or name its Lease with --lease if that is not {leases.name}."
        )
    tenons = sum(item.node.runs_tenon for item in nodes)
    if tenons > remain:
        raise DrainError(
            f"Tenon itself runs on {counted(tenons, 'node')} of the group, and must not run on nodes that it manages: "
            f"add --remain {tenons}, or move it to another group first."
        )


def count_unjoined(group: ScalingGroup, nodes: Sequence[NodePods]) -> int:
    """How many instances of the group are no Nodes yet.

    Raises:
        DrainError: none of them is a Node, as if the group belonged to another cluster.
    """
    if group.instances and not nodes:
        raise DrainError(
            f"None of the {counted(len(group.instances), 'instance')} of group {group.name} is a Node of this cluster: "
            "check the context of kubectl and --region, or wait until they have joined."
        )
    return len(group.instances) - len(nodes)


async def shows_that_it_leads(leases: LeaseWatch, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> bool:
    """Watch until a replica of Tenon renews its Lease, or until no replica can hold one any more.

    A single look is not enough: a Lease still names its holder after that one has died.
    """
    while tenons := [holder for holder in await leases.holders() if holder.is_tenon]:
        if any(holder.renews for holder in tenons):
            return True
        await sleep(LEASE_SECONDS)
    return False


async def leads(leases: LeaseWatch) -> bool:
    """Whether Tenon leads, for a watch that has shown it before."""
    return any(holder.is_tenon and holder.renews for holder in await leases.holders())


async def warn(kube: Kube, nodes: Sequence[str]) -> None:
    """Name the pods that fit on none of Tenon's nodes, and those for which the drain does not wait."""
    waiting = [pod.key for pod in await read_waiting(kube) if pod.unschedulable]
    if waiting:
        print(
            f"warning: {counted(len(waiting), 'pod')} without a node already ({first_few(waiting, SHOWN)}): the drain "
            "does not wait for them.",
            file=sys.stderr,
        )
    pods = await bound_to_group(kube, nodes)
    if pods:
        print(
            f"warning: {counted(len(pods), 'pod')} select a label of the group and fit on none of Tenon's nodes "
            f"({first_few(pods, SHOWN)}): select a label of your NodePool instead.",
            file=sys.stderr,
        )
