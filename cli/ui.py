"""``tenon ui``: prints or opens the pages of Temporal's UI for a node, a command or a list of them."""

from __future__ import annotations

import asyncio
import re
import sys
import webbrowser
from datetime import timedelta
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError

from activities.clock import utc_now
from cli import temporal_ui
from cli.application import create_app, examples
from cli.context import ContextError, resolve
from cli.durations import duration_of
from cli.name_completion import node_names, pool_names
from cli.nodes.visibility import whole_name_in_temporal
from cli.temporal_ui import NoUiError, TemporalUi, ui_of
from tenon.errors import TenonError
from tenon.kube.node_names import AmbiguousNameError
from tenon.node import ids
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError, connect
from workflows import names

app = create_app()

_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")


class UnknownNameError(TenonError):
    """No workflow belongs to the name. The message is one sentence."""


UiUrl = Annotated[
    str | None,
    typer.Option("--ui-url", metavar="URL", envvar="TEMPORAL_UI_URL", help="Where Temporal's UI is."),
]


@app.command(
    epilog=examples("tenon ui", "tenon ui ip-10-0-0-30.ec2.internal --open", "tenon ui --blocked --pool web"),
)
def ui(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A NodeClaim, Node, instance or command, also one that is gone.",
            autocompletion=node_names,
        ),
    ] = None,
    blocked: Annotated[bool, typer.Option("--blocked", help="The nodes that wait for you.")] = False,
    leaving: Annotated[bool, typer.Option("--leaving", help="The nodes that leave.")] = False,
    expiring: Annotated[
        str | None, typer.Option("--expiring", metavar="DURATION", help="The nodes that expire within it, such as 7d.")
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="The disruption commands.")] = False,
    pool: Annotated[
        str | None, typer.Option("--pool", metavar="NAME", help="Only those of a NodePool.", autocompletion=pool_names)
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser too.")] = False,
    ui_url: UiUrl = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
) -> None:
    """Print links into Temporal's UI: a node's or a command's page, lists of them, or all lists.

    Without an argument, each list has one line. Save a list as a view with the button Save as New in the UI.
    """
    kinds = [
        kind for kind, is_asked in (("blocked", blocked), ("leaving", leaving), ("commands", commands)) if is_asked
    ]
    if expiring is not None:
        kinds.append("expiring")
    if name is not None and (kinds or pool):
        raise typer.BadParameter("NAME is one page: leave out the options of lists.")
    if len(kinds) > 1:
        raise typer.BadParameter(f"Name one list: --{' or --'.join(kinds)}.")
    for value in filter(None, (name, pool)):
        if not _NAME.fullmatch(value):
            raise typer.BadParameter(f"{value!r} cannot be the name of a node, an instance, a command or a NodePool.")
    within = temporal_ui.EXPIRING_WITHIN
    try:
        within = duration_of(expiring) if expiring is not None else within
        links = asyncio.run(_links(name, kinds, pool, within, ui_url, cluster))
    except RPCError as error:
        print(f"Temporal refused: {error.message}.", file=sys.stderr)
        raise typer.Exit(2) from None
    except (
        ValueError,
        UnknownNameError,
        AmbiguousNameError,
        NoUiError,
        ContextError,
        TemporalError,
        PayloadCodecError,
    ) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    width = max(len(about) for about in links)
    for about, link in links.items():
        print(link if len(links) == 1 else f"{about:<{width}}  {link}")
    if open_:
        _open(next(iter(links.values())))


def _open(link: str) -> None:
    if not webbrowser.open(link):
        print("No browser can be opened here: copy the link.", file=sys.stderr)


async def _links(
    name: str | None, kinds: list[str], pool: str | None, within: timedelta, ui_url: str | None, cluster: str | None
) -> dict[str, str]:
    """Return the links that were asked for, by what they show."""
    context = resolve(cluster)
    context.apply()
    client = await connect()
    pages = ui_of(client, ui_url or context.environment.get("TEMPORAL_UI_URL"))
    if name is not None:
        return await _pages(client, pages, context.cluster, name)
    now = utc_now()
    if kinds or pool:
        match kinds:
            case ["expiring"]:
                query = temporal_ui.expiring(context.cluster, now, within)
            case [kind]:
                query = next(view.query(context.cluster, now) for view in temporal_ui.VIEWS if view.name == kind)
            case _:
                query = temporal_ui.nodes(context.cluster)
        return {"list": pages.workflows(temporal_ui.in_pool(query, pool) if pool else query)}
    links = {view.about: pages.workflows(view.query(context.cluster, now)) for view in temporal_ui.VIEWS}
    return links | {about: pages.workflow(own) for own, about in temporal_ui.singletons(context.cluster).items()}


async def _pages(client: Client, pages: TemporalUi, cluster: str, name: str) -> dict[str, str]:
    """Return the page of the newest workflow that the name belongs to, and for a node the list of its commands.

    Raises:
        UnknownNameError: there is none.
        AmbiguousNameError: it is the name of several Nodes without their domain.
    """
    name = await whole_name_in_temporal(client, cluster, name)
    own = (
        f"WorkflowId = '{ids.nodeclaim_id(cluster, name)}' OR WorkflowId = '{names.command_id(cluster, name)}' "
        f"OR {names.NODE.name} = '{name}' OR {names.INSTANCE.name} = '{name}'"
    )
    async for execution in client.list_workflows(f"{names.CLUSTER.name} = '{cluster}' AND ({own})", limit=1):
        links = {"its page": pages.workflow(execution.id, execution.run_id)}
        if execution.workflow_type == ids.NODECLAIM_WORKFLOW:
            claim = execution.id.rsplit("/", 1)[-1]
            links["its disruption commands"] = pages.workflows(temporal_ui.commands_of(cluster, claim))
        return links
    raise UnknownNameError(
        f"No workflow of cluster {cluster} belongs to {name}: `tenon ui` prints the list of nodes that left, and "
        "Temporal forgets them after its retention."
    )
