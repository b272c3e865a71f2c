"""``tenon cost``: what the cluster costs now or cost in a window, and who causes it.

Now is read from Kubernetes alone. A window is read from the record, and from Kubernetes what runs still.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from activities.clock import utc_now
from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import ContextError, resolve, worker_of_sandbox
from cli.cost_view.reading import CostReading
from cli.cost_view.report import CostReport, fields_of_rows, row_documents, to_document
from cli.cost_view.table import lines_below, table
from cli.cost_view.window import CostError, read_window
from cli.record_source import RecordError, RecordOption, chosen_record, open_record
from tenon.cost.focus import to_csv as focus_csv
from tenon.cost.rows import GroupingError, read_grouping, to_csv

app = create_app()


@app.command(
    epilog=examples(
        "tenon cost --by workload",
        "tenon cost --by label:team --since 7d -o wide",
        "tenon cost --since 30d --export focus.csv --billing-account 123456789012",
    )
)
def cost(
    by: Annotated[
        str,
        typer.Option("--by", help="pool, namespace, workload, type, zone, capacity-type or label:KEY (of pods)."),
    ] = "namespace",
    since: Annotated[
        str | None, typer.Option("--since", metavar="DURATION", help="A window that ends now, such as 24h or 30d.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The start of a window, such as 2026-01-31.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Its end; without it, now. Times are UTC.")
    ] = None,
    output: Annotated[
        Literal["table", "wide", "json", "csv"], typer.Option("--output", "-o", help="table, wide, json or csv.")
    ] = "table",
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write a window as CSV in the FOCUS 1.2 format too.")
    ] = None,
    billing_account: Annotated[
        str, typer.Option("--billing-account", metavar="ID", help="The AWS account that pays, for --export.")
    ] = "",
    record: RecordOption = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
) -> None:
    """Show what the cluster costs, now or in a window, and who causes it."""
    try:
        grouping, window = read_grouping(by), read_window(since, from_, to, utc_now())
        name = _prepare(cluster)
        place = chosen_record(record)
        source = open_record(place, name) if place else None
        if export is not None and (window is None or not billing_account):
            raise CostError("--export needs a window, such as --since 24h, and --billing-account.")
        state = CostReading(grouping, source, name, ask_aws=aws)
        report = state.of_window(window) if window is not None else state.of_now()
        if export is not None and window is not None:
            _write(export, focus_csv(state.focus_rows(window, billing_account)))
    except (ApiError, ConfigError, CostError, GroupingError, PriceTableError, RecordError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    _print(report, output)


def _prepare(cluster: str | None) -> str:
    """Return the name of the cluster, which may be empty. A sandbox also has addresses and credentials."""
    try:
        context = resolve(cluster)
    except ContextError:
        return ""
    context.apply()
    sandbox = worker_of_sandbox()
    if sandbox is not None and sandbox.cluster == context.cluster:
        sandbox.apply_aws()
    return context.cluster


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CostError(f"{path} cannot be written: {error.strerror}.") from None


def _print(report: CostReport, output: str) -> None:
    if output == "json":
        print(json.dumps(to_document(report), indent=2))
        return
    if output == "csv":
        print(to_csv(row_documents(report), fields_of_rows(report)), end="")
        for note in report.notes:
            print(f"{note}.", file=sys.stderr)
        return
    console = output_console()
    width = console.width if console.is_terminal else None
    console.print(table(report, width, is_wide=output == "wide"))
    for line in lines_below(report):
        console.print(line, style="dim", highlight=False)
