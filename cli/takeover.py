"""``tenon takeover``: guides a cluster from Karpenter to Tenon on the same nodes, and back if Tenon is not healthy."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import typer

from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.connection import connected
from cli.options import Output
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
from cli.switching.deployments import DeploymentError, karpenters, tenons
from cli.switching.memory import SwitchMemoryError
from tenon.migration.switch import Direction

app = create_app()


@app.command(
    epilog=examples(
        "tenon takeover --dry-run",
        "tenon takeover --karpenter kube-system/karpenter --timeout 15m",
        "tenon takeover --go-back    # undo one that was interrupted",
    )
)
def takeover(
    karpenter: KarpenterName = None,
    tenon: TenonName = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout: Timeout = "10m",
    settle: Settle = "5m",
    go_back: GoBack = False,
    output: Output = "table",
) -> None:
    """Move the cluster from Karpenter to Tenon: the same nodes, and no pod moves. Goes back if Tenon is not healthy.

    Install Tenon first, next to Karpenter: it stands by. The command checks, shows its plan and asks. It scales
    Karpenter's Deployment to 0 and waits until Tenon leads. If it is stopped at any moment, run it again: it goes on.
    The exit status is 1 if Karpenter leads again.
    """
    try:
        options = Options(
            Direction.TAKEOVER,
            karpenter,
            tenon,
            dry_run,
            yes,
            waiting_time("--timeout", timeout),
            waiting_time("--settle", settle),
            go_back,
            output,
        )
        status = asyncio.run(_take_over(options))
    except (SwitchError, DeploymentError, SwitchMemoryError, ConfigError, ApiError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if status:
        raise typer.Exit(status)


async def _take_over(options: Options) -> int:
    kube = await connected()
    try:
        workloads = await karpenters(kube, options.karpenter), await tenons(kube, options.tenon)
        return await switch(kube, options, workloads, _nothing_to_clear)
    finally:
        await kube.close()


async def _nothing_to_clear(_report: Callable[[str], None]) -> None:
    """Karpenter has no workflows, and Tenon understands its marks."""
