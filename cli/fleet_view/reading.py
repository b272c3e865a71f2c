"""Reads the nodes of a cluster, once or continuously, for every command that shows them.

It reads the Kubernetes API alone. Temporal adds which nodes are blocked and what commands wait for, and AWS its prices,
if they answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from cli.connection import OF_EVERY_CLUSTER, not_kubernetes
from cli.context import ContextError, resolve, worker_of_sandbox
from cli.fleet_view.node_prices import aws_prices, region_of, table_prices
from cli.fleet_view.watched_fleet import WatchedFleet
from cli.fleet_view.workflow_control import ControlError, WorkflowControl
from tenon.errors import TenonError
from tenon.fleet.document import Fleet
from tenon.sentences import listed

SYNC_SECONDS = 60.0
"""Seconds to read the cluster once."""
PRICE_SECONDS = 20.0
"""Seconds that `--once` waits for AWS's prices."""
NO_CLUSTER = "No cluster is named: --cluster NAME adds blocked nodes, what commands wait for, show, drain and keep"


class FleetError(TenonError):
    """The cluster cannot be shown. The message is one sentence."""


@dataclass(slots=True)
class Notes:
    """What the reader must know, by what it is about."""

    prices: Sequence[str] = ()
    temporal: str = ""
    not_served: str = ""
    forbidden: str = ""
    watches: dict[str, str] = field(default_factory=dict)
    """By resource: why its watch does not work now."""

    def all(self) -> list[str]:
        """Return the sentences, without periods, the most important first."""
        return [*self.of_kubernetes(), *filter(None, [self.temporal]), *self.prices]

    def of_kubernetes(self) -> list[str]:
        """Return the sentences about what the API server does not show, without periods."""
        complaints = list(self.watches.values())[:1]
        return [*complaints, *filter(None, (self.not_served, self.forbidden))]


class LogNotes(logging.Handler):
    """Shows the last complaint of a watch in the footer: a line on the terminal would break the screen."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(logging.INFO)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning until the watch of the resource works again."""
        resource = getattr(record, "resource", "")
        if record.name != loggers.CACHE.name or not resource:
            return
        if record.levelno >= logging.WARNING:
            why = str(getattr(record, "error", "")).rstrip(".")
            self._notes.watches[resource] = f"What is shown of {resource} may be old: {why}"
        else:
            self._notes.watches.pop(resource, None)


def control_of(cluster: str | None) -> WorkflowControl | None:
    """The workflows of the cluster, or None if no cluster is named. A sandbox also has addresses and credentials."""
    try:
        context = resolve(cluster)
    except ContextError:
        return None
    context.apply()
    sandbox = worker_of_sandbox()
    if sandbox is not None and sandbox.cluster == context.cluster:
        for name, value in sandbox.environment.items():
            if name.startswith("AWS_"):
                os.environ.setdefault(name, value)
    return WorkflowControl(context.cluster)


async def read_once(control: WorkflowControl | None, *, ask_aws: bool) -> Fleet:
    """Return the cluster as it is now.

    ``ask_aws``: wait for AWS's prices, which takes seconds.
    """
    notes = Notes()
    async with watched_fleet(notes) as watched:
        await read_prices(watched, notes, ask_aws=ask_aws)
        await ask_workflows(watched, control, notes)
        return watched.fleet(notes.all())


async def read_kubernetes() -> Fleet:
    """Return the cluster as Kubernetes alone shows it, with list prices; its notes are about Kubernetes alone."""
    notes = Notes()
    async with watched_fleet(notes) as watched:
        await read_prices(watched, notes, ask_aws=False)
        return watched.fleet(notes.of_kubernetes())


async def read_prices(watched: WatchedFleet, notes: Notes, *, ask_aws: bool) -> None:
    """Give the nodes the prices of a table, or of AWS if it is asked and answers in time."""
    region = region_of(watched.region)
    local = table_prices(region)
    watched.prices, notes.prices = local.prices, local.notes
    if ask_aws:
        with suppress(TimeoutError):
            async with asyncio.timeout(PRICE_SECONDS):
                answer = await in_thread(lambda: aws_prices(region))
                watched.prices, notes.prices = answer.prices, answer.notes


@asynccontextmanager
async def watched_fleet(notes: Notes) -> AsyncIterator[WatchedFleet]:
    """Watch the cluster while the block runs, which begins once everything has been read."""
    kube = await Kube.connect()
    handler = LogNotes(notes)
    loggers.library("").addHandler(handler)
    level = loggers.CACHE.level
    loggers.CACHE.setLevel(logging.INFO)  # that a watch works again is no warning
    watched = WatchedFleet(kube, utc_now)
    watching: asyncio.Task[None] | None = None
    try:
        await watched.prepare()
        for plural in OF_EVERY_CLUSTER:
            if plural in watched.missing:
                raise FleetError(f"{not_kubernetes(kube.host, plural)}.")
        if watched.missing:
            notes.not_served = f"The cluster does not serve {' and '.join(watched.missing)}"
        if watched.forbidden:
            notes.forbidden = f"You may not read {listed(watched.forbidden)}, so they are not shown"
        watching = asyncio.create_task(watched.run(), name="watch the cluster")
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await watched.wait_synced()
        except TimeoutError:
            why = next(iter(notes.watches.values()), "") or f"it did not answer within {SYNC_SECONDS:.0f} s"
            raise FleetError(f"The cluster at {kube.host} cannot be read: {why}.") from None
        yield watched
    finally:
        loggers.library("").removeHandler(handler)
        loggers.CACHE.setLevel(level)
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        await kube.close()


async def in_thread(call: Callable[[], Any]) -> Any:
    """Run a call that blocks in a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)

    def run() -> None:
        value, failure = None, None
        try:
            value = call()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the view has ended
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, daemon=True).start()
    return await answer


async def ask_workflows(watched: WatchedFleet, control: WorkflowControl | None, notes: Notes) -> None:
    """Ask Temporal which nodes are blocked, and for the commands under way. The view says so if it does not answer."""
    if control is None:
        notes.temporal = NO_CLUSTER
        return
    try:
        watched.blocked = await control.blocked()
        watched.commands = await control.commands()
        notes.temporal = ""
    except ControlError as error:
        watched.commands = None
        notes.temporal = (
            f"From Kubernetes alone, without blocked nodes, what commands wait for, drain and keep: {error}"
        )
