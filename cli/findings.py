"""Prints findings on manifests as a table for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tenon.manifests.documents import Diagnostic, as_shown
from tenon.manifests.faults import one_line


def show(findings: Sequence[Diagnostic], console: Console | None = None) -> None:
    """Print the findings, or nothing if there are none."""
    if not findings:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, ratio in (("where", 3), ("object", 2), ("field and fault", 6)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for finding in findings:
        colour = "yellow" if finding.warning else "red"
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        path = f"[bold]{escape(one_line(finding.path))}[/bold]: " if finding.path else ""
        prefix = f"[{colour}]{'warning: ' if finding.warning else ''}[/{colour}]" if finding.warning else ""
        mended = "".join(f"\n[green]write: {escape(as_shown(line))}[/green]" for line in finding.fixed_lines)
        table.add_row(
            f"[{colour}]{escape(place)}[/{colour}]",
            escape(finding.subject),
            f"{prefix}{path}{escape(one_line(finding.sentence))}{mended}",
        )
    (console or Console()).print(table)
