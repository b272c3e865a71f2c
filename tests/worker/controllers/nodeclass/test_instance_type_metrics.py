"""The gauges of instance types and offerings (ACT-16, MET-50, MET-51), as Prometheus reads them from a worker."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from activities.clock import utc_now
from activities.ec2.errors import EC2Error
from activities.metrics import POOL_COST, POOL_PRICE, TEXT_SUFFIX
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels, warm
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.types.instance_types import without
from tenon.kube.decode import decode_object
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.model import InstanceType
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.scheduling.builders import catalog, entry
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.nodeclass import instance_type_metrics
from worker.controllers.nodeclass.instance_type_metrics import SOON, InstanceTypeMetricsController, measured
from worker.controllers.nodepool.prices import PoolPrices
from worker.runtime.health import serve_metrics

pytestmark = pytest.mark.integration

CPU = "karpenter_cloudprovider_instance_type_cpu_cores"
MEMORY = "karpenter_cloudprovider_instance_type_memory_bytes"
AVAILABLE = "karpenter_cloudprovider_instance_type_offering_available"
PRICE = "karpenter_cloudprovider_instance_type_offering_price_estimate"
ZONES = ["us-west-2a", "us-west-2b"]
GIB8 = {"karpenter.k8s.aws/instance-memory": ["8192"]}
TYPES = catalog(
    entry("c5.xlarge", 4, 7, 0.17, zones=ZONES, requirements=GIB8),
    entry("m5.large", 2, 7, 0.1, zones=ZONES, requirements=GIB8),
)
"""Of 8 GiB, of which nodes get less."""
DEDICATED_TYPES = catalog(entry("m5.large", 2, 7, 0.11, zones=ZONES, requirements=GIB8))
MINUTE = 61.0


class SoldTypes(FakeTypes):
    """`TYPES`, and what changes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.types: Sequence[InstanceType] = TYPES
        self.unreadable: set[str] = set()
        """EC2NodeClasses of which EC2 does not say the types."""

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        self.on_read()
        if node_class.metadata.name in self.unreadable:
            raise EC2Error("InternalError", "no", operation="DescribeInstanceTypes")
        return without(DEDICATED_TYPES if dedicated else self.types, unavailable)


class World:
    """A leader's controller, and the metrics that its worker serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.types, self.refusals, self.cache = SoldTypes(), LaunchRefusals(), Cache()
        view = PlanningView(self.cache)
        self.pool_prices = PoolPrices()
        self.controller = InstanceTypeMetricsController(
            self.cache, view, self.types, self.refusals, folder, self.pool_prices
        )

    def with_pool(
        self, name: str = "default", replicas: int | None = None, requirements: Sequence[dict[str, Any]] = ()
    ) -> World:
        """A usable NodePool exists, with a class of its name."""
        ready = {**EC2NODECLASS, "metadata": metadata(name), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event(name, decode_object(json.dumps(ready).encode()))
        pool = {**copy.deepcopy(NODEPOOL), "metadata": metadata(name, generation=1)}
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
        pool["spec"]["template"]["spec"]["requirements"] += requirements
        if replicas is not None:
            pool["spec"]["replicas"] = replicas
        self.cache.pools.on_event(name, decode_object(json.dumps(pool).encode()))
        return self

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        async with in_background(self.controller.run()):
            await asyncio.sleep(1)
            yield

    def launched(
        self,
        name: str,
        offering: tuple[str, str, str],
        provider: str,
        pool: str = "default",
        annotations: dict[str, str] | None = None,
    ) -> None:
        """A NodeClaim of the NodePool; without ``provider`` it is not launched."""
        keys = (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE, labels.ZONE)
        meta = {
            "labels": {labels.NODEPOOL: pool, **dict(zip(keys, offering, strict=True))},
            "annotations": annotations or {},
        }
        self.cache.publish(claim(name, meta=meta, status={"providerID": provider}))

    def prices(self) -> dict[tuple[str, ...], float]:
        """The price of an hour by NodePool and capacity type."""
        (metric,) = [family for family in self._families() if family.name == POOL_PRICE.name]
        return {tuple(sample.labels[label] for label in POOL_PRICE.labels): sample.value for sample in metric.samples}

    def scraped_samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The labels and the value of each series of a metric."""
        (metric,) = [family for family in self._families() if family.name in (name, name.removesuffix("_total"))]
        return [(sample.labels, sample.value) for sample in metric.samples]

    def scraped(self) -> dict[str, dict[tuple[str, ...], float]]:
        order = ("instance_type", "capacity_type", "zone")
        return {
            family.name: {
                tuple(sample.labels[key] for key in order if key in sample.labels): sample.value
                for sample in family.samples
            }
            for family in self._families()
            if "instance_type" in family.name
        }

    def _families(self) -> list[Metric]:
        server = serve_metrics(str(self.folder), 0)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/metrics") as answer:
                return list(text_string_to_metric_families(answer.read().decode()))
        finally:
            server.shutdown()
            server.server_close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path).with_pool()


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_met50_met51_size_price_and_availability_are_served(world: World) -> None:
    async with world.leading():
        result = world.scraped()
    assert result[CPU] == {("m5.large",): 2, ("c5.xlarge",): 4}
    assert result[MEMORY] == {("m5.large",): 8 * 2**30, ("c5.xlarge",): 8 * 2**30}
    assert result[PRICE] == {
        (name, capacity_type, zone): price
        for name, capacity_type, price in (
            ("m5.large", "spot", 0.04),
            ("m5.large", "on-demand", 0.1),
            ("c5.xlarge", "spot", 0.068),
            ("c5.xlarge", "on-demand", 0.17),
        )
        for zone in ZONES
    }
    assert result[AVAILABLE] == dict.fromkeys(result[PRICE], 1.0)


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_n15_052_a_class_whose_types_cannot_be_read_hides_no_other(world: World) -> None:
    world.with_pool("other").types.unreadable.add("other")
    async with world.leading():
        assert world.scraped()[CPU] == {("m5.large",): 2, ("c5.xlarge",): 4}


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_n15_052_a_class_that_is_deleted_while_the_types_of_others_are_read_hides_none(world: World) -> None:
    world.with_pool("other").with_pool("retired").types.unreadable.add("other")
    reads = 0

    def delete_at_third_read() -> None:
        nonlocal reads
        reads += 1
        if reads == 3:  # that of "default" again, after the first attempt to read all of them ended at "other"
            world.cache.nodeclasses.on_event("retired", None)

    world.types.on_read = delete_at_third_read
    async with world.leading():
        assert world.scraped()[CPU] == {("m5.large",): 2, ("c5.xlarge",): 4}
    assert reads == 4, "default and other, twice"


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_act16_they_follow_within_a_minute(world: World) -> None:
    """What EC2 refuses is not available, and what it no longer offers has no series."""
    async with world.leading():
        refused = OfferingKey.refusable("spot", "m5.large", ZONES[0])
        world.refusals.replace_unavailable({refused: Backoff(utc_now() + timedelta(hours=1))})
        await asyncio.sleep(MINUTE)
        result = world.scraped()[AVAILABLE]
        assert [place for place, value in result.items() if value == 0] == [("m5.large", "spot", ZONES[0])]
        world.types.types = TYPES[:1]
        await asyncio.sleep(MINUTE)
        assert {name for name, _, _ in world.scraped()[AVAILABLE]} == {TYPES[0].name}


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_act16_a_former_leader_exports_none_of_them(world: World) -> None:
    async with world.leading():
        assert list(world.folder.glob(f"*{TEXT_SUFFIX}"))
    assert world.scraped() == {}
    async with world.leading():
        assert world.scraped()[CPU]


@pytest.mark.asyncio(loop_scope="function")
async def test_act16_a_thread_that_outlives_the_leadership_exports_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, leads_no_more = threading.Event(), threading.Event()

    def slow_text(_: object) -> str:
        writing.set()
        assert leads_no_more.wait(60)
        return ""

    monkeypatch.setattr(instance_type_metrics, "text_of", slow_text)
    async with in_background(world.controller.run()):
        assert await asyncio.to_thread(writing.wait, 60)
    leads_no_more.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert list(world.folder.iterdir()) == []


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_act16_the_first_usable_pool_is_not_waited_for_a_minute(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.leading():
        assert world.scraped()[CPU] == {}
        world.with_pool()
        await asyncio.sleep(SOON + 1)
        assert world.scraped()[CPU]


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_the_price_of_an_hour_of_each_pools_instances_is_served(world: World) -> None:
    """Instances of a type that is not sold any more have no price. A claim that is not launched costs nothing."""
    for name, offering, provider in (
        ("a", ("m5.large", "spot", ZONES[0]), "aws:///us-west-2a/i-1"),
        ("b", ("c5.xlarge", "spot", ZONES[1]), "aws:///us-west-2b/i-2"),
        ("c", ("m5.large", "on-demand", ZONES[1]), "aws:///us-west-2b/i-3"),
        ("d", ("m3.large", "on-demand", ZONES[1]), "aws:///us-west-2b/i-4"),
        ("e", ("c5.xlarge", "spot", ZONES[1]), ""),
    ):
        world.launched(name, offering, provider)
    async with world.leading():
        prices = world.prices()
        costs = world.scraped_samples(POOL_COST.name)
    assert [(row["nodepool"], round(cost, 6)) for row, cost in costs] == [("default", 0.208)], "MET-19: of all types"
    assert prices == {("default", "spot"): pytest.approx(0.108), ("default", "on-demand"): pytest.approx(0.1)}
    assert world.pool_prices.change("default", "") == "0.2080", "and the status of the NodePool says it"


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_stopped_warm_node_costs_nothing(world: World) -> None:
    for name, state in (("a", warm.STOPPED), ("b", warm.STARTING)):
        world.launched(
            name, ("m5.large", "on-demand", ZONES[0]), f"aws:///us-west-2a/{name}", annotations={labels.WARM: state}
        )
    async with world.leading():
        assert world.prices() == {("default", "on-demand"): pytest.approx(0.1)}
    assert world.pool_prices.of("default") == pytest.approx(0.1)


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("launch_price", "price"), [("0.07", 0.07), ("", 0.1)], ids=["at launch", "as others can buy it"]
)
async def test_nodes_of_a_pool_that_launches_none_now_have_a_price(
    world: World, launch_price: str, price: float
) -> None:
    """Such as one that a NodeSchedule closes, or whose EC2NodeClass is not Ready."""
    annotations = {labels.LAUNCH_PRICE: launch_price}
    world.launched("a", ("m5.large", "on-demand", ZONES[0]), "aws:///us-west-2a/i-1", "closed", annotations)
    async with world.leading():
        assert world.prices() == {("closed", "on-demand"): pytest.approx(price)}


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_nodes_of_a_static_pool_have_a_price(tmp_path: Path) -> None:
    world = World(tmp_path).with_pool(replicas=1)
    world.launched("a", ("m5.large", "on-demand", ZONES[0]), "aws:///us-west-2a/i-1")
    async with world.leading():
        assert world.prices() == {("default", "on-demand"): pytest.approx(0.1)}


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_each_pool_counts_at_its_own_prices(world: World) -> None:
    """A NodePool of dedicated instances pays more than another one for the same types."""
    world.with_pool("dedicated", requirements=[{"key": labels.TENANCY, "operator": "In", "values": ["dedicated"]}])
    for name in ("default", "dedicated"):
        world.launched(name, ("m5.large", "on-demand", ZONES[0]), f"aws:///us-west-2a/{name}", name)
    async with world.leading():
        assert world.prices() == {
            ("default", "on-demand"): pytest.approx(0.1),
            ("dedicated", "on-demand"): pytest.approx(0.11),
        }


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_no_price_is_told_while_the_types_of_a_class_cannot_be_read(world: World) -> None:
    """Its nodes would count as free."""
    world.with_pool("other").types.unreadable.add("default")
    async with world.leading():
        assert world.pool_prices.change("default", "") is None


def test_met51_an_offering_without_a_price_is_not_available() -> None:
    (kind,) = catalog(entry("m5.large", 2, 8, 0.096, zones=ZONES[:1]))
    unpriced = replace(kind, offerings=tuple(replace(offering, price=inf) for offering in kind.offerings))
    gauges = {gauge.name: series for gauge, series in measured([[unpriced]]).items()}
    assert gauges[PRICE] == {}
    assert set(gauges[AVAILABLE].values()) == {0}
    gauges = {gauge.name: series for gauge, series in measured([[unpriced], [kind]]).items()}
    assert set(gauges[AVAILABLE].values()) == {1}
