"""What each node must hold by itself: room, taints, node affinity, host ports, volumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.oracle.beside_daemons import coming_to, runs_in, still_to_come, taken_in, tolerates
from tests.oracle.conditions import HOST, Condition, NodeWish, alternatives, current
from tests.oracle.findings import Finding
from tests.oracle.inputs import Inputs, Pod
from tests.oracle.places import NewNode, Place, Standing
from tests.oracle.quantities import lacking, plus

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def check_place(inputs: Inputs, place: Place) -> Iterator[Finding]:
    """Everything that one node with its pods must hold."""
    for pod in place.planned:
        yield from check_pod(inputs, place, pod)
    yield from _ports(inputs, place)
    if isinstance(place, NewNode):
        yield from _room_of_claim(inputs, place)
    elif isinstance(place, Standing) and place.planned:
        yield from _room_of_node(inputs, place)
        yield from _attachments(inputs, place)


def check_pod(inputs: Inputs, place: Place, pod: Pod) -> Iterator[Finding]:
    """What a pod asks of its node, other pods aside."""
    if not tolerates(pod.tolerations, place.taints):
        yield Finding("taints", place.name, f"{pod.key} does not tolerate a taint")
    if not place.suits(pod.wish):
        yield Finding("node-affinity", place.name, f"{pod.key} may not be on every node that this may become")
    if pod.gated:
        yield Finding("pods", place.name, f"{pod.key} has scheduling gates")
    for name, claim in claims_of(inputs, pod):
        reach = reachable(inputs, claim)
        if isinstance(reach, str):
            yield Finding("volumes", place.name, f"{pod.key}: claim {name} {reach}")
        elif not place.suits(reach):
            yield Finding("volumes", place.name, f"{pod.key}: claim {name} may be out of reach")


def _room_of_claim(inputs: Inputs, place: NewNode) -> Iterator[Finding]:
    pods = plus(pod.requests for pod in place.planned)
    for kind, occupancy in taken_in(inputs, place):
        if short := lacking(plus((pods, occupancy)), kind.room):
            yield Finding("resources", place.name, f"{kind.name} has not enough {', '.join(short)}")
        elif any(units < 0 for units in kind.room.values()):
            yield Finding("resources", place.name, f"{kind.name} has less than nothing of a resource")


def _room_of_node(inputs: Inputs, node: Standing) -> Iterator[Finding]:
    if node.leaving:
        yield Finding("nodes", node.name, "is being deleted")
    arriving = plus(pod.requests for pod in node.planned)
    whole = plus((arriving, still_to_come(inputs, node), *(pod.requests for pod in node.running)))
    short = [name for name in lacking(whole, node.room) if arriving.get(name)]
    if short:
        yield Finding("resources", node.name, f"has not enough {', '.join(short)}")


def _ports(inputs: Inputs, place: Place) -> Iterator[Finding]:
    ports = [(port, pod.key) for pod in place.running for port in pod.ports]
    if isinstance(place, NewNode) and any(pod.ports for pod in place.planned):
        for daemon in coming_to(inputs, place):
            if daemon.ports and any(runs_in(daemon, place, way) for way in place.ways):
                ports += [(port, daemon.key) for port in daemon.ports]
    for pod in place.planned:
        for port in pod.ports:
            for other, whose in ports:
                if _clash(port, other):
                    yield Finding("host-ports", place.name, f"{pod.key}: port {port[2]} belongs to {whose}")
        ports += [(port, pod.key) for port in pod.ports]


def ports_clash(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether a pod's host ports are taken by one of the others."""
    return any(_clash(port, occupancy) for port in pod.ports for other in others for occupancy in other.ports)


def _clash(first: tuple[str, str, int], second: tuple[str, str, int]) -> bool:
    everywhere = {"0.0.0.0", "::"}
    if first[1:] != second[1:]:
        return False
    return first[0] == second[0] or bool(everywhere & {first[0], second[0]})


def claims_of(inputs: Inputs, pod: Pod) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """The volume claims that a pod uses, None for one that is not there."""
    for volume in pod.spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            name = volume["persistentVolumeClaim"]["claimName"]
            yield f"{pod.namespace}/{name}", inputs.stored.get(("PersistentVolumeClaim", pod.namespace, name))
        elif volume.get("ephemeral"):
            name = f"{pod.key.partition('/')[2]}-{volume['name']}"
            present_items = inputs.stored.get(("PersistentVolumeClaim", pod.namespace, name))
            yield f"{pod.namespace}/{name}", present_items or volume["ephemeral"]["volumeClaimTemplate"]


def reachable(inputs: Inputs, claim: Mapping[str, Any] | None) -> NodeWish | str:
    """The nodes that can reach a claim's volume, or why no node can."""
    if claim is None:
        return "is not there"
    spec = claim.get("spec") or {}
    if spec.get("volumeName"):
        volume = inputs.stored.get(("PersistentVolume", "", spec["volumeName"]))
        if volume is None:
            return "is bound to a volume that is not there"
        labeled = tuple(_labeled(volume["metadata"].get("labels") or {}))
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is None:
            return NodeWish(either=(labeled,)) if labeled else NodeWish()
        terms = alternatives(required)
        if "local" in volume["spec"] or "hostPath" in volume["spec"]:
            terms = tuple(tuple(c for c in term if c.key != HOST) for term in terms)
        return NodeWish(either=tuple((*term, *labeled) for term in terms))
    storage = _class_of(inputs, spec)
    if storage is None:
        return "is not bound, and of no class that is known"
    if storage.get("volumeBindingMode") != "WaitForFirstConsumer":
        return "is not bound, and its class waits for no pod"
    topologies = storage.get("allowedTopologies")
    if not topologies:
        return NodeWish()
    return NodeWish(
        either=tuple(
            tuple(Condition(current(e["key"]), "In", tuple(e["values"])) for e in topology["matchLabelExpressions"])
            for topology in topologies
        )
    )


def _class_of(inputs: Inputs, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The class of a claim: the newest default one if it names none; an empty name means none."""
    storage_class_name = spec.get("storageClassName")
    if storage_class_name is not None:
        return inputs.stored.get(("StorageClass", "", storage_class_name))
    default = [
        document
        for (kind, _, _), document in inputs.stored.items()
        if kind == "StorageClass" and (document["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    ]
    return max(default, key=lambda document: str(document["metadata"].get("creationTimestamp") or ""), default=None)


def _labeled(labels: Mapping[str, str]) -> Iterator[Condition]:
    """What kube-scheduler's plugin VolumeZone reads in the labels of a volume."""
    for key in ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/"):
        for level in ("zone", "region"):
            values = tuple(str(labels.get(key + level, "")).split("__"))
            if all(values):
                yield Condition(current(key + level), "In", values)


def driver_of(inputs: Inputs, claim: Mapping[str, Any] | None) -> str:
    """The CSI driver that attaches a claim's volume."""
    spec = (claim or {}).get("spec") or {}
    volume = inputs.stored.get(("PersistentVolume", "", spec.get("volumeName") or ""))
    if volume is not None:
        return str((volume["spec"].get("csi") or {}).get("driver") or "")
    storage = _class_of(inputs, spec)
    return str((storage or {}).get("provisioner") or "")


def _attachments(inputs: Inputs, node: Standing) -> Iterator[Finding]:
    driven = inputs.stored.get(("CSINode", "", node.name))
    attached: dict[str, set[str]] = defaultdict(set)
    arriving: dict[str, int] = defaultdict(int)
    for pods in (node.running, node.planned):
        for pod in pods:
            for name, claim in claims_of(inputs, pod):
                attached[driver_of(inputs, claim)].add(name)
                arriving[driver_of(inputs, claim)] += pods is node.planned
    for driver in ((driven or {}).get("spec") or {}).get("drivers") or ():
        most = (driver.get("allocatable") or {}).get("count")
        if most is not None and arriving[driver["name"]] and len(attached[driver["name"]]) > most:
            yield Finding("volumes", node.name, f"more than {most} volumes of {driver['name']}")
