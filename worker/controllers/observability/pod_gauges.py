"""Gauges of pods: what each is and where (MET-22), and in which zones those may run that wait (MET-05)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from activities.metrics import PENDING_BY_ZONE, POD_STATE
from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord
from worker.cache.state import ClusterState
from worker.controllers.observability.text_format import escaped, gauge_text, labeled

FLEXIBLE = "flexible"
"""Instead of a zone, for a pod that may run in several."""
NODE_LABELS = {
    "zone": labels.ZONE,
    "arch": labels.ARCH,
    "capacity_type": labels.CAPACITY_TYPE,
    "instance_type": labels.INSTANCE_TYPE,
    "nodepool": labels.NODEPOOL,
}


def pod_texts(state: ClusterState) -> Iterator[str]:
    """The gauge in pieces."""
    of_nodes = {node.name: _node_labels(node.name, node.labels) for node in state.nodes}
    yield from gauge_text(POD_STATE, ((_labels(pod, of_nodes), 1) for pod in state.pods))
    waiting = Counter(effective_zone(state.scheduling_pod(record)) for record in state.pending())
    by_zone = [(labeled({"controller": "provisioner", "zone": zone}), count) for zone, count in sorted(waiting.items())]
    yield from gauge_text(PENDING_BY_ZONE, by_zone)


def effective_zone(pod: Pod) -> str:
    """The only zone that a pod may run in by its node affinity and its volumes; ``flexible`` or ``none`` otherwise.

    Rules between pods do not count, because every plan may meet them in another way.
    """
    zones: set[str] = set()
    for term in pod.required_terms:
        zone = term.get(labels.ZONE)
        if zone.complement:
            return FLEXIBLE
        zones |= zone.members
    if len(zones) == 1:
        return zones.pop()
    return FLEXIBLE if zones or not pod.required_terms else "none"


def _node_labels(name: str, node: Mapping[str, str]) -> str:
    values = {label: node.get(node_label, "") for label, node_label in NODE_LABELS.items()}
    managed = "true" if values["nodepool"] else "false"
    return labeled({"node": name, "scheduled": "true", **values, "managed": managed})


def _labels(pod: PodRecord, of_nodes: Mapping[str, str]) -> str:
    node_name = pod.node_name
    node = of_nodes.get(node_name) or (_node_labels(node_name, {}) if node_name else WITHOUT_NODE)
    owner = f'owner="{escaped(pod.owner_path)}",' if pod.owner_path else ""
    ready = "true" if pod.ready else "false"
    return f'name="{pod.pod.name}",namespace="{pod.pod.namespace}",{owner}phase="{pod.phase}",ready="{ready}",{node}'


WITHOUT_NODE = 'scheduled="false",managed="false"'
