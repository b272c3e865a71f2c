"""``tenon node list --watch``: prints each node again that changes."""

from __future__ import annotations

import asyncio
import sys
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
    """Print nodes that change, with the time, until Ctrl-C. A note is printed when the list before did not have it."""
    notes = before.notes
    facts_by_claim = {row.claim: _facts(row) for row in before.rows}
    names = {row.claim: row.name for row in before.rows}
    console = output_console()
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        nodes = await read()
        for note in nodes.notes:
            if note not in notes:
                print(note, file=sys.stderr)
        notes = nodes.notes
        changed = [row for row in nodes.rows if facts_by_claim.get(row.claim) != _facts(row)]
        left_claims = facts_by_claim.keys() - {row.claim for row in nodes.rows}
        width = width_of(console, output)
        if changed or left_claims:
            console.print(time_text(nodes.now), style="dim", highlight=False)
        for line in list_lines(changed, nodes.now, width)[1 : 1 + len(changed)] if changed else ():
            console.print(line, soft_wrap=True, highlight=False)
        for claim in sorted(left_claims):
            fate = "no longer matches" if claim in nodes.present else "gone"
            console.print(f"{names[claim]} {fate}", highlight=False, soft_wrap=True)
        facts_by_claim = {row.claim: _facts(row) for row in nodes.rows}
        names = {row.claim: row.name for row in nodes.rows}


def _facts(row: NodeRow) -> tuple[object, ...]:
    """What makes a row one that has changed: not its age, and not how long something takes."""
    return row.stage, row.ready, row.is_blocked, row.kept_until, row.pods, row.price, row.disruption, row.node
