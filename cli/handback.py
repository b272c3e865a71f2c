"""``tenon handback``: hands a cluster over to Karpenter without replacing any node.

If both Deployments are in the cluster, it guides through all steps as `tenon takeover` does. Without them, as on a
machine where workers run by themselves, it does what only it can do: it terminates Tenon's workflows, which would
otherwise continue when a worker starts again, and removes Tenon's own labels, annotations and taints.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import typer
from temporalio.service import RPCError

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.confirmation import confirm_beginning
from cli.context import ContextError, resolve
from cli.options import Cluster, Lease, Output
from cli.switching.checks import warm_nodes
from cli.switching.clearing import StillLeadsError, clear, wait_until_lease_free
from cli.switching.command import (
    REFUSED,
    DryRun,
    GoBack,
    KarpenterName,
    Options,
    Settle,
    SwitchError,
    TenonName,
    Timeout,
    Yes,
    switch,
    waiting_time,
)
from cli.switching.deployments import DeploymentError, Workload, karpenters, tenons
from cli.switching.memory import SwitchMemoryError
from tenon.migration.switch import Direction, SwitchPhase
from worker.runtime.election.lease import LEASE_NAME
from worker.runtime.temporal.temporal_client import TemporalError, connect

app = create_app()


@app.command(
    epilog=examples(
        "tenon handback --cluster prod --dry-run",
        "tenon handback --cluster prod",
    )
)
def handback(
    cluster: Cluster = None,
    lease: Lease = LEASE_NAME,
    karpenter: KarpenterName = None,
    tenon: TenonName = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout: Timeout = "10m",
    settle: Settle = "5m",
    go_back: GoBack = False,
    output: Output = "table",
) -> None:
    """Move the cluster from Tenon to Karpenter: the same nodes, and no pod moves. Goes back if Karpenter does not lead.

    It scales Tenon to 0, ends its workflows, removes what it wrote on objects, and scales Karpenter up. Run it again if
    it is stopped: it goes on. If the cluster has no Deployment of Karpenter or of Tenon, stop all workers first: it
    then asks, and only ends the workflows and removes what Tenon wrote.
    """
    try:
        options = Options(
            Direction.HANDBACK,
            karpenter,
            tenon,
            dry_run,
            yes,
            waiting_time("--timeout", timeout),
            waiting_time("--settle", settle),
            go_back,
            output,
        )
        status = asyncio.run(_hand_back(cluster, lease, options))
    except (
        *(StillLeadsError, ContextError, TemporalError, ConfigError, ApiError),
        *(SwitchError, DeploymentError, SwitchMemoryError),
    ) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    except RPCError as error:
        print(f"Temporal refused: {error.message}.", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if status:
        raise typer.Exit(status)


async def _hand_back(cluster: str | None, lease: str, options: Options) -> int:
    context = resolve(cluster)
    context.apply()
    kube = await Kube.connect()
    try:
        if (workloads := await _workloads(kube, options)) is not None:

            async def clear_cluster(report: Callable[[str], None]) -> None:
                await clear(kube, context.cluster, report)

            options = replace(options, cluster=context.cluster)
            return await switch(kube, options, workloads, clear_cluster, connect)
        if options.dry_run or options.go_back:
            raise SwitchError(
                "The cluster has no Deployment of Karpenter and of Tenon, so there are no steps to guide."
            )
        if findings := await warm_nodes(kube):
            raise SwitchError(f"{findings[0].sentence} Start Tenon, {findings[0].remedy}.")
        report = partial(print, file=sys.stderr if options.output == "json" else sys.stdout)
        report(
            f"The cluster at {kube.host} lacks a Deployment of Karpenter or of Tenon. This ends Tenon's workflows of "
            f"cluster {context.cluster}, and removes its marks from Nodes and NodeClaims."
        )
        confirm_beginning(SwitchError, yes=options.yes)
        await wait_until_lease_free(kube, lease, report)
        await clear(kube, context.cluster, report)
        report("You can start Karpenter now.")
        if options.output == "json":
            print(json.dumps({"direction": options.direction.value, "outcome": SwitchPhase.DONE.value}, indent=2))
        return 0
    finally:
        await kube.close()


async def _workloads(kube: Kube, options: Options) -> tuple[Workload, Workload] | None:
    """Return Karpenter's and Tenon's Deployment; None if the cluster lacks one and none is named.

    Raises:
        DeploymentError: a Deployment that is named does not exist, or there are several.
    """
    try:
        return await karpenters(kube, options.karpenter), await tenons(kube, options.tenon)
    except DeploymentError as error:
        if error.is_missing and options.karpenter is None and options.tenon is None:
            return None
        raise
