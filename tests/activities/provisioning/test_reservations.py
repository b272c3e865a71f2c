"""Batches that take places in capacity reservations, one after another, while EC2's count stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from activities.provisioning.batching import MAX_RETRY
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.provisioning import PlanInput
from tenon.scheduling.model import InstanceType
from tenon.simulation.decisions import PlanQuestion, decide
from tenon.simulation.model_after import model_after
from tests.activities.provisioning.fake_view import START, FakeTypes, node_class
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import ZONES, asking, catalog, entry, need, pod


class CountedTypes(FakeTypes):
    """m5.large, with places in a reservation as EC2 counted them at the start."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        hold = entry("m5.large", 2, 8, 0.1)
        hold["offerings"].append(
            {
                "zone": ZONES[0],
                "capacityType": "reserved",
                "price": 1e-8,
                "reservationId": "cr-1",
                "reservationCapacity": self.places,
            }
        )
        (kind,) = catalog(hold)
        counted = START.timestamp()
        return [replace(kind, offerings=tuple(replace(offering, counted_at=counted) for offering in kind.offerings))]


def reserving(*names: str, places: int) -> Setting:
    """A planner with a pod for each name, each as large as a node."""
    at = Setting(*(pod(name, cpu="1500m") for name in names))
    at.types = CountedTypes(places)
    at.restart()
    return at


def written(at: Setting) -> list[str]:
    """The capacity types of the NodeClaims, in the order of their batches. The view shows them as they are written."""
    bodies = sorted(at.kube.objects.values(), key=lambda body: int(body["metadata"]["labels"][labels.BATCH]))
    for body in bodies:
        at.view.claims[body["metadata"]["name"]] = ClaimRecord.of(body)
    return [
        next(term["values"][0] for term in body["spec"]["requirements"] if term["key"] == labels.CAPACITY_TYPE)
        if labels.RESERVATION_ID in body["metadata"]["labels"]
        else "bought"
        for body in bodies
    ]


async def test_sch094_a_batch_counts_the_places_that_earlier_batches_took() -> None:
    at = reserving("a", places=2)
    await at.planner.plan(BATCH)
    assert written(at) == ["reserved"]
    for number, name in enumerate("bc", start=BATCH.batch + 1):
        at.view.add(pod(name, cpu="1500m"))
        await at.planner.plan(PlanInput(cluster="c", batch=number))
        written(at)
    assert written(at) == ["reserved", "reserved", "bought"]


async def test_sch094_pods_of_one_batch_share_the_places() -> None:
    at = reserving("a", "b", "c", places=2)
    await at.planner.plan(BATCH)
    assert sorted(written(at)) == ["bought", "reserved", "reserved"]


async def test_pods_that_insist_on_a_reservation_are_planned_again_when_ec2_counts_again() -> None:
    """Places become free without any change in the cluster."""
    at = Setting(asking("a", need(labels.CAPACITY_TYPE, "In", "reserved"), cpu="1500m"))
    at.types = CountedTypes(0)
    at.restart()
    assert (await at.planner.plan(BATCH)).unschedulable == 1
    assert at.batcher.undecided() == []
    at.now = START + MAX_RETRY + timedelta(seconds=1)
    assert len(at.batcher.undecided()) == 1


def test_sch094_simulated_disruption_counts_the_places_that_the_plan_takes() -> None:
    """`tenon simulate --disruption` carries out the plan for pods first, and its new nodes use these places."""
    at = reserving("a", "b", places=1)
    question = PlanQuestion(at.view.pending_pods(), at.types.instance_types(node_class(), frozenset()))
    plan = decide(at.view, question, lambda: 0.0).plan
    model = model_after(plan, at.view, question, lambda _: {})
    assert sorted(claim.offering.capacity_type for claim in plan.claims) == ["reserved", "spot"]
    assert [pool.usage["capacity-reservation/cr-1"] for pool in model.problem.pools] == [1]
