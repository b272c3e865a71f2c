"""Whether a plan left a pod out that had a place: next to its own nodes, or on one that it could still buy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.oracle.buying import Market, settled
from tests.oracle.findings import Finding
from tests.oracle.inputs import Inputs, Pod, read_inputs
from tests.oracle.judging import places_of
from tests.oracle.places import standing_nodes
from tests.oracle.scheduler import Scheduler


def left_out(inputs: Inputs, plan: Mapping[str, Any]) -> Iterator[Finding]:
    """Pods without a place that could simply be given one now; of pods that are alike the first is tried."""
    claims, nodes = places_of(inputs, plan)
    pending = inputs.pending
    tried: set[int] = set()
    for entry in plan["unschedulable"]:
        pod = pending[entry["pod"]]
        if id(pod.spec) in tried or pod.gated:
            continue
        tried.add(id(pod.spec))
        scheduler = Scheduler(inputs, [*nodes.values(), *(settled(claim, inputs) for claim in claims)])
        node = next((node for node in nodes.values() if scheduler.admits(node, pod)), None)
        bought = node or Market(inputs, claims, list(nodes.values())).buy_for(pod, scheduler)
        if bought is not None:
            yield Finding("left-out", pod.key, f"has a place on {bought.name} ({bought.labels}): {entry['reason']}")


def placed_by_first_fit(manifests: Iterable[Mapping[str, Any]], catalogue: Mapping[str, Any]) -> int:
    """How many pods a simple planner places: one after another, largest first, on the first node that lets them in."""
    inputs = read_inputs(manifests, catalogue)
    nodes = list(standing_nodes(inputs).values())
    scheduler, market = Scheduler(inputs, list(nodes)), Market(inputs, [], nodes)
    waiting = sorted(
        inputs.pending.values(), key=lambda pod: (-pod.requests.get("cpu", 0), -pod.requests.get("memory", 0))
    )
    placed, progress = 0, True
    while progress:
        progress, remainder = False, []
        for pod in waiting:
            node = _place(pod, scheduler, market)
            if node:
                placed += 1
                progress = True
            else:
                remainder.append(pod)
        waiting = remainder
    return placed


def _place(pod: Pod, scheduler: Scheduler, market: Market) -> bool:
    if pod.gated:
        return False
    node = next((node for node in scheduler.nodes if scheduler.admits(node, pod)), None)
    node = node or market.buy_for(pod, scheduler)
    if node is None:
        return False
    node.planned.append(pod)
    return True
