"""``tenon shadow``: what Tenon would do and save next to Karpenter, without writing a byte to the cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import NAMESPACES
from cli.application import create_app, examples
from cli.console import output_console
from cli.shadowing.inputs import Inputs, InputsError, read_inputs
from cli.shadowing.metrics import ShadowMetrics
from cli.shadowing.observed import ObservedCluster, read_only_client
from cli.shadowing.pricing import REFRESH_SECONDS, priced, region_and_zones
from cli.shadowing.readable import UnreadableClusterError, require_readable
from cli.shadowing.reporting import Reporter
from cli.shadowing.shadow import TICK_SECONDS, Shadow
from cli.shadowing.store import ShadowFile, StoreError, last_report
from cli.shadowing.table import fitting, show
from cli.shadowing.warning_lines import shown_warnings
from cli.simulating.files import Filenames
from tenon.errors import TenonError
from tenon.sentences import lasting
from tenon.shadow.report import Document, ShadowReport, document
from worker.settings import parse_duration

app = create_app()

UNUSABLE = 2
SYNC_SECONDS = 120.0
"""Seconds in which every watch must have read its resource once."""
DRAWN_SECONDS = 10.0
"""Seconds between two reports in a terminal."""
KEPT_SECONDS = 60.0
"""Seconds between two reports in the file."""


class Form(StrEnum):
    """Output format of the report."""

    table = "table"
    json = "json"
    html = "html"


class ShadowError(TenonError):
    """The cluster cannot be watched."""


@app.command(
    epilog=examples(
        "tenon shadow",
        "tenon shadow --for 30m -o html > shadow.html",
        "tenon shadow -f nodepools.yaml --state shadow.db",
        "tenon shadow --last -o json --state shadow.db",
    )
)
def shadow(
    filename: Filenames = None,
    catalog: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instance types to use instead of the built-in ones.")
    ] = None,
    state: Annotated[
        Path, typer.Option(metavar="FILE", envvar="SHADOW_STATE", help="Where the state is kept, for a restart.")
    ] = Path("tenon-shadow.db"),
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Stop after this time, such as 30m. Default: never.")
    ] = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Output format of the last report.")] = Form.table,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
    ] = None,
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", min=1, max=65535, help="Serve Prometheus metrics on this port.")
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Print the newest report of the state file, and watch nothing.")
    ] = False,
) -> None:
    """Watch a cluster of Karpenter's, and report what Tenon would do and save.

    It only reads. Files of -f take the place of the cluster's NodePools and EC2NodeClasses. Ctrl-C ends it with a
    report.
    """
    try:
        if last:
            report = _last_report(state)
        else:
            seconds = None if length is None else parse_duration(length).total_seconds()
            inputs = read_inputs(filename or [], catalog, setting or [])
            options = _Options(seconds, output is Form.table, metrics_port, aws)
            report = document(asyncio.run(_watch(inputs, state, options)))
    except InputsError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    except (
        ApiError,
        ConfigError,
        PriceTableError,
        StoreError,
        ShadowError,
        UnreadableClusterError,
        ValueError,
        OSError,
    ) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    try:
        _print(report, output)
    except (KeyError, TypeError):
        if not last:
            raise
        print(f"The report in {state} is of another version of Tenon: -o json prints it as it is", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None


def _print(report: Document, output: Form) -> None:
    if output is Form.json:
        print(json.dumps(report, indent=2))
    elif output is Form.html:
        from tenon.shadow.page import to_html

        sys.stdout.write(to_html(report))
    else:
        show(report, output_console())


def _last_report(state: Path) -> Document:
    if not state.is_file():
        raise StoreError(f"{state} does not exist: --state names the file of a tenon shadow that runs or ran")
    text = last_report(state)
    if text is None:
        raise StoreError(f"{state} has no report yet")
    report: Document = json.loads(text)
    return report


@dataclass(frozen=True, slots=True)
class _Options:
    """How long it watches, and where reports are shown meanwhile."""

    seconds: float | None
    in_terminal: bool
    metrics_port: int | None
    ask_aws: bool


async def _watch(inputs: Inputs, state: Path, options: _Options) -> ShadowReport:
    """Watch until the time is over or somebody asks to stop. Return the last report.

    Raises:
        ApiError: the cluster cannot be read.
        ShadowError: a resource cannot be watched.
        UnreadableClusterError: it has no Karpenter that can be followed, or the user may not read it.
    """
    kube = await read_only_client()
    try:
        print("Reading the cluster ...", file=sys.stderr)
        observed = ObservedCluster(kube, inputs, time.time)
        await require_readable(kube, observed.cache.required_resources)
        # Not before, so that no file is left if nothing can be read.
        with closing(ShadowFile(state, exclusive=True)) as store:
            return await _run(Shadow(observed, inputs, store, await _cluster_uid(kube)), options)
    finally:
        await kube.close()


async def _run(running: Shadow, options: _Options) -> ShadowReport:
    state, observed = running.store.path, running.observed
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with observed.following(), shown_warnings():
        watches = asyncio.create_task(observed.cache.run())
        try:
            await _until_synced(observed)
            where = await _price(running, options)
            if why := running.begin():
                print(f"{state} is begun again, because {why}", file=sys.stderr)
            elif seconds := running.totals.ledger.seconds:
                print(f"{state} goes on after {lasting(timedelta(seconds=seconds))}", file=sys.stderr)
            print(f"Watching; Ctrl-C ends it with a report, and the next start goes on from {state}", file=sys.stderr)
            return await _follow(running, stop, options, where)
        finally:
            watches.cancel()
            with suppress(asyncio.CancelledError):
                await watches


async def _cluster_uid(kube: Kube) -> str:
    """Return the UID of kube-system, which is another one in each cluster."""
    namespace = await kube.get(NAMESPACES, "kube-system")
    return str((namespace or {}).get("metadata", {}).get("uid", ""))


async def _until_synced(observed: ObservedCluster) -> None:
    try:
        async with asyncio.timeout(SYNC_SECONDS):
            await observed.cache.wait_synced()
    except TimeoutError:
        missing = ", ".join(observed.cache.unsynced_resources)
        raise ShadowError(
            f"these resources cannot be read: {missing}; the role of the chart's shadow allows it"
        ) from None


async def _price(running: Shadow, options: _Options) -> tuple[str, set[str]]:
    """Take the prices of now. Return the region and the zones that they are of."""
    region, zones = region_and_zones(running.observed.cache.nodes)
    running.inputs = await asyncio.to_thread(priced, running.inputs, region, zones, ask_aws=options.ask_aws)
    return region, zones


async def _follow(running: Shadow, stop: asyncio.Event, options: _Options, where: tuple[str, set[str]]) -> ShadowReport:
    reporter = Reporter(running)
    metrics = ShadowMetrics() if options.metrics_port is not None else None
    if metrics is not None and options.metrics_port is not None:
        metrics.serve(options.metrics_port)
    began = priced_at = time.monotonic()
    kept_at = drawn_at = measured_at = 0.0
    console = output_console()
    with (
        Live(console=console, auto_refresh=False)
        if options.in_terminal and console.is_terminal
        else nullcontext() as live
    ):
        while not stop.is_set() and (options.seconds is None or time.monotonic() - began < options.seconds):
            await running.step()
            passed = time.monotonic()
            if passed - kept_at >= KEPT_SECONDS:
                kept_at = passed
                if passed - priced_at >= REFRESH_SECONDS or where != region_and_zones(running.observed.cache.nodes):
                    priced_at = passed
                    where = await _price(running, options)
                _keep(running, reporter)
            if live is not None and passed - drawn_at >= DRAWN_SECONDS:
                drawn_at = passed
                live.update(fitting(document(reporter.report(time.time())), console), refresh=True)
            if metrics is not None and passed - measured_at >= DRAWN_SECONDS:
                measured_at = passed
                metrics.update(document(reporter.report(time.time())))
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await stop.wait()
        if live is not None:
            live.update("", refresh=True)
    await asyncio.to_thread(running.save)
    return _keep(running, reporter)


def _keep(running: Shadow, reporter: Reporter) -> ShadowReport:
    report = reporter.report(time.time())
    running.store.save_report(json.dumps(document(report)))
    return report
