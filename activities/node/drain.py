"""The step "drain node": evict the pods in waves until they are gone, and report by name what blocks them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import Clock, ConditionUpdate, annotate_claim, read_claim, update_conditions
from activities.kubernetes.resources import NODES
from activities.node.eviction import Evictor
from activities.node.nodes import find_node, pods_on
from activities.node.vanished import forget_pods, is_dead
from activities.node.volumes import Sleep, attached_volumes
from tenon.apis import labels
from tenon.apis.nodeclaim import DRAINED, VOLUMES_DETACHED
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.pod_workload import workload_of
from tenon.kube.records import PodRecord
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant
from tenon.messages.node_steps import MAX_WORKLOADS, DrainInput, DrainResult
from tenon.node import drain as decide
from tenon.node.drain_blockers import REPORTED_BLOCKAGES, grouped, overdue_termination, sentence
from tenon.sentences import counted, first_clauses

POLL_SECONDS = 1.0
MAX_POLL_SECONDS = 5.0
"""The maximum pause. While nothing changes, each pause is 1.5 times as long as the previous one."""
MAX_BLOCKED = 10

IdleNodes = Callable[[Sequence[PodRecord]], Awaitable[str]]
"""Returns which nodes stand empty because they were bought for these pods, as the end of a sentence."""


async def drain(
    kube: Kube,
    recorder: EventPublisher,
    drain_input: DrainInput,
    now: Clock,
    sleep: Sleep = asyncio.sleep,
    idle_nodes: IdleNodes | None = None,
) -> DrainResult:
    """Remove the pods from the node, or report what is left after ``budget_seconds``, or sooner if pods are blocked.

    The drain does not wait for pods for which waiting is useless: pods that are stuck, pods that the API server does
    not allow to delete after the node's grace period, and all pods of a dead Node whose instance is gone.

    ``idle_nodes`` is asked which nodes stand empty because they were bought for pods that are blocked here.
    """
    claim = await read_claim(kube, drain_input.claim)
    drain_input = evolve(drain_input, force_at=decide.forced_from(drain_input.force_at, claim))
    node: Object | None = (await find_node(kube, drain_input, claim)).node
    if drain_input.force and claim is not None:
        claim = await _remember_force(kube, drain_input, claim, now())
    until = now() + timedelta(seconds=drain_input.budget_seconds)
    report_at = now() + timedelta(seconds=drain_input.report_blocked_after or drain_input.budget_seconds)
    evictor: Evictor | None = None
    pause, before = POLL_SECONDS, -1
    while node is not None:
        name = node["metadata"]["name"]
        if drain_input.instance_gone and is_dead(node):
            node_pods = await pods_on(kube, name)
            deleted_pods = await forget_pods(kube, recorder, node, node_pods, drain_input.why)
            await _note_drained(kube, drain_input, now, claim, detached=False)
            return _with_pods(DrainResult(drained=True), evictor, deleted_pods)
        node_pods = await pods_on(kube, name, latest=False)
        waited = decide.remaining_pods(node_pods, now(), drain_input.force_at)
        if not waited:  # the instance is terminated next, so read again to see pods that came a moment ago
            node_pods = await pods_on(kube, name)
            waited = decide.remaining_pods(node_pods, now(), drain_input.force_at)
        first = evictor is None
        evictor = evictor or Evictor(kube, recorder, node, drain_input)
        if waited:
            await evictor.act(waited, now())
        if not waited or evictor.gives_up(waited, now()):
            stuck = [overdue_termination(pod) for pod in decide.left_behind(node_pods, now(), drain_input.force_at)]
            await _publish_left_behind(recorder, node, [*map(sentence, stuck + evictor.blocked(waited))])
            attached = await attached_volumes(kube, name, now())
            await _note_drained(kube, drain_input, now, claim, detached=not attached)
            return _with_pods(DrainResult(drained=True, volumes_attached=len(attached)), evictor)
        if first:
            text = f"{counted(len(waited), 'pod')} left on Node {name}"
            claim = await update_conditions(
                kube, drain_input.claim, [ConditionUpdate(DRAINED, "Unknown", "Draining", text)], now
            )
        seconds_left = (until - now()).total_seconds()
        next_force_at = decide.next_force(waited, drain_input.force_at, now())
        if seconds_left <= 0 or (now() >= report_at and evictor.blocked(waited)):
            blocked = grouped(evictor.blocked(waited))[:MAX_BLOCKED]
            standing = await idle_nodes(waited) if blocked and idle_nodes is not None else ""
            if standing:
                await recorder.publish(node, EventReason.REPLACEMENT_IDLE, f"{sentence(blocked[0])}; {standing}")
            return _with_pods(
                DrainResult(
                    remaining=len(waited),
                    blocked=blocked,
                    next_force_at=next_force_at,
                    idle=standing,
                    force_at=drain_input.force_at,
                ),
                evictor,
            )
        idle = len(waited) == before and not drain_input.force
        pause, before = min(pause * 1.5, MAX_POLL_SECONDS) if idle else POLL_SECONDS, len(waited)
        due = [at for at in (evictor.next_try(waited), next_force_at) if at is not None]
        soonest = [max((at - now()).total_seconds(), POLL_SECONDS) for at in due]
        await sleep(min(pause, seconds_left, *soonest))
        if drain_input.instance_gone:
            node = await kube.get(NODES, name)
    await _note_drained(kube, drain_input, now, claim, detached=True)
    return _with_pods(DrainResult(drained=True), evictor)


def _with_pods(result: DrainResult, evictor: Evictor | None, deleted_pods: Sequence[PodRecord] = ()) -> DrainResult:
    """Return the result with which pods were evicted, or deleted from a dead Node."""
    pods = [*(evictor.evicted_pods if evictor is not None else ()), *deleted_pods]
    workloads = dict.fromkeys(workload_of(pod.key) for pod in pods if not pod.daemon)
    return evolve(result, evicted=len(pods), workloads=list(workloads)[:MAX_WORKLOADS])


async def _note_drained(
    kube: Kube, drain_input: DrainInput, now: Clock, claim: ClaimRecord | None, *, detached: bool
) -> None:
    """Record on the claim that the node is drained, and with ``detached`` that no volume is attached to it.

    ``claim`` saves a read, if it is known as it was last written.
    """
    conditions = (DRAINED, VOLUMES_DETACHED) if detached else (DRAINED,)
    updates = [ConditionUpdate(condition, "True") for condition in conditions]
    read_object = claim.body if claim is not None else None
    await update_conditions(kube, drain_input.claim, updates, now, read_object=read_object)


async def _remember_force(kube: Kube, drain_input: DrainInput, claim: ClaimRecord, now: datetime) -> ClaimRecord | None:
    """Write on the claim that its grace period is over, because a restarted workflow knows only what the claim says.

    Returns:
        The claim if it says so already; None if it was written.
    """
    written = claim.termination_timestamp
    force_at = min(drain_input.force_at or now, now)
    if written is not None and written <= force_at:
        return claim
    await annotate_claim(kube, drain_input.claim, {labels.TERMINATION_TIMESTAMP: format_instant(force_at)})
    return None


async def _publish_left_behind(recorder: EventPublisher, node: Object, sentences: Sequence[str]) -> None:
    """Publish an event about the pods that the drain does not wait for, so that users can see why they vanish."""
    if not sentences:
        return
    text = f"the drain no longer waits for these pods: {first_clauses(sentences, REPORTED_BLOCKAGES)}"
    await recorder.publish(node, EventReason.FAILED_DRAINING, text)
