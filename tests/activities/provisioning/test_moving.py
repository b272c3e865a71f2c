"""Pods of nodes on their way out, planned ahead of their eviction on the worker's own cache: nothing twice."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.client import Kube
from activities.provisioning.batching import Batcher
from activities.provisioning.planner import BatchPlanner
from tenon.apis import labels
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.messages.provisioning import PlanInput, PlanResult
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import START, FakeClaims, FakeTypes, node_class, node_pool
from tests.worker.cache.objects import claim, daemonset, namespace, node, owned_by, running, waiting
from worker.cache.cluster import ClusterCache
from worker.cache.planned_places import planned_places
from worker.cache.planning_view import PlanningView

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class View(PlanningView):
    """A view of a cache that is whole and up to date."""

    def synced(self) -> bool:
        return True

    async def confirm_pods(self) -> bool:
        return False


class Setting:
    """A cluster with one node on its way out, and a planner; what is written is in the cache at once."""

    def __init__(self, *pods: Any) -> None:
        self.now = START
        self.cache = ClusterCache(cast("Kube", None), clock=self._seconds)
        for table, model in ((self.cache.pools, node_pool()), (self.cache.nodeclasses, node_class())):
            record = decode_object(model.model_dump_json(by_alias=True, exclude_none=True).encode())
            table.on_event(record.key, record)
        self.cache.nodes.on_event("n", node(meta=LEAVING))
        self.has(*pods)
        self.kube, self.recorder = FakeClaims(), Recorder()
        view = View(self.cache)
        self.batcher = Batcher(view, lambda: self.now, window=KARPENTERS_WINDOW)
        self.planner = BatchPlanner(
            view,
            FakeTypes(),
            cast("Kube", self.kube),
            self.recorder,
            self.batcher,
            lambda: self.now,
        )
        self._batch = 40
        self._created: dict[str, str] = {}

    def _seconds(self) -> float:
        return self.now.timestamp()

    def has(self, *pods: Any) -> None:
        for record in pods:
            self.cache.pods.on_event(record.key, record)

    async def plan(self) -> PlanResult:
        self._batch += 1
        result = await self.planner.plan(PlanInput(cluster="c", batch=self._batch))
        self.show()
        return result

    def show(self, **status: Any) -> None:
        """The cache hears of the claims as they are now."""
        for name, body in self.kube.objects.items():
            version = str(self.cache.claims.get(name) is not None) + json.dumps(status)
            created = self._created.setdefault(name, self.now.isoformat())
            metadata = {**body["metadata"], "uid": name, "resourceVersion": version, "creationTimestamp": created}
            record = decode_nodeclaim(json.dumps({**body, "metadata": metadata, "status": status}).encode())
            self.cache.claims.on_event(name, record)


def evicted(name: str, owner: str) -> Any:
    return running(name, "n", meta={**LEAVING, **owned_by(owner)})


async def test_a_new_node_is_bought_while_the_old_one_is_drained_sch_005() -> None:
    at = Setting(running("web", "n", meta=owned_by("ReplicaSet")))
    assert (await at.plan()).pods == 1
    (body,) = at.kube.objects.values()
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "ns/web=uid-web"
    assert at.recorder.events == [], "the pod runs: nobody need hear of it yet"
    assert at.batcher.undecided() == []


async def test_the_successor_of_an_evicted_pod_goes_where_that_pod_was_to_go_sch_005() -> None:
    """The claim is not even launched when the pod is evicted and made again under another name."""
    at = Setting(running("web-a", "n", meta=owned_by("ReplicaSet")), running("other", "n", meta=owned_by("ReplicaSet")))
    await at.plan()
    at.has(evicted("web-a", "ReplicaSet"), waiting("web-b"))
    result = await at.plan()
    assert (result.pods, result.claims, result.placed_on_existing) == (1, [], 1)
    assert list(at.batcher.reserved()) == list(at.kube.objects)
    assert len(at.kube.objects) == 1


@pytest.mark.parametrize(
    "selectors",
    [
        [{"kubernetes.io/os": "linux"}],
        [{"node.kubernetes.io/instance-type": "m5.large"}, {"node.kubernetes.io/instance-type": "m5.xlarge"}],
    ],
    ids=["a label that the claim leaves open", "one DaemonSet or the other"],
)
@pytest.mark.parametrize(("successor", "bought"), [("1", 0), ("1100m", 1)])
async def test_sch005_the_room_of_daemons_is_reserved_once_before_the_launch(
    selectors: list[dict[str, str]], successor: str, bought: int
) -> None:
    """Which DaemonSets come is known when the instance is: until then, its pods' own requests are the room."""
    at = Setting(running("web-a", "n", meta=owned_by("ReplicaSet")))
    for number, selector in enumerate(selectors):
        daemon = daemonset(f"ds-{number}", cpu="300m", nodeSelector=selector)
        at.cache.daemonsets.on_event(daemon.key, daemon)
    await at.plan()
    at.has(evicted("web-a", "ReplicaSet"), waiting("web-b", cpu=successor))
    assert len((await at.plan()).claims) == bought


async def test_a_drain_that_is_held_up_buys_nothing_more_sch_005() -> None:
    """The new node is ready for hours and still waits for its pod."""
    at = Setting(running("web", "n"))
    await at.plan()
    initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": START.isoformat()}
    at.show(conditions=[initialized])
    at.now += timedelta(hours=3)
    assert at.batcher.undecided() == []


async def test_a_pod_that_finds_room_elsewhere_is_asked_for_less_and_less_sch_005() -> None:
    """Its room stays reserved, and a blocked drain does not cost a plan every 20 seconds."""
    at = Setting(running("web", "n"))
    at.cache.nodes.on_event("m", node("m", meta={"labels": {"kubernetes.io/arch": "amd64"}}))
    pauses = []
    for _ in range(6):
        assert (await at.plan()).placed_on_existing == 1
        requests = at.now
        while not at.batcher.undecided():
            assert list(at.batcher.reserved()) == ["m"]
            at.now += timedelta(seconds=5)
        pauses.append((at.now - requests).total_seconds())
    assert pauses == [20, 40, 80, 160, 300, 300]
    assert at.kube.objects == {}


async def test_a_node_that_stays_after_all_keeps_its_pods_sch_005() -> None:
    at = Setting(running("web", "n"))
    at.cache.nodes.on_event("n", node())
    assert (await at.plan()).pods == 0
    assert at.kube.objects == {}


async def test_sch005_an_unschedulable_pod_is_not_planned_for_every_claim_that_ends() -> None:
    """When a pool of a thousand nodes is deleted, each of them changes what the others' pods could be told."""
    at = Setting(running("huge", "n", cpu="5000"), waiting("large", cpu="5000"))
    assert (await at.plan()).unschedulable == 2
    assert [event[1] for event in at.recorder.events] == ["large"]
    at.cache.claims.on_event("another", claim("another"))
    assert at.batcher.undecided() == []
    at.cache.claims.on_event("another", None)
    assert at.batcher.undecided() == []


async def test_a_claim_does_not_answer_for_a_pod_that_went_elsewhere_sch_005() -> None:
    """Days ago kube-scheduler put the pod on a node that became free; now that node goes, and the claim's is full."""
    at = Setting(waiting("web"))
    await at.plan()
    landed = (START + timedelta(seconds=30)).isoformat()
    at.has(running("web", "n", since=landed, meta=owned_by("ReplicaSet")))
    initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": landed}
    at.show(conditions=[initialized], allocatable={"cpu": "500m", "pods": "1"})
    at.now += timedelta(days=3)
    assert [pod.name for pod in at.batcher.undecided()] == ["web"]
    assert planned_places(at.cache) == {}
    assert len((await at.plan()).claims) == 1
    assert list(planned_places(at.cache)) == ["uid-web"], "the new claim answers for it"


async def test_dis10_a_nominated_node_is_not_empty_until_the_pod_is_planned_again() -> None:
    """It is asked for again after 20 s, and the batch that does so needs its time."""
    at = Setting(running("web", "n"))
    at.cache.nodes.on_event("m", node("m", meta={"labels": {"kubernetes.io/arch": "amd64"}}))
    await at.plan()
    at.now += timedelta(seconds=21)
    assert [pod.name for pod in at.batcher.undecided()] == ["web"]
    assert at.batcher.reserved() == {}, "a new plan may put it elsewhere"
    assert at.batcher.nominated_nodes() == {"m"}


async def test_dis10_a_node_is_kept_for_the_replacement_of_a_nominated_pod() -> None:
    """Between the eviction and the successor's plan nothing is on its way there, and the node was empty for long."""
    at = Setting(running("web-a", "n", meta=owned_by("ReplicaSet")))
    at.cache.nodes.on_event("m", node("m", meta={"labels": {"kubernetes.io/arch": "amd64"}}))
    await at.plan()
    at.now += timedelta(seconds=15)
    at.has(evicted("web-a", "ReplicaSet"), waiting("web-b"))
    assert [pod.name for pod in at.batcher.undecided()] == ["web-b"]
    assert at.batcher.reserved() == {}, "its successor may take the room"
    at.now += timedelta(seconds=39)
    assert at.batcher.nominated_nodes() == {"m"}
    at.now += timedelta(seconds=2)
    assert at.batcher.nominated_nodes() == set()


async def test_a_promise_follows_its_claim_to_the_node_that_it_becomes_sch_018() -> None:
    """The Node has a name of its own, and the room there was given away already."""
    at = Setting(running("web-a", "n", meta=owned_by("ReplicaSet")))
    (name,) = (await at.plan()).claims
    at.has(evicted("web-a", "ReplicaSet"), waiting("web-b"))
    assert (await at.plan()).placed_on_existing == 1
    assert {place: [pod.name for pod in pods] for place, pods in at.batcher.reserved().items()} == {name: ["web-b"]}
    at.show(providerID="aws:///us-west-2a/i-c1", allocatable={"cpu": "1", "pods": "2"})
    at.cache.nodes.on_event("c1", node("c1", cpu="1", meta={"labels": {"kubernetes.io/arch": "amd64"}}))
    assert {place: [pod.name for pod in pods] for place, pods in at.batcher.reserved().items()} == {"c1": ["web-b"]}
    at.has(waiting("stranger"))
    result = await at.plan()
    assert (result.pods, result.placed_on_existing, len(result.claims)) == (1, 0, 1)


@pytest.mark.parametrize("how", ["the claim is gone", "the claim is leaving", "its node is leaving"])
async def test_pods_that_were_promised_what_is_gone_are_planned_again_at_once_sch_018(how: str) -> None:
    """A launch that is refused costs them no 20 seconds."""
    at = Setting(running("web-a", "n", meta=owned_by("ReplicaSet")))
    (name,) = (await at.plan()).claims
    at.has(evicted("web-a", "ReplicaSet"), waiting("web-b"))
    await at.plan()
    assert at.batcher.undecided() == []
    if how == "the claim is gone":
        at.cache.claims.on_event(name, None)
    elif how == "the claim is leaving":
        at.cache.claims.on_event(name, claim(name, meta=LEAVING))
    else:
        at.show(providerID="aws:///us-west-2a/i-c1")
        at.cache.nodes.on_event("c1", node("c1", meta=LEAVING))
    assert [pod.name for pod in at.batcher.undecided()] == ["web-b"]
    assert at.batcher.reserved() == {}


async def test_pods_that_were_promised_a_node_that_goes_are_planned_again_at_once_sch_018() -> None:
    at = Setting(waiting("web"))
    at.cache.nodes.on_event("m", node("m", meta={"labels": {"kubernetes.io/arch": "amd64"}}))
    assert (await at.plan()).placed_on_existing == 1
    assert at.batcher.undecided() == []
    at.cache.nodes.on_event("m", None)
    assert [pod.name for pod in at.batcher.undecided()] == ["web"]


async def test_sch060_a_changed_namespace_replans_only_pods_that_select_namespaces() -> None:
    """A cluster that makes a namespace for each test run would plan all its hopeless pods each time."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "labelSelector": {}}]}}
    at = Setting(waiting("huge", cpu="5000"), waiting("near", cpu="5000", affinity=near))
    assert (await at.plan()).unschedulable == 2
    assert at.batcher.undecided() == []
    at.cache.namespaces.on_event("run-1", namespace("run-1"))
    assert [pod.name for pod in at.batcher.undecided()] == ["near"]
