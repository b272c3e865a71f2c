"""The step "bind pods": put the pods that a node was bought for onto it at once, where no rule needs the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.bounded import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.nodes import find_node, pods_on
from activities.kubernetes.resources import PODS
from tenon.apis import labels
from tenon.lifecycle import pods
from tenon.lifecycle.binding import PlannedPod, choose, parse_planned
from tenon.lifecycle.messages import BindResult, NodeInput

AT_ONCE = 20
"""Requests in flight for one node."""


async def still_wait(kube: Kube, wanted: NodeInput) -> bool:
    """Whether a planned pod has no node yet."""
    claim = await read_claim(kube, wanted.claim)
    annotations = (claim["metadata"].get("annotations") if claim else None) or {}
    found = await _read(kube, parse_planned(annotations.get(labels.PLANNED_PODS) or ""))
    return any(not (pod.get("spec") or {}).get("nodeName") for pod in found.values())


async def bind(kube: Kube, wanted: NodeInput, planned: str | None = None) -> BindResult:
    """Bind the claim's planned pods; a pod that cannot be bound is kube-scheduler's.

    Args:
        kube: the cluster.
        wanted: the claim and its Node.
        planned: the annotation's text; None reads it from the claim.

    Returns:
        ``bound`` counts pods that are on the node already, so that a repetition answers the same.
    """
    claim = await read_claim(kube, wanted.claim)
    if planned is None:
        annotations = claim["metadata"].get("annotations") if claim else None
        planned = (annotations or {}).get(labels.PLANNED_PODS) or ""
    entries = parse_planned(planned)
    if not entries or claim is None or claim["metadata"].get("deletionTimestamp"):
        return BindResult(planned=len(entries), left=len(entries))
    found = await _read(kube, entries)
    node = (await find_node(kube, wanted, claim)).node
    if node is None or (node["metadata"].get("labels") or {}).get(labels.INITIALIZED) != "true":
        return BindResult(planned=len(entries), left=len(entries))
    name = node["metadata"]["name"]
    # The node's pods are read last: what kube-scheduler has put there meanwhile must be seen.
    choice = choose(entries, found, node, await pods_on(kube, name))

    async def post(pod: Mapping[str, Any]) -> bool:
        metadata = pod["metadata"]
        return await kube.bind(metadata["namespace"], metadata["name"], name, pods.uid(pod))

    bound = sum(await bounded(choice.bind, AT_ONCE, post))
    return BindResult(
        bound=bound + len(choice.here),
        planned=len(entries),
        left=len(choice.left) + len(choice.bind) - bound,
    )


async def _read(kube: Kube, entries: list[PlannedPod]) -> dict[str, Mapping[str, Any]]:
    async def read(entry: PlannedPod) -> dict[str, Any] | None:
        return await kube.get(PODS, entry.name, entry.namespace)

    answers = await bounded(entries, AT_ONCE, read)
    return {entry.key: pod for entry, pod in zip(entries, answers, strict=True) if pod is not None}
