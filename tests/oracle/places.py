"""Where pods are: nodes that are there, and claims, which may still become one of many nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tests.oracle.conditions import CAPACITY_TYPE, HOST, ZONE, Condition, NodeWish, Open, Value, current, maybe, read
from tests.oracle.inputs import RESERVATION, Inputs, Kind, Offer, Pod, Pool
from tests.oracle.quantities import amounts

Labels = Mapping[str, Value]
LATER = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
"""Labels that a node gets in time."""


@dataclass(eq=False)
class Place(ABC):
    """A node or claim with its pods."""

    name: str
    taints: tuple[Mapping[str, Any], ...] = ()
    running: list[Pod] = field(default_factory=list)
    planned: list[Pod] = field(default_factory=list)
    _values_of_keys: dict[tuple[str, ...], list[dict[str, Value]]] = field(default_factory=dict)
    _suited: dict[NodeWish, bool] = field(default_factory=dict)

    def futures(self, keys: Iterable[str]) -> list[dict[str, Value]]:
        """The different nodes that it may become, as far as these labels tell them apart."""
        requests = tuple(sorted(set(keys)))
        if requests not in self._values_of_keys:
            different = dict.fromkeys(values for row in self._rows(requests) for values in product(*row))
            self._values_of_keys[requests] = [dict(zip(requests, values, strict=True)) for values in different]
        return self._values_of_keys[requests]

    def rows(self, keys: Iterable[str]) -> Iterator[list[dict[str, Value]]]:
        """The same, together what only labels of its own tell apart: of one type and one offering."""
        requests = tuple(sorted(set(keys)))
        for row in self._rows(requests):
            yield [dict(zip(requests, values, strict=True)) for values in product(*row)]

    def domains(self, key: str) -> set[Value]:
        """What its label may be."""
        return {labels[key] for labels in self.futures((key,))}

    def domain(self, key: str) -> str | None:
        """The label's value where it is settled."""
        values = self.domains(key)
        only = next(iter(values)) if len(values) == 1 else None
        return only if isinstance(only, str) else None

    def suits(self, wish: NodeWish) -> bool:
        """Whether it surely is a node as wished, whatever it becomes."""
        if wish not in self._suited:
            self._suited[wish] = all(map(wish.met, self.futures(wish.keys)))
        return self._suited[wish]

    @abstractmethod
    def _rows(self, keys: Sequence[str]) -> Iterable[list[tuple[Value, ...]]]:
        """What the labels may be together: for each row the choices of each label."""


@dataclass(eq=False)
class Standing(Place):
    """A node that is there."""

    labels: dict[str, str] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)
    leaving: bool = False

    def _rows(self, keys: Sequence[str]) -> Iterable[list[tuple[Value, ...]]]:
        yield [(self.labels.get(key),) for key in keys]


@dataclass(eq=False)
class NewNode(Place):
    """A claim, or a NodePool as the node that it could launch: what its conditions leave of types and offerings."""

    conditions: tuple[Condition, ...] = ()
    ways: list[tuple[Kind, Offer]] = field(default_factory=list)
    cloud_keys: set[str] = field(default_factory=set)
    pool: Pool | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)

    def values(self, key: str, way: tuple[Kind, Offer]) -> tuple[Value, ...]:
        """What a label may be if it is bought in this way."""
        if key == HOST:
            return (f"host of {self.name}",)
        if key in LATER:
            return (LATER[key],)
        if key in self.cloud_keys:
            return self._allowed(key, cloud_values(key, *way))
        return self._own(key)

    def _own(self, key: str) -> tuple[Value, ...]:
        conditions = tuple(condition for condition in self.conditions if condition.key == key)
        if not conditions:
            return (None,)
        listed = [condition.values for condition in conditions if condition.operator == "In"]
        if listed:
            return tuple(text for text in listed[0] if all(c.holds(text) for c in conditions)) or (None,)
        if any(condition.operator == "DoesNotExist" for condition in conditions):
            return (None,)
        may_lack = all(condition.operator == "NotIn" for condition in conditions)
        return (None, Open(conditions)) if may_lack else (Open(conditions),)

    def _allowed(self, key: str, values: tuple[str, ...]) -> tuple[Value, ...]:
        if not values:
            return (None,)
        conditions = [condition for condition in self.conditions if condition.key == key]
        return tuple(value for value in values if all(condition.holds(value) for condition in conditions))

    def _rows(self, keys: Sequence[str]) -> Iterable[list[tuple[Value, ...]]]:
        for way in self.ways:
            yield [self.values(key, way) for key in keys]


def cloud_values(key: str, kind: Kind, offer: Offer) -> tuple[str, ...]:
    """The values of a label that type and offering decide."""
    decided = {ZONE: offer.zone, CAPACITY_TYPE: offer.capacity_type, RESERVATION: offer.reservation}.get(key)
    return (decided,) if decided else kind.labels.get(key, ())


def ways_left(inputs: Inputs, kinds: Iterable[Kind], conditions: Iterable[Condition]) -> list[tuple[Kind, Offer]]:
    """The types and offerings that conditions leave."""
    requests = [condition for condition in conditions if condition.key in inputs.cloud_keys]

    def left(kind: Kind, offer: Offer) -> bool:
        for condition in requests:
            values = cloud_values(condition.key, kind, offer)
            if not any(maybe(condition, value) for value in values or (None,)):
                return False
        return True

    return [(kind, offer) for kind in kinds for offer in kind.offers if left(kind, offer)]


def launchable(inputs: Inputs, pool: Pool) -> NewNode:
    """What a pool could launch, as one place that may become any of it."""
    ways = ways_left(inputs, inputs.kinds.values(), pool.conditions)
    return NewNode(
        pool.name, pool.taints, conditions=pool.conditions, ways=ways, cloud_keys=inputs.cloud_keys, pool=pool
    )


def standing_nodes(inputs: Inputs) -> dict[str, Standing]:
    """The nodes that are there, with the pods that run on them."""
    result = {}
    for name, document in inputs.nodes.items():
        metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
        taints = tuple(spec.get("taints") or ())
        if spec.get("unschedulable"):
            taints += ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},)
        labels = {HOST: name, **{current(key): str(value) for key, value in (metadata.get("labels") or {}).items()}}
        result[name] = Standing(
            name,
            taints,
            labels=labels,
            room=amounts(status.get("allocatable")),
            leaving=bool(metadata.get("deletionTimestamp")),
        )
    for pod in inputs.pods:
        if pod.node in result:
            result[pod.node].running.append(pod)
    return result


def claimed(inputs: Inputs, entry: Mapping[str, Any]) -> NewNode:
    """A claim of a plan; its pool's conditions on labels of the pool's own hold for it as well."""
    pool = inputs.pools.get(entry["nodePool"])
    own = tuple(map(read, entry["requirements"]))
    kinds = [inputs.kinds[name] for name in entry["instanceTypes"] if name in inputs.kinds]
    added = tuple(c for c in (pool.conditions if pool else ()) if c.key not in inputs.cloud_keys)
    return NewNode(
        name=entry["name"],
        taints=pool.taints if pool else (),
        conditions=(*own, *added),
        ways=ways_left(inputs, kinds, own),
        cloud_keys=inputs.cloud_keys,
        pool=pool,
        plan=entry,
    )
