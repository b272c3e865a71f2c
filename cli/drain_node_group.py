"""``tenon drain-node-group``: moves the pods of a node group to nodes of Tenon, node by node, and shrinks the group."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.confirmation import confirm_beginning
from cli.connection import connected
from cli.node_groups.group import GroupError, ScalingGroup
from cli.node_groups.nodes import read_nodes, read_waiting
from cli.node_groups.passes import GroupDrain
from cli.node_groups.preconditions import DrainError, check, count_unjoined, warn
from cli.options import Lease
from cli.switching.leases import LeaseWatch
from tenon.migration.group_draining import AtOnceError, moves, number_at_once
from tenon.sentences import counted
from worker.runtime.election.lease import LEASE_NAME
from worker.settings import parse_duration

app = create_app()

LEFT, REFUSED = 1, 2
"""Exit status: the drain stopped because nothing moved in time; no pod was moved."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    group: str
    cluster: str
    region: str | None
    remain: int
    at_once: str
    timeout: float
    dry_run: bool
    yes: bool
    lease: str


@app.command(
    epilog=examples(
        "tenon drain-node-group web --cluster prod --dry-run",
        "tenon drain-node-group web --cluster prod --at-once 10%",
        "tenon drain-node-group system --cluster prod --remain 2",
    )
)
def drain_node_group(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="A managed node group, or an Auto Scaling group.")],
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="The EKS cluster of the group.")
    ] = "",
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Its AWS region.")] = None,
    remain: Annotated[int, typer.Option("--remain", min=0, help="How many nodes of the group stay.")] = 0,
    at_once: Annotated[
        str, typer.Option("--at-once", metavar="NODES", help="How many nodes are drained at a time: 1, or 10%.")
    ] = "1",
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="DURATION", help="Stop if no pod has moved for so long."),
    ] = "15m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    lease: Lease = LEASE_NAME,
) -> None:
    """Move the pods of a node group to nodes of Tenon, a few nodes at a time, and make the group smaller.

    Pods leave by evictions, which respect PodDisruptionBudgets and karpenter.sh/do-not-disrupt. An empty node ends, and
    the group's desired size with it. Stop Cluster Autoscaler first. Run the command again if it is stopped: it goes on.
    The exit status is 1 if pods are left that nothing moved within --timeout.
    """
    try:
        options = Options(
            group, cluster, region, remain, at_once, parse_duration(timeout).total_seconds(), dry_run, yes, lease
        )
        status = asyncio.run(_drain(options))
    except (DrainError, GroupError, AtOnceError, ApiError, ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if status:
        raise typer.Exit(status)


async def _drain(options: Options) -> int:
    kube = await connected()
    try:
        group = await asyncio.to_thread(ScalingGroup.of, options.group, options.cluster, options.region)
        nodes = await read_nodes(kube, group.instances)
        at_once = number_at_once(options.at_once, len(nodes))
        leases = LeaseWatch(kube, options.lease)
        await check(kube, leases, nodes, options.remain)
        unjoined = count_unjoined(group, nodes)
        first = moves([item.node for item in nodes], remain=options.remain, at_once=at_once)
        leaving = len(nodes) - len(first.staying)
        pods = sum(len(item.pods) for item in nodes if item.node.name not in first.staying)
        stays = f" {', '.join(first.staying)} stay." if first.staying else ""
        if cordoned := [item.node.name for item in nodes if item.node.name in first.staying and item.node.cordoned]:
            stays += f" Cordoned, and stay so: kubectl uncordon {' '.join(cordoned)}."
        print(
            f"Group {group.name} has {counted(len(nodes), 'node')} (minimum {group.minimum}, desired {group.desired}). "
            f"{counted(leaving, 'node')} leave, {at_once} at a time, with {counted(pods, 'pod')}.{stays}"
        )
        if unjoined:
            print(f"{counted(unjoined, 'instance')} of the group have not joined the cluster yet.")
        await warn(kube, [item.node.name for item in nodes if item.node.name not in first.staying])
        if options.dry_run or (first.is_over and not unjoined):
            return 0
        confirm_beginning(DrainError, yes=options.yes)
        earlier = {pod.uid for pod in await read_waiting(kube)}
        await asyncio.to_thread(group.lower_minimum, options.remain)
        draining = GroupDrain(kube, group, leases, options.remain, at_once, options.timeout, earlier)
        return 0 if await draining.run() else LEFT
    finally:
        await kube.close()
