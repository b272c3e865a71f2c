"""Which pods disruption commands moved to a node in the last day, and how long consolidation lets these pods rest.

A command writes down on the NodeClaims of the nodes that its pods go to which workloads it sends there, right before
the pods are evicted. A pod of such a workload that is created soon afterwards, on that node, counts as one that moved.
If fewer came than were sent, `tenon.disruption.search.pods_elsewhere` finds the others.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from tenon.kube.pod import Pod
from tenon.kube.timestamps import format_instant, parse_instant

REMEMBERED = timedelta(hours=24)
MAX_MOVES = 2
"""How often consolidation moves a pod in `REMEMBERED`, together with other commands."""
REST = timedelta(hours=1)
"""How long a pod that a command moved stays where it is, if it may move again that day."""
WITHIN = timedelta(minutes=20)
"""A pod created at most this long after the command counts as moved, because a drain takes time."""
MAX_SIZE = 32 * 1024
"""Characters of the annotation, which are some hundreds of arrivals. The oldest are forgotten first.

An object's annotations may have 256 KiB together.
"""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Pods of a command that moved to a node."""

    at: datetime
    times: Mapping[str, int]
    """By `workload_mark`, how often commands have moved these pods in the last day, this time included."""
    pods: Mapping[str, int] = field(default_factory=dict)
    """By `workload_mark`, how many pods were expected."""


def workload_mark(pod: Pod) -> str:
    """Return a hash that identifies the pod's workload, because the names of its new pods are not known in advance."""
    return _mark(f"{pod.namespace}/{pod.workload_or_name}")


@lru_cache(maxsize=65536)
def _mark(workload: str) -> str:
    return hashlib.sha256(workload.encode()).hexdigest()[:8]


def created_within(at: datetime, within: timedelta = WITHIN) -> tuple[float, float]:
    """Return between which times a pod is created that a command moves at ``at``, both included, as timestamps.

    Creation timestamps have whole seconds, so the first is a second earlier.
    """
    begun = at.timestamp()
    return begun - 1, begun + within.total_seconds()


def came_with(pod: Pod, arrival: Arrival) -> bool:
    """Return whether a pod was created when the pods of the arrival were, so that it may be one of them."""
    first, last = created_within(arrival.at)
    return first <= pod.created <= last


def times_moved(pod: Pod, arrivals: Iterable[Arrival], now: datetime) -> tuple[int, datetime | None]:
    """Return how often commands moved a pod in the last day, and when they last did.

    ``arrivals``: those of its node.
    """
    times, last = 0, None
    for arrival in arrivals:
        count = arrival.times.get(workload_mark(pod), 0)
        if count > times and came_with(pod, arrival) and now - arrival.at < REMEMBERED:
            times, last = count, arrival.at
    return times, last


def rest_until(pods: Iterable[Pod], arrivals: Sequence[Arrival], now: datetime) -> datetime | None:
    """Return until when the pods of a node rest; None if they do not.

    ``arrivals``: those of the node.
    """
    if not arrivals:
        return None
    ends = []
    for pod in pods:
        times, last = times_moved(pod, arrivals, now)
        if last is not None:
            ends.append(last + (REST if times < MAX_MOVES else REMEMBERED))
    return max((end for end in ends if end > now), default=None)


def arriving(pods: Iterable[Pod], before: Mapping[str, int]) -> dict[str, int]:
    """Return what an `Arrival` of these pods says; ``before``: by pod key, how often they were moved before."""
    pods_by_node: dict[str, int] = {}
    for pod in pods:
        mark = workload_mark(pod)
        pods_by_node[mark] = max(pods_by_node.get(mark, 0), before.get(pod.key, 0) + 1)
    return pods_by_node


def counted(pods: Iterable[Pod]) -> dict[str, int]:
    """Return how many pods of each workload there are, by `workload_mark`."""
    return dict(Counter(map(workload_mark, pods)))


@lru_cache(maxsize=8192)
def read_arrivals(text: str) -> tuple[Arrival, ...]:
    """Read the annotation `tenon.sh/moved-here`. What cannot be read is left out."""
    try:
        return tuple(_arrival(*entry) for entry in json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return ()


def _arrival(at: str, times: Mapping[str, int], pods: Mapping[str, int]) -> Arrival:
    parsed = parse_instant(at)
    if parsed is None:
        raise ValueError(f"{at!r} is not a time")
    return Arrival(parsed, _read(times), _read(pods))


def _read(numbers: Mapping[str, int]) -> dict[str, int]:
    return {str(mark): int(count) for mark, count in numbers.items()}


def with_arrival(text: str, at: datetime, times: Mapping[str, int], pods: Mapping[str, int]) -> str:
    """Return the annotation with one more arrival, without those that are too old or for which there is no room.

    An arrival that it has already stays the only one: the attempt of an activity is repeated, and moves no more pods.
    """
    if Arrival(at.replace(microsecond=0), times, pods) in read_arrivals(text):
        return text
    documents = [json.dumps(_document(Arrival(at, times, pods)))]
    size = len(documents[0])
    for arrival in reversed(read_arrivals(text)):
        document = json.dumps(_document(arrival))
        size += len(document) + len(", ")
        if at - arrival.at >= REMEMBERED or size > MAX_SIZE:
            break
        documents.append(document)
    return f"[{', '.join(reversed(documents))}]"


def _document(arrival: Arrival) -> list[object]:
    times, pods = (dict(sorted(mapping.items())) for mapping in (arrival.times, arrival.pods))
    return [format_instant(arrival.at), times, pods]
