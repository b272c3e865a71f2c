"""``tenon drain-node-group``: moves the pods of a node group to nodes of Tenon, node by node, and shrinks the group."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import DEPLOYMENTS
from cli.application import create_app, examples
from cli.context import resolve_if_known
from cli.node_groups.group import GroupError, ScalingGroup
from cli.node_groups.nodes import NodePods, bound_to_group, cordon, evict, read_nodes
from cli.nodes.requests import is_interactive
from cli.switching.deployments import replicas_of
from cli.switching.leases import LeaseWatch
from tenon.errors import TenonError
from tenon.migration.group_draining import AtOnceError, moves, number_at_once
from tenon.sentences import counted, first_few
from worker.settings import parse_duration

app = create_app()

LOOK_SECONDS = 2.0
SHOWN = 5
LEFT, REFUSED = 1, 2
"""Exit status: pods are left that nothing moved in time; nothing was begun."""
AUTOSCALERS = ("cluster-autoscaler", "aws-cluster-autoscaler")


class DrainError(TenonError):
    """The group cannot be drained. The message is one sentence that says what to do."""


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
) -> None:
    """Move the pods of a node group to nodes of Tenon, a few nodes at a time, and make the group smaller.

    Pods leave by evictions, which respect PodDisruptionBudgets and karpenter.sh/do-not-disrupt. An empty node ends, and
    the group's desired size with it. Stop Cluster Autoscaler first. Run the command again if it is stopped: it goes on.
    The exit status is 1 if pods are left that nothing moved within --timeout.
    """
    try:
        options = Options(
            group, cluster, region, remain, at_once, parse_duration(timeout).total_seconds(), dry_run, yes
        )
        status = asyncio.run(_drain(options))
    except (DrainError, GroupError, AtOnceError, ApiError, ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if status:
        raise typer.Exit(status)


async def _drain(options: Options) -> int:
    if (context := resolve_if_known(None)) is not None:
        context.apply()
    kube = await Kube.connect()
    try:
        group = await asyncio.to_thread(ScalingGroup.of, options.group, options.cluster, options.region)
        nodes = await read_nodes(kube, group.instances)
        at_once = number_at_once(options.at_once, len(nodes))
        await _check(kube, options, nodes)
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
        await _warn(kube, [item.node.name for item in nodes if item.node.name not in first.staying])
        if options.dry_run or first.is_over:
            return 0
        _confirm(options)
        await asyncio.to_thread(group.lower_minimum, options.remain)
        return await _pass_by_pass(kube, group, options, at_once)
    finally:
        await kube.close()


async def _check(kube: Kube, options: Options, nodes: list[NodePods]) -> None:
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
    watch = LeaseWatch(kube)
    if not any(holder.is_tenon for holder in await watch.holders()):
        raise DrainError("Tenon does not lead, so nothing would buy nodes for the pods: start it first.")
    tenons = sum(item.node.runs_tenon for item in nodes)
    if tenons > options.remain:
        raise DrainError(
            f"Tenon itself runs on {counted(tenons, 'node')} of the group, and must not run on nodes that it manages: "
            f"add --remain {tenons}, or move it to another group first."
        )


async def _warn(kube: Kube, nodes: list[str]) -> None:
    pods = await bound_to_group(kube, nodes)
    if pods:
        print(
            f"warning: {counted(len(pods), 'pod')} select a label of the group and fit on none of Tenon's nodes "
            f"({first_few(pods, SHOWN)}): select a label of your NodePool instead.",
            file=sys.stderr,
        )


def _confirm(options: Options) -> None:
    """Ask whether to begin.

    Raises:
        DrainError: the answer is no, or nobody is there to give it.
    """
    if options.yes:
        return
    if not is_interactive():
        raise DrainError("Nothing was changed: add --yes, because nobody is at a terminal to confirm it.")
    if not typer.confirm("Begin?", default=False):
        raise DrainError("Nothing was changed.")


async def _pass_by_pass(kube: Kube, group: ScalingGroup, options: Options, at_once: int) -> int:
    """Go on until only the nodes are left that stay, or until nothing has moved for too long."""
    clock = asyncio.get_running_loop().time
    before, moved_at, reported = "", clock(), ""
    ended: set[str] = set()
    while True:
        await asyncio.to_thread(group.refresh)
        nodes = await read_nodes(kube, set(group.instances) - ended)
        by_name = {item.node.name: item for item in nodes}
        step = moves([item.node for item in nodes], remain=options.remain, at_once=at_once)
        if step.is_over:
            await asyncio.to_thread(group.finish)
            print(f"Done: {counted(len(nodes), 'node')} of group {group.name} left.")
            return 0
        for name in step.cordon:
            await cordon(kube, name)
        if step.cordon:
            _say(f"Cordoned {first_few(list(step.cordon), SHOWN)}.")
        for name in step.terminate:
            node = by_name[name].node
            await asyncio.to_thread(group.terminate, node.instance)
            ended.add(node.instance)
            _say(f"Ended {name} ({node.instance}): it has no pods left.")
        blocked: list[str] = []
        for name in step.drain:
            blocked += await evict(kube, by_name[name].pods, utc_now())
        reported = _report_once(blocked, reported, _say)
        state = repr([(item.node.name, [pod.key for pod in item.pods]) for item in nodes])
        if state != before:
            before, moved_at = state, clock()
        elif clock() - moved_at >= options.timeout:
            why = first_few(blocked, SHOWN) or "their pods do not end"
            print(f"Nothing has moved for {options.timeout:g} s: {why}. Run it again to go on.", file=sys.stderr)
            return LEFT
        await asyncio.sleep(LOOK_SECONDS)


def _report_once(blocked: list[str], reported: str, say: Callable[[str], None]) -> str:
    sentence = f"Waiting: {first_few(blocked, SHOWN)}." if blocked else ""
    if sentence and sentence != reported:
        say(sentence)
    return sentence or reported


def _say(sentence: str) -> None:
    print(f"{utc_now():%H:%M:%S}  {sentence}", flush=True)
