"""What ``tenon node list`` prints: a table, or documents for scripts, and what else waits for a person."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console

from activities.clock import utc_now
from cli.console import output_console, printable
from cli.nodes.listing import NodeList
from cli.nodes.stuck import with_remedies, without_nodes_documents, without_nodes_markdown
from cli.nodes.table import list_lines
from tenon.ec2.refusals.unavailable import shortages
from tenon.fleet.document import row_document
from tenon.fleet.rows import NodeRow
from tenon.kube.timestamps import format_instant
from tenon.node.remedies import remedies
from tenon.node.timeline import blocked_since, blocked_text, why_blocked


class ListOutput(StrEnum):
    """Output format of the list."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    CSV = "csv"
    NAME = "name"


def print_list(nodes: NodeList, rows: Sequence[NodeRow], output: ListOutput, *, blocked: bool) -> None:
    """Print all nodes, or the blocked ones. ``rows``: those of the list, in the order to print them."""
    for note in nodes.notes:
        print(note, file=sys.stderr)
    scarce = shortages(nodes.refusals.unavailable, utc_now())
    if output is ListOutput.JSON:
        documents = [_document(nodes, row) for row in rows]
        print(json.dumps([*documents, *without_nodes_documents(nodes, scarce)], indent=2))
        return
    if output is ListOutput.CSV:
        print(printable(_csv([_facts_of(nodes, row) for row in rows])), end="")
        return
    if output is ListOutput.NAME:
        for row in rows:
            print(row.name)
        return
    if nodes.is_empty:
        print("No node is blocked, and nothing waits for you." if blocked else "No nodes.", file=sys.stderr)
        return
    if rows:
        _print_rows(nodes, rows, output)
    console = output_console()
    blocked_nodes = [
        with_remedies(f"**{name}**: {blocked_text(state)}", remedies(state))
        for name, state in nodes.states.items()
        if state.blocked
    ]
    texts = [*blocked_nodes, *without_nodes_markdown(nodes, scarce)]
    if rows and texts and console.is_terminal:
        console.print()
    for markdown in texts:
        _print(console, markdown)


def _print_rows(nodes: NodeList, rows: Sequence[NodeRow], output: ListOutput) -> None:
    console = output_console()
    for line in list_lines(rows, nodes.now, width_of(console, output)):
        console.print(line, soft_wrap=True, highlight=False)


def _csv(documents: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if documents:
        writer = csv.DictWriter(text, fieldnames=list(documents[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(documents)
    return text.getvalue()


def width_of(console: Console, output: ListOutput) -> int | None:
    """The width that the table must fit in; None if it has all columns."""
    return console.width if console.is_terminal and output is not ListOutput.WIDE else None


def _print(console: Console, markdown: str) -> None:
    if console.is_terminal:
        from cli.markdown import print_markdown  # loads a large library, which only notes on a terminal need

        print_markdown(console, markdown)
    else:
        print(f"\n{printable(markdown.replace('**', '', 2))}")


def _facts_of(nodes: NodeList, row: NodeRow) -> dict[str, Any]:
    return row_document(row, nodes.now) | {"reason": nodes.reasons.get(row.claim, "")}


def _document(nodes: NodeList, row: NodeRow) -> dict[str, Any]:
    """A node as JSON: what `tenon top` says of it, why it leaves, and what blocks it."""
    document = _facts_of(nodes, row)
    state = nodes.states.get(row.claim)
    if state is None:
        return document
    since: datetime | None = blocked_since(state)
    return {
        **document,
        "why": why_blocked(state),
        **({"since": format_instant(since)} if since else {}),
        "blockingPods": [pod for pods in (state.blocked.pods if state.blocked else ()) for pod in pods.pods],
        "remedies": remedies(state),
    }
