"""Creates the burst's pods at once and waits until all of them run: the same for every autoscaler."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from activities.kubernetes.client import Kube
from benchmarks.cluster import LABEL, Load
from benchmarks.milestones import Milestones, followed
from benchmarks.usage import Groups, Usage, Used, used
from sandbox.cluster import Sandbox

WITHIN = 300.0
"""Seconds after which a run ends anyway."""


def loads(pods: int) -> list[Load]:
    """Return the load: half of the pods are small, half are large."""
    return [Load("small", pods // 2, "900m", "3100Mi"), Load("large", pods - pods // 2, "3500m", "28Gi")]


@dataclass(frozen=True, slots=True)
class LoadRun:
    """What was seen until all pods ran, or until WITHIN seconds had passed."""

    began: float
    """As ``time.monotonic`` has it."""
    between: tuple[float, float]
    """Begin and end, in seconds since 1970."""
    seconds: float
    pods: Milestones
    claims: Milestones
    used: dict[str, Used]


@asynccontextmanager
async def load_run(
    sandbox: Sandbox,
    kube: Kube,
    groups: Groups,
    count: int,
    meanwhile: Callable[[Milestones], Awaitable[None]] | None = None,
) -> AsyncIterator[LoadRun]:
    """Yield the run when it is over. Until the context ends, watches keep the objects current.

    ``meanwhile`` gets the pods' milestones as soon as the pods are created.
    """
    pods, claims, watching = await followed(kube, LABEL)
    try:
        with Usage(groups) as usage:
            began, since = time.monotonic(), time.time()
            await asyncio.to_thread(sandbox.apply, [load.deployment() for load in loads(count)])
            if meanwhile is not None:
                await meanwhile(pods)
            with contextlib.suppress(TimeoutError):  # the table shows how many ran
                await pods.until("Running", count, WITHIN)
            seconds = time.monotonic() - began
        tallies = {name: used(tally) for name, tally in usage.tallies.items()}
        yield LoadRun(began, (since, since + seconds), seconds, pods, claims, tallies)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
