"""Capacity reservations, from the EC2NodeClass that selects them to the node whose reservation ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.account import aws
from tests.e2e.conftest import MakePool
from tests.e2e.pools import WITHIN, Pool, condition
from tests.workflows.waiting import until

KIND, ZONE = "m5.large", "us-west-2a"
TEAM = "e2e-reservations"
ANY = [
    {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [KIND]},
    {"key": labels.ZONE, "operator": "In", "values": [ZONE]},
]


class Reserving:
    """A NodePool that may use a reservation, which its EC2NodeClass selects by tags."""

    def __init__(self, sandbox: Sandbox, pool: Pool, reservation: str) -> None:
        self.sandbox, self.pool, self.reservation = sandbox, pool, reservation

    async def kinds(self) -> list[str]:
        return sorted(claim["metadata"]["labels"].get(labels.CAPACITY_TYPE, "") for claim in await self.pool.claims())

    def left(self) -> int:
        """The free places, as EC2 counts them."""
        reservations = [self.reservation]
        describe_capacity_reservations = aws(self.sandbox, "ec2").describe_capacity_reservations(
            CapacityReservationIds=reservations
        )
        return int(describe_capacity_reservations["CapacityReservations"][0]["AvailableInstanceCount"])


@pytest_asyncio.fixture(loop_scope="session")
async def reserving(make_pool: MakePool, sandbox: Sandbox, kube: Kube) -> AsyncIterator[Reserving]:
    """One place is reserved. Nothing is disrupted of itself."""
    name = sandbox.ec2().reserve(KIND, ZONE, 1, tags={"team": TEAM})
    terms = [{"tags": {"team": TEAM}}]
    pool = await make_pool(
        requirements=ANY,
        consolidate_after="Never",
        budgets=[{"nodes": "0"}],
        capacity_types=["reserved", "spot", "on-demand"],
        capacityReservationSelectorTerms=terms,
    )

    async def listed() -> bool:
        node_class = await kube.get(EC2NODECLASSES, pool.name)
        return [
            capacity_reservation["id"]
            for capacity_reservation in ((node_class or {}).get("status") or {}).get("capacityReservations") or []
        ] == [name]

    await until(listed, within=WITHIN)
    yield Reserving(sandbox, pool, name)
    sandbox.ec2().end_reservation(name)


async def test_sch094_aws111_aws123_aws126_act13_a_place_is_used_and_its_end_is_drift(
    reserving: Reserving, sandbox: Sandbox, kube: Kube
) -> None:
    """LBL-02, ALB-19, DIS-74: two pods, one place: the second node is bought; then the reservation is cancelled."""
    pool = reserving.pool
    node_class = await kube.get(EC2NODECLASSES, pool.name)
    assert condition(node_class, "CapacityReservationsReady")["status"] == "True"

    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances(claim["metadata"]["name"])
    described = aws(sandbox, "ec2").describe_instances(InstanceIds=[instance["id"]])["Reservations"][0]["Instances"][0]
    assert described["CapacityReservationId"] == reserving.reservation
    assert reserving.left() == 0
    node = await kube.get(NODES, claim["status"]["nodeName"])
    assert node is not None
    for item in (claim, node):
        present = item["metadata"]["labels"]
        assert present[labels.CAPACITY_TYPE] == "reserved"
        assert present[labels.RESERVATION_ID] == reserving.reservation
        assert present[labels.RESERVATION_TYPE] == "default"
        assert present[labels.RESERVATION_INTERRUPTIBLE] == "false"
    explained = claim["metadata"]["annotations"][labels.EXPLANATION]
    assert f"reservation {reserving.reservation} is paid for already" in explained

    await pool.scale(2)
    await pool.running(2)
    await pool.settled(2)
    assert await reserving.kinds() == ["reserved", "spot"]
    assert condition(claim, "Drifted") == {}

    sandbox.ec2().end_reservation(reserving.reservation)
    patch = {"spec": {"capacityReservationSelectorTerms": [{"tags": {"team": TEAM}}, {"tags": {"team": "none"}}]}}
    await kube.patch(EC2NODECLASSES, pool.name, patch)

    async def drifted() -> bool:
        present = {c["metadata"]["name"]: c for c in await pool.claims()}[claim["metadata"]["name"]]
        return condition(present, "Drifted").get("reason") == "CapacityReservationDrift"

    await until(drifted, within=WITHIN)

    async def demoted() -> bool:
        present = {c["metadata"]["name"]: c for c in await pool.claims()}[claim["metadata"]["name"]]
        node = await kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        presents = [present["metadata"]["labels"] for present in (present, node)]
        return all(
            entry.get(labels.CAPACITY_TYPE) == "on-demand" and labels.RESERVATION_ID not in entry for entry in presents
        )

    await until(demoted, within=WITHIN)
    await until(drifted, within=WITHIN)
    (still,) = pool.instances(claim["metadata"]["name"])
    assert still["state"] == "running", "its instance goes on, at the on-demand price"


async def test_aws045_a_place_that_somebody_else_took_is_avoided(
    reserving: Reserving, sandbox: Sandbox, kube: Kube
) -> None:
    """EC2's count is a minute old: the launch finds the reservation full, and the pod gets another node at once."""
    plant_instance = sandbox.ec2().plant_instance(
        {"Name": "other"}, type=KIND, zone=ZONE, reservation=reserving.reservation
    )
    await reserving.pool.deploy(1)
    await reserving.pool.running(1)
    await reserving.pool.settled(1)
    assert await reserving.kinds() == ["spot"]
    sandbox.ec2().kill_instance(plant_instance)
