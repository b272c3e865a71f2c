"""``tenon node list --watch``: prints each node again that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cli.console import output_console
from cli.nodes.listing import NodeList
from cli.nodes.printed_list import ListOutput, width_of
from cli.nodes.table import list_lines
from tenon.fleet.rows import NodeRow
from tenon.kube.timestamps import time_text

WATCH_SECONDS = 2.0
"""Seconds between two looks at all nodes."""


async def watch(before: NodeList, read: Callable[[], Awaitable[NodeList]], output: ListOutput) -> None:
    """Print nodes that change, with the time, until Ctrl-C."""
    facts_by_claim = {row.claim: _facts(row) for row in before.rows}
    names = {row.claim: row.name for row in before.rows}
    console = output_console()
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        nodes = await read()
        changed = [row for row in nodes.rows if facts_by_claim.get(row.claim) != _facts(row)]
        gone_names = [names[claim] for claim in facts_by_claim if claim not in {row.claim for row in nodes.rows}]
        width = width_of(console, output)
        if changed or gone_names:
            console.print(time_text(nodes.now), style="dim", highlight=False)
        for line in list_lines(changed, nodes.now, width)[1 : 1 + len(changed)] if changed else ():
            console.print(line, soft_wrap=True, highlight=False)
        for name in gone_names:
            console.print(f"{name} gone", highlight=False, soft_wrap=True)
        facts_by_claim = {row.claim: _facts(row) for row in nodes.rows}
        names = {row.claim: row.name for row in nodes.rows}


def _facts(row: NodeRow) -> tuple[object, ...]:
    """What makes a row one that has changed: not its age, and not how long something takes."""
    return row.stage, row.ready, row.is_blocked, row.kept_until, row.pods, row.price, row.disruption, row.node
