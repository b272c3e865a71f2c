"""Gauges of each pod: what it is and where (MET-22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from activities.metrics import POD_STATE
from tenon.apis import labels
from tenon.kube.records import PodRecord
from worker.cache.state import ClusterState
from worker.controllers.observability.text_format import gauge_text, labeled

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


def _node_labels(name: str, node: Mapping[str, str]) -> str:
    values = {label: node.get(node_label, "") for label, node_label in NODE_LABELS.items()}
    managed = "true" if values["nodepool"] else "false"
    return labeled({"node": name, "scheduled": "true", **values, "managed": managed})


def _labels(pod: PodRecord, of_nodes: Mapping[str, str]) -> str:
    node_name = pod.node_name
    node = of_nodes.get(node_name) or (_node_labels(node_name, {}) if node_name else WITHOUT_NODE)
    owner = f'owner="{pod.owner_path}",' if pod.owner_path else ""
    ready = "true" if pod.ready else "false"
    return f'name="{pod.pod.name}",namespace="{pod.pod.namespace}",{owner}phase="{pod.phase}",ready="{ready}",{node}'


WITHOUT_NODE = 'scheduled="false",managed="false"'
