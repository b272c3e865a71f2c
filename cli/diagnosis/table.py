"""Draws the findings of checks as a table, for `tenon doctor` and for the guides of a switch."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.markup import escape
from rich.table import Table

from cli.diagnosis.finding import DoctorFinding, FindingState

COLOURS = {
    FindingState.OK: "green",
    FindingState.WARNING: "yellow",
    FindingState.FAULT: "red",
    FindingState.UNKNOWN: "cyan",
}


def findings_table(findings: Iterable[DoctorFinding]) -> Table:
    """Return a row for each finding, with what to do about it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("check", no_wrap=True)
    table.add_column("finding", ratio=1, overflow="fold")
    for finding in findings:
        colour = COLOURS[finding.state]
        remedy = f"\n[bold]{escape(finding.remedy)}[/bold]" if finding.remedy else ""
        table.add_row(
            f"[{colour}]{finding.state}[/{colour}]", escape(finding.check), f"{escape(finding.sentence)}{remedy}"
        )
    return table
