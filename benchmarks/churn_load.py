"""A day of load for the benchmark of churn: what is created and deleted when, whatever the cluster does with it.

Deployments follow a sine over the day, as an autoscaler would scale them. Batch jobs come at random and end. Every
Deployment is rolled out now and then, which replaces all its pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from benchmarks.mixes import CPU, LETTERS, MEMORY
from tenon.apis import labels

DAY = 86_400.0
SCALE_EVERY = 60.0
"""Seconds between two decisions of a Deployment's autoscaler."""
TROUGH = 0.25
"""The load at night, as a share of the peak."""
BATCH_SHARE = 0.1
"""The share of the pods at the peak that are jobs, on average over the day."""
BATCH_SECONDS = 1_200.0
ROLLOUTS_PER_DAY = 2.0


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, or one Job. ``spread`` is the topology key over which its pods must be spread, if any."""

    name: str
    requests: Mapping[str, str]
    spread: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Sets a Deployment's replicas."""

    workload: Workload
    replicas: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """Replaces all pods of a Deployment."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class Job:
    """Creates a pod that runs for a time. If it is evicted, it starts from the beginning."""

    workload: Workload
    seconds: float


Change = Scale | Rollout | Job


def day_of_load(hours: float, pods: int, seed: int) -> list[tuple[float, Change]]:
    """Return the changes with their times in seconds, in order. ``pods`` is about the number at the peak."""
    random = Random(seed)
    end = hours * 3_600
    found: list[tuple[float, Change]] = []
    peak = pods * (1 - BATCH_SHARE)
    shares = [random.uniform(0.3, 1.7) for _ in range(max(3, min(16, pods // 20)))]
    for number, share in enumerate(shares):
        spread = ("", "", labels.ZONE, "")[number % 4]
        workload = Workload(f"web-{number:02}", _requests(random), spread)
        most = max(2, round(peak * share / sum(shares)))
        found += _sine(workload, most, end, random)
        time = random.expovariate(ROLLOUTS_PER_DAY / DAY)
        while time < end:
            found.append((time, Rollout(workload)))
            time += random.expovariate(ROLLOUTS_PER_DAY / DAY)
    kinds = [_requests(random) for _ in LETTERS]
    time, number = 0.0, 0
    while (time := time + random.expovariate(pods * BATCH_SHARE / BATCH_SECONDS)) < end:
        job = Workload(f"job-{number:05}", random.choice(kinds))
        found.append((time, Job(job, max(30.0, random.expovariate(1 / BATCH_SECONDS)))))
        number += 1
    return sorted(found, key=lambda change: change[0])


def _sine(workload: Workload, most: int, end: float, random: Random) -> list[tuple[float, Change]]:
    """The Deployment's scale over the day: least at 4 o'clock give or take an hour, with noise of a few percent."""
    least_at = 4 * 3_600 + random.uniform(-3_600, 3_600)
    time, current = random.uniform(0, SCALE_EVERY), -1
    first = True
    found: list[tuple[float, Change]] = []
    while time < end:
        level = TROUGH + (1 - TROUGH) * (1 - math.cos(2 * math.pi * (time - least_at) / DAY)) / 2
        wanted = max(1, round(most * level * random.gauss(1, 0.02)))
        # an autoscaler's tolerance of 10 % keeps it from following noise
        if current < 0 or abs(wanted - current) > 0.1 * current:
            found.append((0.0 if first else time, Scale(workload, wanted)))
            current, first = wanted, False
        time += SCALE_EVERY
    return found


def _requests(random: Random) -> dict[str, str]:
    return {"cpu": random.choice(CPU), "memory": random.choice(MEMORY)}
