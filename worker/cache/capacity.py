"""What the cluster's nodes, and the claims that will become nodes, still have room for; and what each pool uses.

A starting node promises what its claim says until it is initialized, and the taints that it will lose do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tenon.apis import labels
from tenon.resources import Resources, parse_resources, subtract, total
from tenon.scheduling.model import Node, Pod, Taint
from tenon.scheduling.requirements import Requirements
from worker.cache.records import NodeRecord, ObjectRecord
from worker.cache.state import ClusterState

log = logging.getLogger(__name__)

NODES = "nodes"
"""The pseudo-resource that counts nodes."""


def scheduling_nodes(state: ClusterState, now: float) -> list[Node]:
    """Existing and in-flight capacity that may take pods, by name.

    Pods planned for a claim count as used there. What is leaving, and a claim without an instance, whose capacity is
    unknown, can promise nothing: they are listed, closed, only where pods are on them or planned for them, because
    rules between pods still count those.
    """
    expected = Expected(state, now)
    nodes: list[Node] = []
    paired: set[str] = set()
    for record in state.nodes:
        claim = state.claim_of(record)
        if claim is not None:
            paired.add(claim.name)
        if not leaving(record, claim):
            nodes.append(_existing(state, record, claim, expected))
        elif there := _placed_on(state, record):
            nodes.append(Node(record.name, record.labels, record.taints, {}, {}, pods=there, closed=True))
    for claim in state.claims:
        if claim.name in paired or claim.deleting:
            continue
        known = bool(claim.status.get("allocatable"))
        if not known and not expected.planned(claim.name):
            continue
        try:
            node = _in_flight(claim, expected)
            nodes.append(node if known else replace(node, closed=True))
        except ValueError as error:
            log.warning("NodeClaim %s is left out of planning, for it cannot be read: %s", claim.name, error)
    return sorted(nodes, key=lambda node: node.name)


def leaving(node: NodeRecord | None, claim: ObjectRecord | None) -> bool:
    """Whether a node is on its way out: asked to be deleted, or tainted for disruption."""
    if claim is not None and claim.deleting:
        return True
    return node is not None and (node.deleting or any((t.key, t.effect) == labels.DISRUPTED_TAINT for t in node.taints))


def pool_usage(state: ClusterState, pool: str, *, with_leaving: bool = False) -> Resources:
    """The capacity of a pool's nodes and claims, and their number as ``nodes``; without those that are leaving.

    A claim that has no instance yet counts with what its pods request.
    """
    parts: list[Resources] = []
    paired: set[str] = set()
    for record in state.nodes:
        claim = state.claim_of(record)
        if claim is not None:
            paired.add(claim.name)
        belongs = (claim.labels if claim is not None else record.labels).get(labels.NODEPOOL) == pool
        if belongs and (with_leaving or not leaving(record, claim)):
            promised = _quantities(claim, "capacity") if claim is not None else {}
            parts.append({**promised, **_known(record.capacity), NODES: 1})
    for claim in state.claims:
        if claim.name not in paired and claim.labels.get(labels.NODEPOOL) == pool:
            if claim.deleting and not with_leaving:
                continue
            parts.append({**(_quantities(claim, "capacity") or _requested(claim)), NODES: 1})
    return total(parts)


def daemon_pods(state: ClusterState) -> list[Pod]:
    """One pod for each DaemonSet, by key; its requests are those of a live pod, which admission may have filled in."""
    live: dict[str, Resources] = {}
    for record in state.pods:
        if record.daemon and not record.terminal:
            live.setdefault(record.owner_uid, record.pod.requests)
    pods = []
    for daemon in sorted(state.daemonsets, key=lambda daemon: daemon.key):
        requests = live.get(daemon.uid, daemon.pod.requests)
        pods.append(daemon.pod if requests == daemon.pod.requests else replace(daemon.pod, requests=requests))
    return pods


class Expected:
    """Who is still to come to a node: DaemonSet pods, and pods that a claim was bought for."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self._daemons = daemon_pods(state)
        self._planned: dict[str, list[Pod]] = {}
        by_uid = {record.uid: record.pod for record in state.pending()}
        for uid, claim in state.planned(now).items():
            if uid in by_uid:
                self._planned.setdefault(claim, []).append(by_uid[uid])

    def daemons(self, node: Requirements, taints: Iterable[Taint]) -> list[Pod]:
        """The DaemonSet pods that belong on such a node, there already or not."""
        hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
        return [daemon for daemon in self._daemons if _tolerates(daemon, hard) and _matches(daemon, node)]

    def planned(self, claim: str) -> list[Pod]:
        """The pods still on their way to a claim."""
        return self._planned.get(claim, [])


def _existing(state: ClusterState, record: NodeRecord, claim: ObjectRecord | None, expected: Expected) -> Node:
    initialized = claim is None or record.labels.get(labels.INITIALIZED) == "true"
    known = record.labels
    taints, allocatable = record.taints, record.allocatable
    if claim is not None and not initialized:
        known = {**claim.labels, **record.labels}
        taints = _lasting(taints, claim)
        allocatable = {**_quantities(claim, "allocatable"), **_known(allocatable)}
    used, running = state.used(record.name)
    daemons = expected.daemons(Requirements.from_labels(known), taints)
    planned = expected.planned(claim.name) if claim is not None else []
    missing = _positive(subtract(total(pod.requests for pod in daemons), running))
    present = [pod.pod for pod in state.pods_on(record.name) if not pod.terminal]
    return Node(
        name=record.name,
        labels=known,
        taints=taints,
        allocatable=allocatable,
        used=total((used, missing, *(pod.requests for pod in planned))),
        initialized=initialized,
        host_ports=_ports(present, planned, daemons),
        pods=(*_placed_on(state, record), *planned),
    )


def _placed_on(state: ClusterState, record: NodeRecord) -> tuple[Pod, ...]:
    """The pods of a node that rules between pods count: those that neither ended nor are ending."""
    return tuple(pod.pod for pod in state.pods_on(record.name) if not pod.terminal and not pod.deleting)


def _in_flight(claim: ObjectRecord, expected: Expected) -> Node:
    requirements = Requirements.from_terms(claim.spec.get("requirements") or ()).with_(
        Requirements.from_labels(claim.labels)
    )
    taints = _lasting(_taints(claim.spec.get("taints")), claim)
    daemons = expected.daemons(requirements, taints)
    planned = expected.planned(claim.name)
    return Node(
        name=claim.name,
        labels={**requirements.labels(), **claim.labels},
        taints=taints,
        allocatable=_quantities(claim, "allocatable"),
        used=total(pod.requests for pod in (*daemons, *planned)),
        initialized=False,
        host_ports=_ports(planned, daemons),
        requirements=requirements,
        pods=tuple(planned),
    )


def _lasting(taints: Iterable[Taint], claim: ObjectRecord) -> tuple[Taint, ...]:
    """The taints that stay once the node has started."""
    startup = {(taint.key, taint.effect) for taint in _taints(claim.spec.get("startupTaints"))}
    return tuple(
        taint
        for taint in taints
        if (taint.key, taint.effect) not in startup and not labels.is_ephemeral_taint(taint.key, taint.effect)
    )


def _taints(raw: Iterable[Mapping[str, Any]] | None) -> tuple[Taint, ...]:
    return tuple(Taint(key=t["key"], effect=t.get("effect") or "", value=t.get("value") or "") for t in raw or ())


def _tolerates(pod: Pod, taints: Iterable[Taint]) -> bool:
    return all(any(toleration.tolerates(taint) for toleration in pod.tolerations) for taint in taints)


def _matches(pod: Pod, node: Requirements) -> bool:
    """Whether a daemon goes to such a node, once it is registered and initialized as every node will be."""
    if not pod.required_terms:
        return True
    started = {key: "true" for key in (labels.REGISTERED, labels.INITIALIZED) if key not in node}
    node = node.with_(Requirements.from_labels(started))
    return any(node.conflict(term) is None for term in pod.required_terms)


def _quantities(claim: ObjectRecord, field: str) -> Resources:
    try:
        return parse_resources(claim.status.get(field))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: status.%s cannot be read: %s", claim.name, field, error)
        return {}


def _requested(claim: ObjectRecord) -> Resources:
    try:
        return parse_resources((claim.spec.get("resources") or {}).get("requests"))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: spec.resources.requests cannot be read: %s", claim.name, error)
        return {}


def _known(resources: Resources) -> Resources:
    """Without the zeros that a kubelet reports of devices whose driver has not started."""
    return {name: amount for name, amount in resources.items() if amount}


def _positive(resources: Resources) -> Resources:
    return {name: amount for name, amount in resources.items() if amount > 0}


def _ports(*groups: Iterable[Pod]) -> tuple[tuple[str, int, str], ...]:
    return tuple(sorted({port for group in groups for pod in group for port in pod.host_ports}))
