"""Manifests and catalogue as the judge sees them: pods with their rules worked out, pools, types, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.conditions import (
    CAPACITY_TYPE,
    POOL,
    TYPE,
    ZONE,
    Condition,
    NodeWish,
    PodChoice,
    current,
    label_conditions,
    node_wish,
    read,
)
from tests.oracle.quantities import Amounts, amounts, asked_by

Object = Mapping[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_WORKLOADS = {"Deployment": "replicas", "ReplicaSet": "replicas", "StatefulSet": "replicas", "Job": "parallelism"}
RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE = "karpenter.k8s.aws/capacity-reservation-type"
SETTLED_BY_CLOUD = frozenset(
    (ZONE, TYPE, CAPACITY_TYPE, RESERVATION, RESERVATION_TYPE, "kubernetes.io/arch", "kubernetes.io/os")
)


@dataclass(frozen=True, slots=True)
class Term:
    """A required term of pod affinity or anti-affinity."""

    key: str
    selector: PodChoice


@dataclass(frozen=True, slots=True)
class Spread:
    """A DoNotSchedule constraint with all that decides which nodes it counts."""

    key: str
    most_skew: int
    least_domains: int
    selector: PodChoice
    wish: NodeWish
    tolerations: tuple[tuple[str, str, str, str], ...]
    honors_affinity: bool
    honors_taints: bool
    keys: tuple[str, ...]
    """The keys of all constraints of the pod: a node that lacks one counts for none of them."""


@dataclass(eq=False)
class Pod:
    """A pod; ``owner`` is the (kind, name) of its controller."""

    key: str
    namespace: str
    labels: dict[str, str]
    spec: Object
    node: str = ""
    owner: tuple[str, str] = ("", "")
    requests: Amounts = field(default_factory=dict)
    wish: NodeWish = field(default_factory=NodeWish)
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    ports: tuple[tuple[str, str, int], ...] = ()
    near: tuple[Term, ...] = ()
    away: tuple[Term, ...] = ()
    spreads: tuple[Spread, ...] = ()
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to buy a type."""

    zone: str
    capacity_type: str
    price: float
    reservation: str = ""
    places: int = 0
    reservation_type: str = ""


@dataclass(eq=False)
class Kind:
    """An instance type."""

    name: str
    labels: dict[str, tuple[str, ...]]
    capacity: Amounts
    room: Amounts
    offers: list[Offer]


@dataclass(eq=False)
class Pool:
    """A NodePool; its template's labels are among its conditions."""

    name: str
    conditions: tuple[Condition, ...]
    taints: tuple[Object, ...]
    limits: Amounts
    least_values: dict[str, int]
    weight: int
    static: bool


@dataclass(eq=False)
class Inputs:
    """All of it."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    cloud_keys: set[str] = field(default_factory=lambda: set(SETTLED_BY_CLOUD))
    """Labels that a node gets from its type or offering, or not at all."""
    pools: dict[str, Pool] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    daemons: list[Pod] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    stored: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    """Volumes, claims, classes and CSI nodes by kind, namespace and name."""

    @property
    def pending(self) -> dict[str, Pod]:
        """The pods without a node."""
        return {pod.key: pod for pod in self.pods if not pod.node}


def read_inputs(manifests: Iterable[Object], catalogue: Object) -> Inputs:
    """Read everything; rules between pods are worked out last, when all namespaces are known."""
    inputs = Inputs()
    for entry in catalogue["instanceTypes"]:
        inputs.kinds[entry["name"]] = _kind(entry)
        inputs.cloud_keys.update(map(current, entry.get("requirements") or {}))
    for document in _opened(manifests):
        _take(inputs, document)
    for pod in (*inputs.pods, *inputs.daemons):
        inputs.namespaces.setdefault(pod.namespace, {})
    for name, namespace in inputs.namespaces.items():
        namespace["kubernetes.io/metadata.name"] = name
    for pod in (*inputs.pods, *inputs.daemons):
        _rules(inputs, pod)
    return inputs


def _opened(manifests: Iterable[Object]) -> Iterator[Object]:
    for document in manifests:
        if str(document["kind"]).endswith("List") and "items" in document:
            yield from _opened(document["items"])
        else:
            yield document


def _kind(entry: Object) -> Kind:
    capacity, overhead = amounts(entry["capacity"]), amounts(entry.get("overhead"))
    room = {name: units - overhead.get(name, 0) for name, units in capacity.items()}
    huge = sum(units for name, units in capacity.items() if name.startswith("hugepages-"))
    if huge:
        room["memory"] = max(0, room.get("memory", 0) - huge)
    requirements = {**(entry.get("requirements") or {}), TYPE: [entry["name"]]}
    offers = [
        Offer(
            o["zone"],
            o["capacityType"],
            o["price"],
            o.get("reservationId", ""),
            o.get("reservationCapacity", 0),
            o.get("reservationType", "default") if o.get("reservationId") else "",
        )
        for o in entry["offerings"]
        if o.get("available", True)
    ]
    labels = {current(key): tuple(map(str, values)) for key, values in requirements.items() if values}
    return Kind(entry["name"], labels, capacity, room, offers)


def _take(inputs: Inputs, document: Object) -> None:
    kind, metadata, spec = document["kind"], document["metadata"], document.get("spec") or {}
    name, namespace = metadata["name"], metadata.get("namespace") or "default"
    if kind == "Pod":
        status = document.get("status") or {}
        over = status.get("phase") in ("Succeeded", "Failed") or metadata.get("deletionTimestamp")
        if not (over and spec.get("nodeName")):
            inputs.pods.append(_pod(name, namespace, metadata, spec))
    elif kind in _WORKLOADS:
        template = spec["template"]
        count = spec.get(_WORKLOADS[kind])
        for turn in range(1 if count is None else count):
            pod = _pod(f"{name}-{turn}", namespace, template.get("metadata") or {}, template["spec"])
            inputs.pods.append(pod)
    elif kind == "DaemonSet":
        template = spec["template"]
        inputs.daemons.append(_pod(name, namespace, template.get("metadata") or {}, template["spec"]))
    elif kind == "Node":
        inputs.nodes[name] = document
    elif kind == "NodePool":
        inputs.pools[name] = _pool(name, spec)
    elif kind == "Namespace":
        inputs.namespaces[name] = dict(metadata.get("labels") or {})
    elif kind in ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode"):
        inputs.stored[kind, namespace if kind == "PersistentVolumeClaim" else "", name] = document


def _pod(name: str, namespace: str, metadata: Object, spec: Object) -> Pod:
    owner: Object = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), {})
    return Pod(
        key=f"{namespace}/{name}",
        namespace=namespace,
        labels={key: str(value) for key, value in (metadata.get("labels") or {}).items()},
        spec=spec,
        node=spec.get("nodeName") or "",
        owner=(owner.get("kind", ""), owner.get("name", "")),
        requests=asked_by(spec),
        wish=node_wish(spec),
        tolerations=tuple(
            (t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
            for t in spec.get("tolerations") or ()
        ),
        ports=tuple(_ports(spec)),
        gated=bool(spec.get("schedulingGates")),
    )


def _ports(spec: Object) -> Iterator[tuple[str, str, int]]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number


def _pool(name: str, spec: Object) -> Pool:
    template = spec["template"]
    own, requirements = template["spec"], template["spec"].get("requirements") or ()
    reference = own.get("nodeClassRef") or {}
    labels = {**((template.get("metadata") or {}).get("labels") or {}), POOL: name}
    if reference.get("group") and reference.get("kind"):
        labels[f"{reference['group']}/{reference['kind'].lower()}"] = reference["name"]
    fixed = [Condition(current(key), "In", (str(value),)) for key, value in labels.items()]
    return Pool(
        name=name,
        conditions=(*map(read, requirements), *fixed),
        taints=tuple(own.get("taints") or ()),
        limits=amounts(spec.get("limits")),
        least_values={current(r["key"]): r["minValues"] for r in requirements if r.get("minValues")},
        weight=spec.get("weight") or 0,
        static=spec.get("replicas") is not None,
    )


def _rules(inputs: Inputs, pod: Pod) -> None:
    hard = [
        constraint
        for constraint in pod.spec.get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    keys = tuple(sorted({current(constraint["topologyKey"]) for constraint in hard}))
    pod.spreads = tuple(_spread(pod, constraint, keys) for constraint in hard)
    affinity = pod.spec.get("affinity") or {}
    for field_name, expectation in (("podAffinity", "near"), ("podAntiAffinity", "away")):
        required = (affinity.get(field_name) or {}).get(REQUIRED) or ()
        setattr(pod, expectation, tuple(_term(inputs, pod, term) for term in required))


def _spread(pod: Pod, constraint: Object, keys: tuple[str, ...]) -> Spread:
    conditions = label_conditions(constraint.get("labelSelector"))
    if conditions is not None:
        conditions += _same(pod, constraint.get("matchLabelKeys"), "In")
    return Spread(
        key=current(constraint["topologyKey"]),
        most_skew=constraint["maxSkew"],
        least_domains=constraint.get("minDomains") or 1,
        selector=PodChoice(frozenset((pod.namespace,)), conditions or None),  # an empty one counts no pod either
        wish=pod.wish,
        tolerations=pod.tolerations,
        honors_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
        honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        keys=keys,
    )


def _term(inputs: Inputs, pod: Pod, term: Object) -> Term:
    conditions = label_conditions(term.get("labelSelector"))
    if conditions is not None:
        conditions += _same(pod, term.get("matchLabelKeys"), "In")
        conditions += _same(pod, term.get("mismatchLabelKeys"), "NotIn")
    by_label = label_conditions(term.get("namespaceSelector"))
    namespaces = frozenset(term.get("namespaces") or ())
    spaces: frozenset[str] | None
    if by_label is None:
        spaces = namespaces or frozenset((pod.namespace,))
    elif not by_label:
        spaces = None
    else:
        everywhere = PodChoice(None, by_label)
        spaces = namespaces | {name for name, namespace in inputs.namespaces.items() if everywhere.has(name, namespace)}
    return Term(current(term["topologyKey"]), PodChoice(spaces, conditions))


def _same(pod: Pod, keys: Iterable[str] | None, operator: str) -> tuple[Condition, ...]:
    return tuple(Condition(key, operator, (pod.labels[key],)) for key in keys or () if key in pod.labels)
