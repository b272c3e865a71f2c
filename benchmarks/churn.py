"""A load that comes and goes: Deployments that grow and shrink at set times, the same for every autoscaler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS
from benchmarks.cluster import Load
from sandbox.cluster import Sandbox

TEAMS = 8
"""Each has a Deployment of each kind. With one team, chance decides: in models of the same load, the pods that move
differ by a third. With eight they differ by 6 %."""
CHANGE_SECONDS = 40.0
"""After so many seconds on average, a Deployment of a team has another number of replicas."""
ARRIVAL_SECONDS = 20.0
"""How long after one team the next one comes."""
KINDS = (
    (Load("web", 0, "900m", "1500Mi"), 60),
    (Load("api", 0, "1700m", "3100Mi"), 24),
    (Load("cache", 0, "500m", "6Gi"), 20),
    (Load("batch", 0, "3500m", "7Gi"), 12),
    (Load("report", 0, "250m", "700Mi"), 80),
)
"""Loads, and the most replicas of each."""


@dataclass(frozen=True, slots=True)
class Change:
    """A number of replicas from a time on."""

    at: float
    """Seconds after the beginning."""
    name: str
    replicas: int


def loads(teams: int) -> list[tuple[Load, int]]:
    """Return the loads of so many teams, without pods yet, and the most replicas of each."""
    return [(replace(load, name=f"{load.name}-{team}"), most) for team in range(1, teams + 1) for load, most in KINDS]


def script(seconds: float, *, teams: int = TEAMS, seed: int = 1) -> Iterator[Change]:
    """Yield the changes, in their order. Team after team comes with half of its most, and then loads change.

    If all came at once, the pace of kube-scheduler would decide how they are batched, and so what nodes they get.
    """
    chance = random.Random(seed)
    deployments = loads(teams)
    for number, (load, most) in enumerate(deployments):
        yield Change(ARRIVAL_SECONDS * (number // len(KINDS)), load.name, most // 2)
    every = CHANGE_SECONDS / teams
    at = ARRIVAL_SECONDS * teams
    while at < seconds:
        load, most = chance.choice(deployments)
        yield Change(at, load.name, chance.randint(0, most))
        at += every * chance.uniform(0.5, 1.5)


async def play(sandbox: Sandbox, kube: Kube, seconds: float, teams: int = TEAMS) -> None:
    """Carry the script out, and return after so many seconds."""
    await asyncio.to_thread(sandbox.apply, [load.deployment() for load, _ in loads(teams)])
    clock = asyncio.get_running_loop().time
    began = clock()
    for change in script(seconds, teams=teams):
        await asyncio.sleep(max(0.0, began + change.at - clock()))
        await _scale(kube, change)
    await asyncio.sleep(max(0.0, began + seconds - clock()))


async def _scale(kube: Kube, change: Change) -> None:
    """Scale a Deployment, once the API server answers."""
    while True:
        try:
            await kube.patch(DEPLOYMENTS, change.name, {"spec": {"replicas": change.replicas}}, namespace="default")
        except ApiError:  # a busy machine's API server gives up after 34 seconds
            await asyncio.sleep(1)
        else:
            return
