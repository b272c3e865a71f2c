"""``tenon validate``: checks manifests of any Karpenter version without a cluster, and suggests corrected lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.application import create_app, examples
from cli.simulating.files import Filenames, read_named_texts
from tenon.manifests.checking import Checked, check
from tenon.manifests.documents import Diagnostic, as_shown
from tenon.manifests.faults import ManifestError, one_line
from tenon.sentences import counted


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
        fixed = "".join(f"\n[green]write: {escape(as_shown(line))}[/green]" for line in finding.fixed_lines)
        table.add_row(
            f"[{colour}]{escape(place)}[/{colour}]",
            escape(finding.subject),
            f"{prefix}{path}{escape(one_line(finding.sentence))}{fixed}",
        )
    (console or Console()).print(table)


app = create_app()

INVALID = 2
MAX_SHOWN = 1000
"""Maximum number of findings printed in text output."""


class Form(StrEnum):
    """Output format of the findings."""

    table = "table"
    json = "json"


@app.command(
    epilog=examples(
        "tenon validate -f manifests/",
    )
)
def validate(
    filename: Filenames = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Output format.")] = Form.table,
) -> None:
    """Check Karpenter's manifests of any version as the API server and the worker would, without a cluster."""
    faults: list[ManifestError] = []
    if not filename:
        print("tenon validate: name manifests with -f", file=sys.stderr)
        raise typer.Exit(INVALID)
    checked = check(read_named_texts(filename, faults))
    checked.findings[:0] = [Diagnostic(fault.source.file, 0, "", fault.text) for fault in faults]
    if output is Form.json:
        print(json.dumps(_document(checked), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        from cli.validate import show

        show(checked.findings[:MAX_SHOWN])
        print(_total(checked))
    else:
        for finding in checked.findings[:MAX_SHOWN]:
            print(one_line(f"{'warning: ' if finding.warning else ''}{finding}"))
            for line in finding.fixed_lines:
                print(f"    write: {as_shown(line)}")
        print(_total(checked))
    if checked.faults:
        raise typer.Exit(INVALID)


def _total(checked: Checked) -> str:
    """Summarize the findings in one line."""
    more = len(checked.findings) - MAX_SHOWN
    hidden = f"... and {more} more; " if more > 0 else ""
    skipped = sum(checked.skipped.values())
    kinds = f" ({', '.join(sorted(checked.skipped))})" if 0 < len(checked.skipped) < 12 else ""
    counts = [
        counted(checked.checked, "object") + " checked",
        counted(len(checked.faults), "fault"),
        counted(len(checked.warnings), "warning"),
        f"{skipped} of other kinds skipped{kinds}",
    ]
    return one_line(hidden + ", ".join(counts))


def _document(checked: Checked) -> dict[str, Any]:
    return {
        "valid": not checked.faults,
        "checked": checked.checked,
        "skipped": checked.skipped,
        "faults": _entries(checked.faults),
        "warnings": _entries(checked.warnings),
    }


def _entries(findings: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    return [
        {
            "file": finding.file,
            "line": finding.line,
            "object": finding.subject,
            "path": finding.path,
            "reason": one_line(finding.sentence),
            **({"fixed": list(finding.fixed_lines)} if finding.fixed_lines else {}),
        }
        for finding in findings
    ]
