"""``tenon node``: shows and controls nodes through their workflows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.command_reading import RunningCommands
from cli.console import output_console
from cli.durations import duration_of
from cli.name_completion import node_names
from cli.nodes import outcomes, watching
from cli.nodes.control import (
    DryRun,
    Most,
    Names,
    OperatorCommand,
    Options,
    Pool,
    Reason,
    Selector,
    Timeout,
    Wait,
    Yes,
    carry_out,
    choice_of,
)
from cli.nodes.details import read_details
from cli.nodes.listing import NodeList, read_list
from cli.nodes.printed_list import ListOutput, print_list
from cli.nodes.requests import DRAIN, EXPIRE, FORCE_DRAIN, KEEP, asking, asking_to_reboot
from cli.nodes.workflows import run
from cli.options import Cluster, Output, Ticket
from cli.unknown_pools import why_unknown
from tenon.fleet.choice import Choice
from tenon.fleet.order import SortKey, ordered
from tenon.kube.selector_text import SelectorError
from tenon.kube.timestamps import time_text
from tenon.node.remedies import report
from tenon.node.timeline import details
from worker.settings import parse_duration

app = create_app(no_args_is_help=True, help="Watch and control nodes through their workflows.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A NodeClaim, its Node or its instance.", autocompletion=node_names)
]
Blocked = Annotated[bool, typer.Option("--blocked", help="Only blocked nodes, and what else waits for you.")]


def _choice(
    names: Sequence[str] | None, selector: str, pool: str, most: int | None = None, *, selects_leaving: bool = False
) -> Choice:
    try:
        return choice_of(names, selector, pool, most, selects_leaving=selects_leaving)
    except SelectorError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None


def _selected(
    names: Sequence[str] | None, selector: str, pool: str, most: int | None, *, selects_leaving: bool = False
) -> Choice:
    """Return the choice, and exit with status 2 if its NodePool does not exist."""
    choice = _choice(names, selector, pool, most, selects_leaving=selects_leaving)
    if pool and (why := run(why_unknown(pool))):
        print(why, file=sys.stderr)
        raise typer.Exit(2)
    return choice


@app.command(
    epilog=examples(
        "tenon node drain ip-10-0-0-6.ec2.internal --reason 'its disk is slow'",
        "tenon node drain --pool web --max 3 --wait --reason 'new AMI'",
        "tenon node drain -l team=shop --dry-run",
    )
)
def drain(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Cordon, drain and terminate nodes, within PodDisruptionBudgets."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(OperatorCommand("drain", "draining", asking(DRAIN)), _selected(name, selector, pool, most), options)


@app.command(
    "force-drain",
    epilog=examples(
        "tenon node force-drain default-x7k2p --reason 'the machine hangs'",
        "tenon node force-drain -l rack=7 --dry-run",
    ),
)
def force_drain(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Delete the pods of nodes at once, even protected ones, and terminate the nodes."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    command = OperatorCommand(
        "force-drain", "draining by force", asking(FORCE_DRAIN), protected_fate="deleted all the same"
    )
    carry_out(command, _selected(name, selector, pool, most, selects_leaving=True), options)


@app.command(
    epilog=examples("tenon node expire default-x7k2p", "tenon node expire --pool web --max 1 --wait --reason rotation")
)
def expire(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Treat nodes as expired now."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(OperatorCommand("expire", "expired", asking(EXPIRE)), _selected(name, selector, pool, most), options)


@app.command(
    epilog=examples(
        "tenon node reboot default-x7k2p --reason 'new kernel' --grace-period 5m",
        "tenon node reboot -l rack=7 --dry-run",
        "tenon node reboot --pool gpu --max 2 --reason 'GPU lost' --no-wait",
    )
)
def reboot(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    grace_period: Annotated[
        str | None,
        typer.Option(
            "--grace-period",
            metavar="DURATION",
            help="How long pods are evicted first, such as 5m; 0s for none. Then the others ride through. "
            "Default: terminationGracePeriod of the NodeClaim, or no limit.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Show progress until the reboots end.")] = True,
    timeout: Timeout = "1h",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Reboot machines of nodes in place: keep pods away, evict them, reboot."""
    try:
        seconds = None if grace_period is None else parse_duration(grace_period).total_seconds()
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    command = OperatorCommand(
        "reboot",
        "rebooting",
        asking_to_reboot(seconds),
        protected_fate=_fate_in_reboot(grace_period, seconds),
        judge=outcomes.reboot,
        in_time="rebooted in time",
    )
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(command, _selected(name, selector, pool, most), options)


def _fate_in_reboot(grace_period: str | None, seconds: float | None) -> str:
    if seconds is None:
        return "the node waits for those, for its terminationGracePeriod at most"
    return f"those ride through the reboot after {grace_period}" if seconds else "no pod is evicted"


@app.command(
    epilog=examples(
        "tenon node keep default-x7k2p --for 4h --reason 'I am debugging on it'",
        "tenon node keep -l team=shop --for 48h --reason 'Black Friday'",
    )
)
def keep(
    name: Names = None,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, for example 4h, 90m or 2d.")
    ] = "24h",
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Protect nodes from disruption and expiry for some time."""
    try:
        until = utc_now() + duration_of(duration)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    command = OperatorCommand("keep", f"kept until {time_text(until)}", asking(KEEP, until), moves_pods=False)
    options = Options(cluster, dry_run, reason=reason, ticket=ticket)
    carry_out(command, _selected(name, selector, pool, most), options)


@app.command(epilog=examples("tenon node unkeep default-x7k2p --reason 'I am done'"))
def unkeep(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """End the protection that `keep` began: disruption and expiry take the nodes again."""
    command = OperatorCommand("unkeep", "no longer kept", asking(KEEP, utc_now()), moves_pods=False)
    options = Options(cluster, dry_run, reason=reason, ticket=ticket)
    carry_out(command, _selected(name, selector, pool, most), options)


@app.command(
    epilog=examples("tenon node show default-x7k2p", "tenon node show i-0abc1234 -o json    # also after its end")
)
def show(name: Name, cluster: Cluster = None, output: Output = "table") -> None:
    """Show a node's state and timeline, also after its end; if it is blocked, also what resolves that."""
    node = run(read_details(name, cluster, with_texts=output == "table"))
    if output == "json":
        print(node.state.model_dump_json(indent=2))
        return
    texts = [details(node.state), report(node.state), node.why_it_stays]
    from cli.markdown import print_markdown  # loads a large library, which only this page needs

    print_markdown(output_console(), "\n\n".join(texts))
    if node.page:
        print(f"\nIts page in Temporal's UI: {node.page}")


@app.command(
    "list",
    epilog=examples(
        "tenon node list --sort price",
        "tenon node list -l team=shop -o wide",
        "tenon node list --blocked    # what needs you, and what resolves it",
        "tenon node list --pool web -o name | xargs tenon node keep --for 4h",
    ),
)
def list_nodes(
    cluster: Cluster = None,
    output: Annotated[
        ListOutput, typer.Option("--output", "-o", help="wide and a pipe have all columns; the others are for scripts.")
    ] = ListOutput.TABLE,
    blocked: Blocked = False,
    selector: Selector = "",
    pool: Pool = "",
    sort: Annotated[SortKey, typer.Option("--sort", help="What rows are sorted by; figures from large to small.")] = (
        SortKey.NAME
    ),
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Then print each node again that changes, until Ctrl-C.")
    ] = False,
) -> None:
    """List nodes with their use, price, age, stage and expiry, and what blocks the blocked ones.

    Prices are list prices, and what spot nodes cost at launch; tenon cost asks AWS for those of now.

    With --blocked also pods that no node is bought for, commands that wait for approval, and what EC2 refuses.
    """
    choice = _choice(None, selector, pool)
    if watch and output not in (ListOutput.TABLE, ListOutput.WIDE):
        print("--watch prints tables only.", file=sys.stderr)
        raise typer.Exit(2)

    running_commands = RunningCommands()

    async def read() -> NodeList:
        return await read_list(cluster, blocked=blocked, selects=choice.selects, running_commands=running_commands)

    nodes = run(read())
    if pool and not nodes.rows and (why := run(why_unknown(pool))):
        print(why, file=sys.stderr)
    print_list(nodes, ordered(nodes.rows, sort), output, blocked=blocked)
    if watch:
        run(watching.watch(nodes, read, output))
