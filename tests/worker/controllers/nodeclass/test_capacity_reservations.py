"""Nodes in capacity reservations: relabelled when they leave one, and gone before a capacity block ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.decode import decode_node
from tenon.node.leave_text import recorded
from tests.activities.node.fake_kube import START, Clock, FakeKube, Recorder
from tests.ec2.samples import node_class
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import Cache
from worker.controllers.nodeclass.capacity_reservations import (
    CapacityBlockExpirationController,
    FreedPlacesController,
    ReservedCapacityTypeController,
)

pytestmark = pytest.mark.asyncio(loop_scope="function")

RESERVED = {
    labels.CAPACITY_TYPE: "reserved",
    labels.RESERVATION_ID: "cr-1",
    labels.RESERVATION_TYPE: "default",
    labels.RESERVATION_INTERRUPTIBLE: "false",
}
GUARDED = (labels.TERMINATION_FINALIZER,)
BLOCK = {**RESERVED, labels.RESERVATION_TYPE: "capacity-block"}


class World:
    """An API server and a cache with nodes, and what EC2 says of their instances."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.kube = FakeKube(Clock())
        self.recorder = Recorder()
        self.in_reservation: dict[str, str] = {}
        self.requests: list[Sequence[str]] = []
        self.now = START
        self.relabelling = ReservedCapacityTypeController(cast("Any", self.kube), self.cache, self, lambda: self.now)

    def node(self, name: str, kind: Mapping[str, str], finalizers: Sequence[str] = GUARDED) -> None:
        """A node with these labels. Its instance is ``i-<name>``."""
        described = {"labels": {labels.NODEPOOL: "pool", **kind}, "finalizers": list(finalizers)}
        ref: dict[str, Any] = {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        }
        record = claim(name, node_name=name, meta=described, **ref)
        body = {
            "metadata": metadata(name, **described),
            "spec": {"providerID": record.provider_id},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.kube.add(NODECLAIMS, dict(record.body))
        self.kube.add(NODES, body)
        self.cache.publish(record)
        self.cache.publish(decode_node(json.dumps(body).encode()))

    def reservations(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        self.requests.append(sorted(instance_ids))
        return {
            instance_id: self.in_reservation[instance_id]
            for instance_id in instance_ids
            if instance_id in self.in_reservation
        }

    def labels_of(self, plural: str, name: str) -> dict[str, str]:
        return dict(self.kube.objects[plural, "", name]["metadata"]["labels"])

    async def relabel(self, after: float = 0.0) -> None:
        """Reconcile, and then again after this many seconds, if the controller asked for it."""
        pause = await self.relabelling.reconcile(())
        if after:
            assert pause is not None
            assert pause <= after
            self.now += timedelta(seconds=after)
            await self.relabelling.reconcile(())

    async def expire(self, minutes: int, name: str = "cr-1") -> None:
        """Reconcile with a capacity block of the class that ends in so many minutes."""
        block = {
            "id": name,
            "availabilityZone": "us-west-2a",
            "instanceType": "m5.large",
            "instanceMatchCriteria": "targeted",
            "ownerID": "1",
            "endTime": (START + timedelta(minutes=minutes)).isoformat(),
            "reservationType": "capacity-block",
        }
        result: EC2NodeClass = node_class({"capacityReservations": [block]})
        kube, recorder = cast("Any", self.kube), self.recorder
        controller = CapacityBlockExpirationController(kube, recorder, self.cache, lambda _: result, lambda: START)
        await controller.reconcile(())

    def leaving(self) -> list[str]:
        claims = [body for (plural, _, _), body in self.kube.objects.items() if plural == "nodeclaims"]
        return sorted(claim["metadata"]["name"] for claim in claims if claim["metadata"].get("deletionTimestamp"))


async def test_act13_aws126_a_node_that_left_its_reservation_becomes_on_demand() -> None:
    """Others keep their labels, also if EC2 does not show their instance."""
    world = World()
    for name in ("left", "stays", "unseen"):
        world.node(name, RESERVED)
    world.node("bought", {labels.CAPACITY_TYPE: "on-demand"})
    world.in_reservation = {"i-left": "", "i-stays": "cr-1"}
    await world.relabel(after=15.0)
    assert world.requests == [["i-left", "i-stays", "i-unseen"]] * 2
    for plural in ("nodes", "nodeclaims"):
        assert world.labels_of(plural, "left") == {labels.NODEPOOL: "pool", labels.CAPACITY_TYPE: "on-demand"}
        for name in ("stays", "unseen"):
            assert world.labels_of(plural, name) == {labels.NODEPOOL: "pool", **RESERVED}


async def test_aws126_one_description_without_the_reservation_is_not_enough() -> None:
    """EC2 is eventually consistent: the next description may have the reservation again."""
    world = World()
    world.node("node", RESERVED)
    for result in ("", "cr-1", "", "cr-1"):
        world.in_reservation = {"i-node": result}
        await world.relabel()
        world.now += timedelta(minutes=1)
    assert world.labels_of("nodeclaims", "node")[labels.CAPACITY_TYPE] == "reserved"
    world.in_reservation = {"i-node": ""}
    await world.relabel()
    world.now += timedelta(seconds=1)
    await world.relabel()
    assert world.labels_of("nodeclaims", "node")[labels.CAPACITY_TYPE] == "reserved"
    world.now += timedelta(seconds=14)
    await world.relabel()
    assert world.labels_of("nodeclaims", "node")[labels.CAPACITY_TYPE] == "on-demand"


async def test_act13_without_reserved_nodes_ec2_is_not_asked() -> None:
    world = World()
    world.node("bought", {labels.CAPACITY_TYPE: "on-demand"})
    await world.relabel()
    assert world.requests == []


@pytest.mark.parametrize(
    ("kind", "minutes", "block", "expected"),
    [
        (BLOCK, 39, "cr-1", ["node"]),
        (BLOCK, 41, "cr-1", []),
        (BLOCK, 39, "cr-2", []),
        (RESERVED, 5, "cr-1", []),
    ],
    ids=["ends soon", "has time", "another block", "on-demand reservation"],
)
async def test_act14_aws124_nodes_leave_before_their_capacity_block_ends(
    kind: dict[str, str], minutes: int, block: str, expected: list[str]
) -> None:
    world = World()
    world.node("node", kind)
    await world.expire(minutes, block)
    assert world.leaving() == expected
    assert world.recorder.reasons() == ["CapacityReservationExpiring" for _ in expected]


async def test_act14_a_claim_that_lost_its_finalizer_gets_it_before_it_is_deleted() -> None:
    """Without it the claim would be gone at once, and nothing would drain its node."""
    world = World()
    world.node("node", BLOCK, finalizers=())
    await world.expire(39)
    assert world.leaving() == ["node"]
    metadata_ = world.kube.objects["nodeclaims", "", "node"]["metadata"]
    assert metadata_["finalizers"] == [labels.TERMINATION_FINALIZER]
    (why,) = recorded(metadata_["annotations"])
    assert (why.reason, why.detail) == ("capacity_reservation_expiring", "capacity block cr-1 ends soon")
    assert why.actor == "controller capacityreservation.expiration"


class Counting:
    """How often the places had to be counted again."""

    def __init__(self) -> None:
        self.times = 0

    def count_places(self) -> None:
        self.times += 1


async def test_n15_408_places_are_counted_again_when_a_node_of_a_reservation_is_gone() -> None:
    cache, counting = Cache(), Counting()
    controller = FreedPlacesController(cache, counting)
    for name, kind in (("held", RESERVED), ("bought", {labels.CAPACITY_TYPE: "spot"})):
        cache.publish(claim(name, meta={"labels": {labels.NODEPOOL: "pool", **kind}}))
    await controller.reconcile([])
    assert counting.times == 0
    cache.claims.on_event("bought", None)
    await controller.reconcile([])
    assert counting.times == 0, "it had no place"
    cache.claims.on_event("held", None)
    for _ in range(2):
        await controller.reconcile([])
        assert counting.times == 1
