"""A load that comes and goes: Deployments that grow and shrink at set times, the same for every autoscaler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS
from benchmarks.cluster import Load
from sandbox.cluster import Sandbox

LOADS = (
    Load("web", 0, "900m", "1500Mi"),
    Load("api", 0, "1700m", "3100Mi"),
    Load("cache", 0, "500m", "6Gi"),
    Load("batch", 0, "3500m", "7Gi"),
    Load("report", 0, "250m", "700Mi"),
)
MOST = (60, 24, 20, 12, 80)
"""The most replicas of each load."""


@dataclass(frozen=True, slots=True)
class Change:
    """A number of replicas from a time on."""

    at: float
    """Seconds after the beginning."""
    name: str
    replicas: int


def script(seconds: float, *, every: float = 20.0, seed: int = 1) -> Iterator[Change]:
    """Yield the changes, in their order. All loads begin at half of their most."""
    chance = random.Random(seed)
    for load, most in zip(LOADS, MOST, strict=True):
        yield Change(0.0, load.name, most // 2)
    at = every
    while at < seconds:
        number = chance.randrange(len(LOADS))
        yield Change(at, LOADS[number].name, chance.randint(0, MOST[number]))
        at += every * chance.uniform(0.5, 1.5)


async def play(sandbox: Sandbox, kube: Kube, seconds: float) -> None:
    """Carry the script out, and return after so many seconds."""
    await asyncio.to_thread(sandbox.apply, [replace(load, pods=0).deployment() for load in LOADS])
    clock = asyncio.get_running_loop().time
    began = clock()
    for change in script(seconds):
        await asyncio.sleep(max(0.0, began + change.at - clock()))
        await kube.patch(DEPLOYMENTS, change.name, {"spec": {"replicas": change.replicas}}, namespace="default")
    await asyncio.sleep(max(0.0, began + seconds - clock()))
