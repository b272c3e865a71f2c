"""The step "drain for reboot": evict pods in waves, and leave those on the node that do not go in time (N15-323).

The node comes back, so no pod is ever deleted. What cannot be evicted rides through the reboot.
"""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import Clock, read_claim
from activities.node.drain import MAX_BLOCKED, MAX_POLL_SECONDS, POLL_SECONDS
from activities.node.eviction import Evictor
from activities.node.nodes import find_node, pods_on
from activities.node.volumes import Sleep
from tenon.apis.reasons import Reason
from tenon.messages.node_steps import DrainInput
from tenon.messages.reboot import RebootDrainInput, RebootDrainResult
from tenon.node import drain as decide
from tenon.node.drain_blockers import grouped


async def drain_for_reboot(
    kube: Kube,
    recorder: EventPublisher,
    drain_input: RebootDrainInput,
    now: Clock,
    sleep: Sleep = asyncio.sleep,
) -> RebootDrainResult:
    """Evict pods until none is left, until ``until``, or for ``budget_seconds``. Report what is left and why."""
    claim = await read_claim(kube, drain_input.claim)
    node = (await find_node(kube, drain_input, claim)).node
    if claim is None or claim.deleting or node is None:
        return RebootDrainResult(node_exists=node is not None)
    name = node["metadata"]["name"]
    target = DrainInput(claim=drain_input.claim, reason=Reason.UNHEALTHY, why=drain_input.why)
    evictor = Evictor(kube, recorder, node, target)
    ends = [now().timestamp() + drain_input.budget_seconds]
    if drain_input.until is not None:
        ends.append(drain_input.until.timestamp())
    pause, before = POLL_SECONDS, -1
    while True:
        waited = decide.remaining_pods(await pods_on(kube, name), now())
        seconds_left = min(ends) - now().timestamp()
        if not waited or seconds_left <= 0:
            blocked = grouped(evictor.blocked(waited))[:MAX_BLOCKED]
            return RebootDrainResult(evicted=len(evictor.evicted_pods), remaining=len(waited), blocked=blocked)
        await evictor.act(waited, now())
        pause = min(pause * 1.5, MAX_POLL_SECONDS) if len(waited) == before else POLL_SECONDS
        before = len(waited)
        await sleep(min(pause, max(seconds_left, POLL_SECONDS)))
