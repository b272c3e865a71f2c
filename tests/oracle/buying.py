"""Nodes that could be bought, each known in full: for a simple planner, and to see whether a pod was left out idly."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle.conditions import HOST, POOL, Open
from tests.oracle.inputs import Inputs, Pod, Pool
from tests.oracle.places import LATER, NewNode, Place, Standing, launchable
from tests.oracle.quantities import Amounts, amount, amounts, largest, plus
from tests.oracle.scheduler import Scheduler


class Market:
    """What the pools still sell."""

    def __init__(self, inputs: Inputs, claims: list[NewNode], nodes: list[Standing]) -> None:
        """Begin with what nodes and claims take of the limits, whichever type a claim turns into."""
        self._inputs = inputs
        self._bought_count = 0
        self._pools = sorted(
            (launchable(inputs, pool) for pool in inputs.pools.values() if not pool.static and not pool.least_values),
            key=lambda place: (-(place.pool.weight if place.pool else 0), place.name),
        )
        for place in self._pools:
            place.ways.sort(key=lambda way: (way[1].price, way[0].name, way[1].zone))
        self._used: dict[str, Amounts] = {name: {} for name in inputs.pools}
        for claim in claims:
            if claim.pool is not None:
                self._use(claim.pool.name, largest(kind.capacity for kind, _ in claim.ways))
        for node in nodes:
            if node.labels.get(POOL) in self._used:
                self._use(node.labels[POOL], amounts((inputs.nodes[node.name].get("status") or {}).get("capacity")))

    def buy_for(self, pod: Pod, scheduler: Scheduler) -> Standing | None:
        """The first node that would let the pod in, of the heaviest pool, cheapest first; it is added to the nodes."""
        for place in self._pools:
            assert place.pool is not None
            for node, capacity in self._nodes(place, pod):
                if not self._within(place.pool, capacity):
                    continue
                scheduler.add(node)
                if scheduler.admits(node, pod):
                    self._use(place.pool.name, capacity)
                    self._bought_count += 1
                    return node
                scheduler.remove(node)
        return None

    def _nodes(self, place: NewNode, pod: Pod) -> Iterator[tuple[Standing, Amounts]]:
        """Concrete nodes of a pool; labels of the pool's own with each value that it lists."""
        own = sorted({c.key for c in place.conditions if c.key not in self._inputs.cloud_keys})
        for kind, offer in place.ways:
            if any(pod.requests.get(name, 0) > kind.room.get(name, 0) for name in pod.requests):
                continue
            item = NewNode(place.name, place.taints, conditions=place.conditions, ways=[(kind, offer)])
            item.cloud_keys = place.cloud_keys
            for labels in item.futures({*own, *kind.labels, *_OFFERED, *LATER}):
                texts = {key: _text(value) for key, value in labels.items() if value is not None}
                texts[HOST] = name = f"bought-{self._bought_count}"
                yield Standing(name, place.taints, labels=texts, room=kind.room), kind.capacity

    def _within(self, pool: Pool, capacity: Amounts) -> bool:
        whole = plus((self._used[pool.name], capacity, {"nodes": amount(1)}))
        return all(whole.get(name, 0) <= most for name, most in pool.limits.items())

    def _use(self, pool: str, capacity: Amounts) -> None:
        self._used[pool] = plus((self._used[pool], capacity, {"nodes": amount(1)}))


_OFFERED = ("topology.kubernetes.io/zone", "karpenter.sh/capacity-type")


def _text(value: object) -> str:
    return "made-up" if isinstance(value, Open) else str(value)


def settled(claim: Place, inputs: Inputs) -> Standing:
    """A claim as the node that its offering makes of it."""
    assert isinstance(claim, NewNode)
    offering = claim.plan["offering"]
    instance_types = (offering["instanceType"], offering["zone"], offering["capacityType"])
    way = next(way for way in claim.ways if (way[0].name, way[1].zone, way[1].capacity_type) == instance_types)
    item = NewNode(claim.name, claim.taints, conditions=claim.conditions, ways=[way], cloud_keys=claim.cloud_keys)
    keys = {c.key for c in claim.conditions} | set(way[0].labels) | {*_OFFERED, *LATER}
    labels = item.futures(keys)[0]
    texts = {key: _text(value) for key, value in labels.items() if value is not None}
    texts[HOST] = f"host of {claim.name}"
    return Standing(claim.name, claim.taints, planned=list(claim.planned), labels=texts, room=way[0].room)
