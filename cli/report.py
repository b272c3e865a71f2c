"""``tenon report``: one page about a cluster: what runs, what it costs, what happened, what comes, what to change.

It reads the Kubernetes API alone. Temporal adds what blocks nodes, AWS its prices, and the record what happened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from activities.clock import utc_now
from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.fleet_view.reading import FleetError, control_of
from cli.record_faults import require_one_cluster
from cli.record_source import RecordError, RecordOption, chosen_record
from cli.record_times import SinceOption
from cli.reporting.cluster import Say, read_cluster
from cli.reporting.past import read_entries, window_of
from tenon.report.document import to_document
from tenon.report.page import to_html
from tenon.report.report import Report, report_on

app = create_app()

STANDARD_OUTPUT = {"html": ".html", "json": ".json"}
"""What `--output` may be instead of a file, with the suffix of files of the same format."""


@app.command(
    epilog=examples(
        "tenon report -o report.html --record s3://my-bucket/record",
        "tenon report -o json --since 1d | jq '.advice[].sentence'",
    )
)
def report(
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A file .html or .json; or html or json for standard output."
        ),
    ] = "report.html",
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
    record: RecordOption = None,
    since: SinceOption = "7d",
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
) -> None:
    """Write one page about a cluster: nodes, cost, the last days, what comes, advice."""
    form = _form(output)
    try:
        window = window_of(since, utc_now())
    except ValueError as error:
        _stop(str(error))
    try:
        with _progress() as say:
            result = _report(cluster, record, window, say, ask_aws=aws)
            say("Writing the report ...")
            text = to_html(result) if form == "html" else json.dumps(to_document(result), indent=2) + "\n"
    except (FleetError, ApiError, ConfigError, PriceTableError, RecordError) as error:
        _stop(str(error))
    if output in STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        _stop(f"{output} cannot be written: {error.strerror}.")
    print(f"{output}: {len(text.encode()) / 1000:,.0f} kB", file=sys.stderr)


def _form(output: str) -> str:
    suffix = Path(output).suffix.lower()
    for form, own_suffix in STANDARD_OUTPUT.items():
        if output == form or suffix == own_suffix:
            return form
    return _stop(f"--output {output!r} has no known format: name a file .html or .json, or say html or json.")


def _stop(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise typer.Exit(2)


def _report(name: str | None, option: str | None, window: timedelta, say: Say, *, ask_aws: bool) -> Report:
    """Read the cluster and its record. ``option``: where the record is, unless that of a sandbox is meant."""
    control = control_of(name)
    record = chosen_record(option)  # after the cluster is known: a sandbox says where its record is
    live = asyncio.run(read_cluster(control, say, ask_aws=ask_aws))
    entries = None
    if record:
        say("Reading the record ...")
        entries, notes = read_entries(record, live.fleet.now - window, live.name, say)
        require_one_cluster({entry.cluster for entry in entries})
        live = replace(live, fleet=replace(live.fleet, notes=[*live.fleet.notes, *notes]))
    return report_on(live, entries, window)


@contextmanager
def _progress() -> Iterator[Say]:
    """Show on a terminal what is being read."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("Reading the cluster ...") as status:
        yield status.update
