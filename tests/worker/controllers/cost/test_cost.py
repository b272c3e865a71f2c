"""The leader samples who causes the cost of nodes, and records it; the gauges have a bounded number of series."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activities.ec2.errors import EC2Error
from activities.metrics import COST_BY_KIND, COST_BY_NAMESPACE, COST_BY_WORKLOAD, COST_LOWER_BOUND, TEXT_SUFFIX
from tenon.apis import labels
from tenon.cost.sampling import OTHERS
from tenon.cost.split import Consumer, ConsumerKind
from tenon.kube.decode import decode_node
from tenon.money import nanos
from tenon.record.entries import CostEntry
from tenon.resources import Resources
from tests.activities.record.kept import KeptRecord
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, owned_by, running
from tests.worker.fake_temporal import Cache
from worker.controllers.cost import sampling
from worker.controllers.cost.gauges import MAX_NAMESPACES, MAX_WORKLOADS, cost_texts
from worker.controllers.cost.sampling import CostController, LatestCost

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PRICES = {("m5.large", "spot"): 0.06, ("m5.large", "on-demand"): 0.12}
GIB = 2**30


class World:
    """A leader's controller on a cache whose clock is that of the event loop."""

    def __init__(self, folder: Path, length: timedelta = timedelta(minutes=15)) -> None:
        self.cache, self.record = Cache(), KeptRecord()
        self.headroom: Mapping[str, Resources] = {}
        self.latest = LatestCost()
        self.file = folder / f"cost{TEXT_SUFFIX}"
        self.controller = CostController(
            self.cache,
            lambda kind, _zone, capacity_type, _tenancy: PRICES.get((kind, capacity_type), 0.0),
            lambda: self.headroom,
            self.record,
            "test",
            length,
            folder,
            self.compute_bound,
            self.latest,
        )
        self.bound: float | None = None
        self.bound_error: Exception | None = None

    async def compute_bound(self) -> float | None:
        if self.bound_error is not None:
            raise self.bound_error
        return self.bound

    @asynccontextmanager
    async def leading(self, begin: datetime = NOON) -> AsyncIterator[None]:
        clock, start = asyncio.get_running_loop().time, asyncio.get_running_loop().time()
        self.cache.clock = lambda: begin.timestamp() + clock() - start
        async with in_background(self.controller.run()):
            await asyncio.sleep(0.5)
            yield

    def node(self, name: str, *, pool: str = "default", capacity_type: str = "spot", joined: bool = True) -> None:
        """An instance of 2 CPU with 4 GiB."""
        marks = {labels.NODEPOOL: pool, labels.INSTANCE_TYPE: "m5.large", labels.CAPACITY_TYPE: capacity_type}
        provider_id = f"aws:///us-west-2a/i-{name}"
        self.cache.publish(claim(f"claim-{name}", meta={"labels": marks}, status={"providerID": provider_id}))
        if joined:
            sizes = {"cpu": "2", "memory": "4Gi", "pods": "10"}
            body = {
                "metadata": metadata(name, labels=marks),
                "spec": {"providerID": provider_id},
                "status": {"capacity": sizes, "allocatable": sizes},
            }
            self.cache.publish(decode_node(json.dumps(body).encode()))

    def pod(self, name: str, node: str, namespace: str, **options: Any) -> None:
        meta = {"namespace": namespace, **options.pop("meta", {})}
        record = running(name, node, cpu="1", meta=meta, **options)
        self.cache.pods.on_event(record.key, record)

    def entries(self) -> list[CostEntry]:
        return [entry for entry in self.record.entries if isinstance(entry, CostEntry)]

    def gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        return read("".join(self.file.read_text()))


def read(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def rows_of(entry: CostEntry) -> dict[tuple[str, str, str, str], float]:
    return {(row.pool, row.of, row.namespace, row.workload): row.cost for row in entry.rows}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_an_interval_is_one_entry_with_who_requested_what(world: World) -> None:
    """A node of 2 CPU with 4 GiB weighs 22: a pod of a CPU is 9 of it."""
    world.node("a")
    world.pod("web", "a", "shop")
    async with world.leading():
        await asyncio.sleep(15 * 60 + 30)
        (entry,) = world.entries()
    assert (entry.since, entry.cluster) == (NOON, "test")
    assert entry.samples >= 14
    assert abs(entry.at - (NOON + timedelta(minutes=15))) < timedelta(seconds=15)
    quarter = 0.06 * (entry.at - entry.since) / timedelta(hours=1)
    assert rows_of(entry) == {
        ("default", "pods", "shop", ""): pytest.approx(quarter * 9 / 22),
        ("default", "idle", "", ""): pytest.approx(quarter * 13 / 22),
    }
    assert entry.cost == pytest.approx(quarter)


async def test_a_pod_counts_for_the_samples_that_saw_it(world: World) -> None:
    world.node("a")
    async with world.leading():
        await asyncio.sleep(5 * 60)
        world.pod("web", "a", "shop")
        await asyncio.sleep(5 * 60)
        world.cache.pods.on_event("shop/web", None)
        await asyncio.sleep(6 * 60)
    first = world.entries()[0]
    third = 0.06 * 5 / 60 * 9 / 22
    assert rows_of(first)["default", "pods", "shop", ""] == pytest.approx(third, rel=0.01)


async def test_daemons_headroom_and_starting_nodes_are_named_apart(world: World) -> None:
    world.node("a", capacity_type="on-demand")
    world.node("b", joined=False)
    world.pod("log", "a", "kube-system", meta=owned_by("DaemonSet"))
    world.headroom = {"a": {"memory": 2 * GIB}}
    async with world.leading():
        gauges = world.gauges()
    assert gauges[COST_BY_KIND.name] == {
        ("default", "daemons"): pytest.approx(0.12 * 9 / 22, abs=1e-9),
        ("default", "headroom"): pytest.approx(0.12 * 2 / 22, abs=1e-9),
        ("default", "idle"): pytest.approx(0.12 * 11 / 22, abs=1e-9),
        ("default", "starting"): pytest.approx(0.06),
    }
    assert gauges[COST_BY_NAMESPACE.name].keys() == {("kube-system",)}
    assert gauges[COST_BY_WORKLOAD.name].keys() == {("kube-system", "DaemonSet/o")}


async def test_a_leader_that_ends_records_the_interval_that_has_begun_and_its_gauges_go(world: World) -> None:
    world.node("a")
    async with world.leading(NOON + timedelta(minutes=7)):
        await asyncio.sleep(2 * 60 + 30)
        assert world.file.exists()
        assert world.entries() == []
    (entry,) = world.entries()
    assert entry.since == NOON + timedelta(minutes=7)
    assert entry.samples == 2
    assert not world.file.exists()


async def test_intervals_end_at_the_same_times_in_all_replicas(world: World) -> None:
    world.node("a")
    async with world.leading(NOON + timedelta(minutes=7)):
        await asyncio.sleep(25 * 60)
    first, second, *_ = world.entries()
    assert first.at == second.since
    assert timedelta() <= first.at - (NOON + timedelta(minutes=15)) < timedelta(seconds=5)
    assert timedelta() <= second.at - (NOON + timedelta(minutes=30)) < timedelta(seconds=5)


async def test_time_in_which_the_machine_slept_is_not_counted(world: World) -> None:
    world.node("a")
    async with world.leading():
        await asyncio.sleep(3 * 60)
        slept = world.cache.clock
        world.cache.clock = lambda: slept() + 7200
        await asyncio.sleep(20 * 60)
    first, second, *_ = world.entries()
    assert first.at - first.since < timedelta(minutes=5)
    assert second.since - first.at > timedelta(hours=1)


async def test_the_lower_bound_is_recorded_and_exported_once_it_is_known(world: World) -> None:
    world.node("a")
    async with world.leading():
        assert world.gauges()[COST_LOWER_BOUND.name] == {}
        world.bound = 0.0421
        await asyncio.sleep(17 * 60)
        assert world.gauges()[COST_LOWER_BOUND.name] == {(): 0.0421}
        world.bound_error = EC2Error("InternalError", "no", operation="DescribeInstanceTypes")
        await asyncio.sleep(15 * 60)
        assert world.gauges()[COST_LOWER_BOUND.name] == {}
    assert [entry.lower_bound for entry in world.entries()[:2]] == [0.0421, None]


async def test_an_empty_cluster_and_instances_without_a_price_record_nothing(world: World) -> None:
    world.node("a", capacity_type="reserved")
    async with world.leading():
        await asyncio.sleep(16 * 60)
    assert world.entries() == []


async def test_the_gauges_name_the_dearest_and_add_the_others_up() -> None:
    prices = {
        Consumer(ConsumerKind.PODS, f"ns-{number:03}", f"Deployment/web-{number}"): nanos(0.01) * (number + 1)
        for number in range(MAX_NAMESPACES + 10)
    }
    gauges = read("".join(cost_texts({"default": prices, "other": {Consumer(ConsumerKind.IDLE): nanos(1.0)}})))
    by_namespace, by_workload = gauges[COST_BY_NAMESPACE.name], gauges[COST_BY_WORKLOAD.name]
    assert (len(by_namespace), len(by_workload)) == (MAX_NAMESPACES + 1, MAX_WORKLOADS + 1)
    assert by_namespace[OTHERS,] == pytest.approx(0.01 * sum(range(1, 11)))
    assert sum(by_namespace.values()) == pytest.approx(sum(by_workload.values()))
    assert ("ns-000",) not in by_namespace
    assert by_namespace["ns-109",] == pytest.approx(1.1)


async def test_the_latest_summary_names_the_dearest_parts_and_counts_the_others(world: World) -> None:
    world.bound = 0.05
    for number in range(7):
        world.node(f"n{number}", pool=f"pool-{number}", capacity_type="on-demand" if number else "spot")
        world.pod(f"web-{number}", f"n{number}", f"team-{number}")
    world.pod("more", "n6", "team-6")
    control_plane = {"metadata": metadata("control-plane"), "spec": {}, "status": {}}
    world.cache.publish(decode_node(json.dumps(control_plane).encode()))
    async with world.leading():
        await asyncio.sleep(15 * 60 + 90)
        summary = world.latest.summary
    assert summary is not None
    assert (summary.nodes, summary.others, summary.price, summary.lower_bound) == (7, 1, 0.78, 0.05)
    assert [part.name for part in summary.pools] == [f"pool-{number}" for number in range(1, 6)]
    assert (summary.more_pools, summary.more_namespaces) == (2, 2)
    assert summary.namespaces[0].name == "team-6", "it has two pods"
    used = sum(part.price for part in summary.namespaces)
    assert summary.unused < summary.price - used, "the rest is of namespaces that are not named"


async def test_a_thread_that_outlives_the_leadership_exports_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, leads_no_more = threading.Event(), threading.Event()

    def slow_texts(*_: object) -> list[str]:
        writing.set()
        assert leads_no_more.wait(60)
        return []

    monkeypatch.setattr(sampling, "cost_texts", slow_texts)
    async with in_background(world.controller.run()):
        assert await asyncio.to_thread(writing.wait, 60)
    leads_no_more.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not world.file.exists()
