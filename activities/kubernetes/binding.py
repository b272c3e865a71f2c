"""The step "bind pods": put the pods that a node was bought for onto it, where no rule needs the scheduler.

Usually the node is closed to all others until then. Where it is not, kube-scheduler is given a moment first and places
most of them; one list of the node's pods shows those, and only what is missing there is asked for by name: at 10,000
pods a request for each would hold up every other node.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachable
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.nodes import find_node, pods_on
from activities.kubernetes.resources import PODS
from activities.kubernetes.uncordon import open_node
from tenon.apis import labels
from tenon.evolve import evolve
from tenon.kube import pods
from tenon.kube.planned_pods import PlannedPod, planned_pods
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.lifecycle import startup_cordon
from tenon.lifecycle.binding import Choice, choose, waits
from tenon.lifecycle.messages import BindResult, NodeInput

log = logging.getLogger("controller.nodeclaim.binding")

AT_ONCE = 20
"""Requests in flight for one node."""

Object = Mapping[str, Any]
Settle = Callable[[], Awaitable[None]]


async def bind(kube: Kube, wanted: NodeInput, settle: Settle, default_spread: DefaultSpread = NOTHING) -> BindResult:
    """Bind the claim's planned pods, then open the node; a pod that cannot be bound is kube-scheduler's.

    Args:
        kube: the cluster.
        wanted: the claim and its Node.
        settle: returns when kube-scheduler has had a moment. It gets one before anything is bound to a node that is
            open to it while a planned pod has no node yet; one before a closed node is opened, if pods were bound; and
            one after, if other pods may take the room of planned ones.
        default_spread: how kube-scheduler spreads pods that state nothing.

    Returns:
        ``bound`` counts pods that are on the node already, so that a repetition answers the same.
    """
    claim, node = await _read_both(kube, wanted)
    entries = _planned(claim)
    if node is not None and not startup_cordon.closed(node):
        if await _any_waits(kube, _missing(entries, await pods_on(kube, node["metadata"]["name"]))):
            await settle()
        # Meanwhile the claim may have begun to leave, and the Node may have been cordoned.
        claim, node = await _read_both(kube, wanted)
    if claim is None or node is None or claim["metadata"].get("deletionTimestamp"):
        return BindResult(planned=len(entries), left=len(entries))
    result = await _bind(kube, entries, node, default_spread)
    if startup_cordon.closed(node):
        if result.bound:
            await settle()  # until kube-scheduler has seen them: it would give the same room away again
        await open_node(kube, node)
        if result.running is not None and result.bound < result.planned:
            await settle()  # until kube-scheduler has given the room to other pods
            company = await pods_on(kube, node["metadata"]["name"], latest=False)
            result = evolve(result, running=max(_running(company), result.running))
    return result


async def _bind(kube: Kube, entries: Sequence[PlannedPod], node: Object, default_spread: DefaultSpread) -> BindResult:
    if not entries or (node["metadata"].get("labels") or {}).get(labels.INITIALIZED) != "true":
        return BindResult(planned=len(entries), left=len(entries))
    choice, company = await _choose(kube, entries, node, default_spread)

    async def post(pod: Object) -> bool:
        metadata = pod["metadata"]
        try:
            return await kube.bind(metadata["namespace"], metadata["name"], node["metadata"]["name"], pods.uid(pod))
        except ApiUnreachable:
            raise
        except ApiError as error:  # of an admission webhook, say: the other pods and the node must not wait for it
            log.warning("a pod was not bound", extra={"pod": pods.key(pod), "error": str(error)})
            return False

    bound = sum(await bounded(choice.bind, AT_ONCE, post))
    return BindResult(
        bound=bound + len(choice.here),
        planned=len(entries),
        left=len(choice.left) + len(choice.bind) - bound,
        running=_running(company) + bound,
    )


def _running(company: Sequence[Object]) -> int:
    """The pods of a node that would need another place without it."""
    return sum(pods.is_reschedulable(pod) for pod in company)


async def _read_both(kube: Kube, wanted: NodeInput) -> tuple[Object | None, Object | None]:
    claim = await read_claim(kube, wanted.claim)
    return claim, (await find_node(kube, wanted, claim)).node if claim is not None else None


async def _choose(
    kube: Kube, entries: Sequence[PlannedPod], node: Object, default_spread: DefaultSpread
) -> tuple[Choice, Sequence[Object]]:
    """What becomes of the planned pods, and the pods that are on the node."""
    name = node["metadata"]["name"]
    company = await pods_on(kube, name)
    found = await _read(kube, _missing(entries, company))
    if not startup_cordon.closed(node) and any(waits(entry, found.get(entry.key)) for entry in entries):
        # The node's pods are read last: what kube-scheduler has put there meanwhile must be seen.
        company = await pods_on(kube, name)
    return choose(entries, found | {pods.key(pod): pod for pod in company}, node, company, default_spread), company


async def _any_waits(kube: Kube, entries: Sequence[PlannedPod]) -> bool:
    """Whether one of them has no node yet; nearly always the first that is asked for says so."""
    for entry in entries:
        if waits(entry, await kube.get(PODS, entry.name, entry.namespace)):
            return True
    return False


def _planned(claim: Object | None) -> list[PlannedPod]:
    return planned_pods(claim["metadata"].get("annotations")) if claim else []


def _missing(entries: Sequence[PlannedPod], company: Sequence[Object]) -> list[PlannedPod]:
    """The planned pods that are not among those of the node."""
    there = {pods.uid(pod) for pod in company}
    return [entry for entry in entries if entry.uid not in there]


async def _read(kube: Kube, entries: Sequence[PlannedPod]) -> dict[str, Object]:
    async def read(entry: PlannedPod) -> dict[str, Any] | None:
        return await kube.get(PODS, entry.name, entry.namespace)

    answers = await bounded(entries, AT_ONCE, read)
    return {entry.key: pod for entry, pod in zip(entries, answers, strict=True) if pod is not None}
