"""Gauges of each Node: what it can allocate, what its pods request, its age (MET-15, MET-16); and of all (MET-17)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from activities.metrics import (
    CLUSTER_UTILIZATION,
    NODES_AGE,
    NODES_ALLOCATABLE,
    NODES_DAEMON_LIMITS,
    NODES_DAEMON_REQUESTS,
    NODES_OVERHEAD,
    NODES_POD_LIMITS,
    NODES_POD_REQUESTS,
)
from tenon.apis import labels
from tenon.kube.records import NodeRecord
from tenon.resources import PODS, Resources, add, subtract, total
from worker.cache.node_memo import NodeMemo
from worker.cache.quantities import stated
from worker.cache.state import ClusterState
from worker.controllers.observability.text_format import amount, gauge_text, labeled, resource_label

LABEL_NAMES = {label: label.rpartition("/")[2].replace("-", "_") for label in sorted(labels.WELL_KNOWN)}
"""The label of a metric, by the label of a Node."""


NO_PODS = {PODS: 0}
"""A node without pods has a series too, as dashboards that add them need it."""


@dataclass(frozen=True, slots=True)
class PodSums:
    """The sums over the pods of a node that have not terminated."""

    requests: Resources
    limits: Resources
    daemon_requests: Resources
    daemon_limits: Resources


def node_texts(state: ClusterState, now: float, memo: NodeMemo[PodSums]) -> Iterator[str]:
    """The gauges in pieces. ``memo`` keeps the sums of nodes whose pods have not changed since the last scrape."""
    nodes: Sequence[NodeRecord] = sorted(state.nodes, key=lambda node: node.name)
    texts = [_labels(state, node) for node in nodes]
    sums = [_kept_sums(state, node.name, memo) for node in nodes]
    memo.keep_only(state.nodes.keys())
    amounts = {
        NODES_ALLOCATABLE: [stated(node.allocatable) for node in nodes],
        NODES_OVERHEAD: [stated(subtract(node.capacity, node.allocatable)) for node in nodes],
        NODES_POD_REQUESTS: [node_sums.requests for node_sums in sums],
        NODES_POD_LIMITS: [node_sums.limits for node_sums in sums],
        NODES_DAEMON_REQUESTS: [node_sums.daemon_requests for node_sums in sums],
        NODES_DAEMON_LIMITS: [node_sums.daemon_limits for node_sums in sums],
    }
    for gauge, lists in amounts.items():
        yield from gauge_text(gauge, _resource_series(texts, lists))
    yield from gauge_text(
        NODES_AGE, ((text, round(now - node.created)) for text, node in zip(texts, nodes, strict=True))
    )
    yield from gauge_text(CLUSTER_UTILIZATION, _utilization(amounts[NODES_ALLOCATABLE], amounts[NODES_POD_REQUESTS]))


def _resource_series(texts: Sequence[str], lists: Sequence[Resources]) -> Iterator[tuple[str, float]]:
    for text, resources in zip(texts, lists, strict=True):
        for resource, units in resources.items():
            yield f"{text},{resource_label(resource)}", amount(resource, units)


def _utilization(allocatable: Sequence[Resources], requests: Sequence[Resources]) -> Iterator[tuple[str, float]]:
    capacity, requested = total(allocatable), total(requests)
    for resource, units in capacity.items():
        yield resource_label(resource), round(100 * requested.get(resource, 0) / units, 4)


def _labels(state: ClusterState, node: NodeRecord) -> str:
    claim = state.claim_of(node)
    own = {"node_name": node.name, "managed": "true" if claim is not None else "false"}
    return labeled(own | {name: node.labels.get(label, "") for label, name in LABEL_NAMES.items()})


def _kept_sums(state: ClusterState, node_name: str, memo: NodeMemo[PodSums]) -> PodSums:
    pods = state.pods_by_key(node_name)
    sums = memo.get(node_name, (pods,))
    if sums is None:
        running = [pod for pod in pods.values() if not pod.terminal]
        daemons = [pod for pod in running if pod.daemon]
        others = [pod for pod in running if not pod.daemon]
        daemon_requests = total((NO_PODS, *(pod.pod.requests for pod in daemons)))
        daemon_limits = total((NO_PODS, *(pod.limits for pod in daemons)))
        sums = PodSums(
            add(daemon_requests, total(pod.pod.requests for pod in others)),
            add(daemon_limits, total(pod.limits for pod in others)),
            daemon_requests,
            daemon_limits,
        )
        memo.put(node_name, (pods,), sums)
    return sums
