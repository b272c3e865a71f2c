"""The types of a claim at its launch, as NodeOverlays want them seen (NO-08, NO-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES, NODEOVERLAYS, NODEPOOLS, Resource
from activities.node.overlays import OverlaidTypes
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.claim_record import ClaimRecord
from tenon.scheduling.model import InstanceType
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.activities.provisioning.fake_view import READY, node_class
from tests.tenon.apis.case import EC2NODECLASS, NODECLAIM, NODEPOOL, edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.tenon.scheduling.builders import catalog, entry

TYPES = catalog(entry("m5.large", 2, 8, 0.1, zones=["a"]), entry("c5.large", 2, 4, 0.08, zones=["a"]))
M5 = next(kind for kind in TYPES if kind.name == "m5.large")
PREVIEW = replace(M5, name="x9.large", offerings=tuple(replace(o, price=inf) for o in M5.offerings))


class Ec2:
    """The types of every class."""

    def instance_types(
        self, node_class: EC2NodeClass, *, unpriced: bool = False, dedicated: bool = False
    ) -> Sequence[InstanceType]:
        return [*TYPES, PREVIEW] if unpriced else TYPES


class Server(FakeKube):
    """An API server that counts lists; ``during`` happens while the first of them is made."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.lists = 0
        self.during: Callable[[], None] | None = None
        self.fault: ApiError | None = None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
    ) -> list[dict[str, Any]]:
        self.lists += 1
        result = await super().list(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            resource_version=resource_version,
        )
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        if during := self.during:
            self.during = None
            during()
        return result


class World:
    def __init__(self) -> None:
        self.kube = Server(Clock())
        self.types = OverlaidTypes(cast("Any", self.kube), cast("Any", Ec2()))
        ready = {**EC2NODECLASS, "metadata": {"name": "default"}, "status": {"conditions": [READY]}}
        self.kube.add(EC2NODECLASSES, ready)
        self.kube.add(NODEPOOLS, {**NODEPOOL, "metadata": {"name": "default"}})

    def overlay(self, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
        manifest = edited(BASE, {"requirements": list(requirements), **spec})
        self.kube.add(NODEOVERLAYS, {**manifest, "metadata": {"name": name}})

    async def prices(self, *traces: str, pool: str = "default") -> dict[str, float]:
        """On-demand prices as a claim of the pool with these annotations sees them."""
        marks = {"labels": {labels.NODEPOOL: pool}, "annotations": dict.fromkeys(traces, "true")}
        claim = {**NODECLAIM, "metadata": {"name": "c", **marks}}
        types = await self.types.of(ClaimRecord.of(claim), node_class())
        return {kind.name: o.price for kind in types for o in kind.offerings if o.capacity_type == "on-demand"}


async def test_a_claim_without_a_trace_sees_the_types_as_ec2_describes_them() -> None:
    """And nothing is read for it."""
    at = World()
    at.overlay("o", price="7")
    at.kube.objects.clear()
    assert await at.prices() == {"m5.large": 0.1, "c5.large": 0.08}


@pytest.mark.parametrize("trace", [labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED])
async def test_a_claim_with_a_trace_sees_what_its_plan_saw(trace: str) -> None:
    at = World()
    at.overlay("o", term("karpenter.k8s.aws/instance-family", "In", "m5"), price="0.01")
    assert await at.prices(trace) == {"m5.large": 0.01, "c5.large": 0.08, "x9.large": 0.01}


async def test_an_overlay_that_does_not_hold_is_not_believed_at_a_launch_either() -> None:
    """NO-06: of two equals the later one is refused, over all NodePools together; so is one of another pool."""
    at = World()
    at.kube.add(NODEPOOLS, {**NODEPOOL, "metadata": {"name": "other"}})
    at.overlay("z", term(labels.NODEPOOL, "In", "other"), price="3")
    at.overlay("a", price="5")
    assert await at.prices(labels.PRICE_OVERLAY_APPLIED) == {"m5.large": 0.1, "c5.large": 0.08}
    assert set((await at.prices(labels.PRICE_OVERLAY_APPLIED, pool="other")).values()) == {3.0}


async def test_a_static_pool_is_seen_with_its_overlays_too() -> None:
    at = World()
    at.kube.add(NODEPOOLS, {**edited(NODEPOOL, {"replicas": 1}), "metadata": {"name": "static"}})
    at.overlay("o", term(labels.NODEPOOL, "In", "static"), price="4")
    assert set((await at.prices(labels.PRICE_OVERLAY_APPLIED, pool="static")).values()) == {4.0}


async def test_no06_a_conflict_in_a_static_pool_refuses_an_overlay_at_every_launch() -> None:
    """As in plans, and as the condition of the overlay says."""
    at = World()
    for name in ("static", "other-static"):
        at.kube.add(NODEPOOLS, {**edited(NODEPOOL, {"replicas": 1}), "metadata": {"name": name}})
    at.overlay("z", term(labels.NODEPOOL, "In", "static"), price="3")
    at.overlay("a", price="5")
    for pool in ("default", "other-static"):
        assert await at.prices(labels.PRICE_OVERLAY_APPLIED, pool=pool) == {"m5.large": 0.1, "c5.large": 0.08}
    assert set((await at.prices(labels.PRICE_OVERLAY_APPLIED, pool="static")).values()) == {3.0}


async def test_a_burst_of_launches_reads_the_cluster_twice_at_most() -> None:
    """NO-08: each launch for itself would read and compare for minutes, and none be done in time."""
    at = World()
    at.kube.add(NODEPOOLS, {**edited(NODEPOOL, {"replicas": 1}), "metadata": {"name": "static"}})
    at.overlay("o", term("karpenter.k8s.aws/instance-family", "In", "m5"), price="0.01")
    pools = [("default", "static", "gone")[number % 3] for number in range(60)]
    observations = await asyncio.gather(*(at.prices(labels.PRICE_OVERLAY_APPLIED, pool=pool) for pool in pools))
    assert {pool: prices["m5.large"] for pool, prices in zip(pools, observations, strict=True)} == {
        "default": 0.01,
        "static": 0.01,
        "gone": 0.1,
    }
    assert at.kube.lists <= 2 * 3


async def test_a_launch_uses_the_current_overlays_although_another_was_answered() -> None:
    at = World()
    at.overlay("o", price="1")
    late: list[asyncio.Task[dict[str, float]]] = []

    def meanwhile() -> None:
        at.overlay("o", price="2")
        late.append(asyncio.create_task(at.prices(labels.PRICE_OVERLAY_APPLIED)))

    at.kube.during = meanwhile
    first = await at.prices(labels.PRICE_OVERLAY_APPLIED)
    assert (first["m5.large"], (await late[0])["m5.large"]) == (1.0, 2.0)


async def test_a_failed_answer_does_not_fail_later_questions() -> None:
    at = World()
    at.overlay("o", price="1")
    at.kube.fault = ApiError(503, "ServiceUnavailable", "away")
    prices = [at.prices(labels.PRICE_OVERLAY_APPLIED) for _ in range(3)]
    assert [type(answer) for answer in await asyncio.gather(*prices, return_exceptions=True)] == [ApiError] * 3
    at.kube.fault = None
    assert (await at.prices(labels.PRICE_OVERLAY_APPLIED))["m5.large"] == 1.0
