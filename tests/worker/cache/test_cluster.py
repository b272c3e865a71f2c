"""Indexes, emptiness, planned pods and news of the cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import DISRUPTIONFREEZES, NODECLAIMS, NODEPOOLS, NODESCHEDULES, PODS
from tenon.kube.pod import Pod
from tenon.provisioning.gates import FeatureGates
from tests.activities.kubernetes.fake_api import FakeApi
from tests.worker.cache.objects import claim, node, owned_by, pod, running, waiting
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planned_places import planned_places
from worker.cache.served import RECHECK_SECONDS
from worker.cache.table import PORTION

START = "2026-01-01T00:00:00Z"
T0 = 1_767_225_600.0


class Cache(ClusterCache):
    def __init__(self) -> None:
        self.now = T0 + 1000.0
        super().__init__(FakeApi(), clock=lambda: self.now)  # type: ignore[arg-type]

    def publish(self, *records: Any) -> None:
        tables: dict[str, Any] = {"PodRecord": self.pods, "NodeRecord": self.nodes, "ClaimRecord": self.claims}
        for record in records:
            tables[type(record).__name__].on_event(record.key, record)


def test_pods_are_found_by_their_node_and_leave_it() -> None:
    cache = Cache()
    cache.publish(running("b", "n"), running("a", "n"), running("c", "m"))
    assert [record.pod.name for record in cache.pods_on("n")] == ["a", "b"]
    assert cache.used("n") == {"cpu": 2000, "pods": 2}
    cache.pods.on_event("ns/a", None)
    assert cache.used("n") == {"cpu": 1000, "pods": 1}
    cache.publish(running("b", "n", status={"phase": "Failed"}))
    assert cache.used("n") == {}
    assert cache.pods_on("m")[0].pod.name == "c"


def test_pending_pods_come_and_go_and_each_change_is_published_once() -> None:
    cache = Cache()
    with cache.subscribe([Topic.PENDING]) as news:
        cache.publish(waiting("a"), waiting("b"), waiting("a"), pod("c"))
        assert news.take() == [(Topic.PENDING, "ns/a"), (Topic.PENDING, "ns/b")]
        assert [pod.name for pod in cache.pending_pods()] == ["a", "b"]
        cache.publish(waiting("b"))
        assert news.take() == [], "nothing that matters changed"
        cache.publish(running("a", "n"))
        assert news.take() == [(Topic.PENDING, "ns/a")]
    cache.publish(waiting("d"))
    assert news.take() == [], "closed"


def test_a_pod_recreated_under_its_name_is_a_new_pod() -> None:
    cache = Cache()
    cache.publish(waiting("a"))
    with cache.subscribe([Topic.PENDING]) as news:
        cache.publish(waiting("a", meta={"uid": "another"}))
        assert news.take() == [(Topic.PENDING, "ns/a")]


def test_changes_of_a_node_are_news_of_its_claim_and_of_its_pods() -> None:
    cache = Cache()
    cache.publish(claim(), node())
    with cache.subscribe(list(Topic)) as news:
        cache.publish(running("a", "n"), node(cpu="5"))
        assert news.take() == [(Topic.NODE_PODS, "n"), (Topic.NODE, "n"), (Topic.CLAIM, "claim")]
        cache.nodes.on_event("n", None)
        assert news.take() == [(Topic.NODE, "n"), (Topic.CLAIM, "claim")]


def test_a_heartbeat_of_a_node_wakes_no_one() -> None:
    """Each kubelet writes its Node's status every five minutes, if only to say that it lives: 17 a second of 5,000."""
    cache = Cache()
    cache.publish(node(), waiting("a"))
    with cache.subscribe(list(Topic)) as news:
        cache.publish(node(), waiting("a"))
        assert news.take() == []
        cache.publish(node(unschedulable=True))
        assert news.take() == [(Topic.NODE, "n")]


def test_a_pod_event_that_this_process_notes_on_a_claim_wakes_no_one() -> None:
    cache = Cache()
    cache.publish(claim(), node(), running("a", "n", since="2026-01-01T00:10:00Z"))
    with cache.subscribe(list(Topic)) as news:
        cache.publish(claim(status={"lastPodEventTime": "2026-01-01T00:10:00Z"}))
        assert news.take() == []
        cache.publish(claim(status={"lastPodEventTime": "2026-01-01T00:20:00Z"}))
        assert news.take() == [(Topic.NODE_PODS, "n")], "another process saw a later one"
        cache.publish(claim(status={"lastPodEventTime": "2026-01-01T00:30:00Z", "nodeName": "n"}))
        assert news.take() == [(Topic.CLAIM, "claim")], "something else changed as well"


def test_a_node_that_joined_again_under_another_name_leaves_with_its_claim() -> None:
    cache = Cache()
    provider = "aws:///us-west-2a/i-n"
    cache.publish(claim(), node("n", providerID=provider), node("other", providerID=provider))
    assert cache.moving.nodes() == set()
    cache.publish(claim(meta={"deletionTimestamp": START}))
    assert cache.moving.nodes() == {"n", "other"}
    cache.publish(claim())
    assert cache.moving.nodes() == set()
    cache.nodes.on_event("n", node("n", meta={"deletionTimestamp": START}))
    assert cache.moving.nodes() == {"n"}
    cache.nodes.on_event("n", None)
    assert cache.moving.nodes() == set()


def test_node_and_claim_find_each_other_by_provider_id_then_by_name() -> None:
    cache = Cache()
    cache.publish(node("n"), claim("c", node_name="n"), claim("late", node_name="", status={"nodeName": "n"}))
    item, late = cache.claims.get("c"), cache.claims.get("late")
    result = cache.nodes.get("n")
    assert item is not None
    assert late is not None
    assert result is not None
    assert cache.claim_of(result) is item
    assert cache.node_of(item) is result
    assert cache.node_of(late) is result
    cache.claims.on_event("c", None)
    assert cache.claim_of(result) is None


def unplanned(cache: Cache, now: float | None = None) -> list[Pod]:
    """Pending pods that no NodeClaim was bought for."""
    planned = planned_places(cache, now)
    return [pod for pod in cache.pending_pods() if pod.uid not in planned]


def test_a_planned_pod_is_planned_again_when_it_did_not_get_there_sch_018() -> None:
    cache = Cache()
    meta = {"annotations": {"tenon.sh/planned-pods": "ns/p=uid-p"}}
    cache.publish(waiting("p"), claim(meta=meta))
    assert unplanned(cache) == []
    cache.publish(claim(meta=meta, initialized=START))
    assert unplanned(cache, T0 + 59) == []
    assert [pod.name for pod in unplanned(cache, T0 + 60)] == ["p"]
    cache.publish(claim(meta={**meta, "deletionTimestamp": START}))
    assert len(unplanned(cache)) == 1
    cache.publish(claim(meta=meta), waiting("p", meta={"uid": "another"}))
    assert len(unplanned(cache)) == 1, "the annotation means another pod of that name"


def test_dis30_a_pod_is_bound_now_if_its_status_says_later() -> None:
    """A kubelet may write any time there. Its node would never be consolidated, and the time would be recorded."""
    cache = Cache()
    cache.publish(claim(initialized=START), node(), running("a", "n", since="9999-12-31T23:59:59Z"))
    assert cache.last_pod_event("n") == cache.now


def test_a_node_is_empty_since_its_last_pod_left() -> None:
    cache = Cache()
    mine = claim(initialized=START)
    cache.publish(mine, node(), running("ds", "n", meta=owned_by("DaemonSet")))
    cache.publish(running("a", "n", since="2026-01-01T00:01:00Z"))
    assert cache.last_pod_event("n") == T0 + 60
    assert cache.empty_since(mine) is None
    cache.now = T0 + 2000
    cache.pods.on_event("ns/a", None)
    assert cache.empty_since(mine) == T0 + 2000
    cache.now = T0 + 3000
    cache.publish(running("ds", "n", meta=owned_by("DaemonSet"), status={"phase": "Failed"}))
    assert cache.empty_since(mine) == T0 + 2000, "pods of DaemonSets do not count"


def test_dis30_a_pod_that_ended_leaves_its_node_only_once() -> None:
    """What removes the objects of finished Jobs, hours later and one by one, says nothing about the node."""
    cache = Cache()
    mine = claim(initialized=START)
    cache.publish(mine, node(), running("a", "n"), running("b", "n"))
    cache.now = T0 + 1000
    cache.publish(*(running(name, "n", status={"phase": "Succeeded"}) for name in "ab"))
    cache.now = T0 + 2000
    ending = {"deletionTimestamp": START, "finalizers": ["example.com/logs"]}
    with cache.subscribe([Topic.NODE_PODS]) as news:
        cache.publish(running("a", "n", meta=ending, status={"phase": "Succeeded"}))
        cache.pods.on_event("ns/a", None)
        cache.pods.on_event("ns/b", None)
        assert news.take() == [(Topic.NODE_PODS, "n")]
    assert cache.empty_since(mine) == T0 + 1000
    cache.publish(running("b", "n"))
    cache.publish(running("b", "n", status={"phase": "Succeeded"}))
    cache.now = T0 + 3000
    cache.publish(running("b", "n", meta={"uid": "its successor"}))
    assert cache.last_pod_event("n") == T0 + 3000, "another pod of that name came"


def test_dis30_an_annotation_of_a_pod_is_no_pod_event() -> None:
    cache = Cache()
    cache.publish(claim(initialized=START), node(), running("a", "n", since="2026-01-01T00:01:00Z"))
    cache.now = T0 + 2000
    with cache.subscribe([Topic.NODE_PODS]) as news:
        cache.publish(running("a", "n", meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}))
        assert news.take() == [(Topic.NODE_PODS, "n")], "but it protects the node"
    assert cache.last_pod_event("n") == T0 + 60


@pytest.mark.parametrize(
    "let_go",
    [
        running("p", "old", meta={"deletionTimestamp": START}),
        running("p", "old", status={"phase": "Failed"}),
        None,
    ],
    ids=["ending", "ended", "gone"],
)
def test_a_node_that_waited_for_a_pod_is_empty_since_the_pods_old_node_let_it_go(let_go: Any) -> None:
    """A drain may be held up for long; what comes in the pod's place has the node's whole time to live to get there."""
    cache = Cache()
    meta = {"annotations": {"tenon.sh/planned-pods": "ns/p=uid-p,ns/q=uid-q"}}
    new = claim("new", node_name="m", initialized=START, meta=meta)
    cache.publish(node("old", meta={"deletionTimestamp": START}), node("m"), new, running("p", "old"))
    assert cache.empty_since(new) is None
    cache.now = T0 + 2000
    with cache.subscribe([Topic.NODE_PODS]) as news:
        cache.pods.on_event("ns/p", let_go)
        assert news.take() == [(Topic.NODE_PODS, "m"), (Topic.NODE_PODS, "old")]
    assert cache.empty_since(new) == T0 + 2000
    cache.now = T0 + 3000
    cache.publish(running("other", "old"))
    cache.pods.on_event("ns/other", None)
    assert cache.empty_since(new) == T0 + 2000, "nothing was bought for that one"
    cache.claims.on_event("new", None)
    cache.pods.on_event("ns/p", None)
    assert cache.last_pod_event("m") == T0 + 2000, "the claim is gone"


def test_a_pod_bound_elsewhere_is_no_pod_event_of_the_node_bought_for_it() -> None:
    cache = Cache()
    new = claim("new", node_name="m", initialized=START, meta={"annotations": {"tenon.sh/planned-pods": "ns/p=uid-p"}})
    cache.publish(node("m"), new, running("p", "elsewhere", since="2026-01-01T00:00:01Z"))
    cache.pods.on_event("ns/p", None)
    assert cache.last_pod_event("m") is None


def test_an_ending_pod_leaves_its_node_empty_unless_a_stateful_set_brings_it_back() -> None:
    cache = Cache()
    mine = claim(initialized=START)
    ending = {"deletionTimestamp": START}
    cache.publish(mine, node(), running("a", "n"))
    cache.publish(running("a", "n", meta=ending))
    assert cache.empty_since(mine) == cache.now
    cache.publish(running("a", "n", meta={**ending, **owned_by("StatefulSet")}))
    assert cache.empty_since(mine) is None


def test_a_node_that_awaits_its_pods_or_its_initialization_is_not_empty() -> None:
    cache = Cache()
    cache.now = T0 + 10
    meta = {"annotations": {"tenon.sh/planned-pods": "ns/p=uid-p"}}
    awaited, starting = claim(initialized=START, meta=meta), claim("starting")
    cache.publish(awaited, node(), waiting("p"), starting)
    assert cache.empty_since(awaited) is None
    assert cache.empty_since(starting) is None


def test_a_fresh_cache_trusts_what_the_claim_noted_else_its_own_start() -> None:
    cache = Cache()
    noted = claim(initialized=START, status={"lastPodEventTime": "2026-01-01T00:05:00Z"})
    cache.publish(noted, node(), running("done", "n", status={"phase": "Succeeded"}))
    assert cache.empty_since(noted) == T0 + 300
    cache._synced_at = T0 + 900
    assert cache.empty_since(claim(initialized=START)) == T0 + 900


@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00:00Z", 5])
def test_a_pod_event_that_cannot_be_read_counts_as_none(text: object) -> None:
    """One such NodeClaim must not stop the disruption of all others."""
    cache = Cache()
    noted = claim(initialized=START, status={"lastPodEventTime": text})
    cache.publish(claim(initialized=START), node())
    cache.publish(noted)
    cache._synced_at = T0 + 900
    assert cache.empty_since(noted) == T0 + 900


async def test_a_complete_copy_is_taken_over_in_portions() -> None:
    """Everything is read again after a long absence: 100,000 pods at once would hold up the Lease for seconds."""
    cache = Cache()
    copy = {f"ns/p{number}": waiting(f"p{number}") for number in range(3 * PORTION)}
    numbers: list[int] = []

    async def others() -> None:
        while len(cache.pods) < len(copy):
            numbers.append(len(cache.pods))
            await asyncio.sleep(0)

    await asyncio.gather(cache.pods.on_replace(copy), others())
    assert numbers == [PORTION, 2 * PORTION]
    await cache.pods.on_replace({})
    assert cache.pending() == []


async def test_a_plan_can_wait_until_the_cache_holds_its_claims() -> None:
    cache = Cache()
    cache.publish(claim("a"))
    assert await cache.wait_for_claims(["a"], 5)
    wait = asyncio.create_task(cache.wait_for_claims(["a", "b"], 5))
    await asyncio.sleep(0)
    cache.publish(claim("b"))
    assert await wait
    assert not await cache.wait_for_claims(["c"], 0)


async def test_the_cache_syncs_all_resources_and_stops_on_request() -> None:
    cache = Cache()
    assert not cache.synced
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(10):
        await cache.wait_synced()
    assert cache.synced
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


def test_n15_501_the_worker_may_read_what_it_caches() -> None:
    """OPS-08: a resource that it may not list would keep it unready for ever."""
    deploy = Path(__file__).parents[3] / "deploy"

    def granted(*files: Path, kinds: Sequence[str] = ("ClusterRole",)) -> set[tuple[str, str]]:
        documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
        roles = [
            document
            for document in documents
            if document["kind"] in kinds and "aggregat" not in str(document["metadata"])
        ]
        rules = [rule for role in roles for rule in role["rules"]]
        return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}

    def needed(gates: FeatureGates) -> set[tuple[str, str]]:
        cache = ClusterCache(cast("Any", None), gates=gates)
        read = {(verb, reflector.plural) for verb in ("list", "watch") for reflector in cache._reflectors}
        return read - of_own_namespace

    of_own_namespace = {("list", "controllerrevisions"), ("watch", "controllerrevisions")}
    assert of_own_namespace <= granted(deploy / "rbac.yaml", kinds=["Role"])
    always = granted(deploy / "rbac.yaml")
    assert {("list", "namespaces"), ("watch", "csinodes"), ("list", "persistentvolumes")} <= needed(FeatureGates())
    assert needed(FeatureGates()) <= always
    assert needed(FeatureGates(node_overlay=True, capacity_buffer=True)) <= always
    gated = needed(FeatureGates(vpa_predictions=True))
    assert not gated <= always
    assert gated <= always | granted(deploy / "rbac-gates" / "VPAPredictions.yaml")


class Partial(FakeApi):
    """An API server that serves one kind only once its definition is there."""

    served = False

    async def request(self, method: str, path: str, *, query: dict[str, str] | None = None, **more: Any) -> bytes:
        if path == "/apis/karpenter.sh/v1alpha1":
            return json.dumps({"resources": [{"name": "nodeoverlays"}] if self.served else []}).encode()
        self._lacks(path)
        return await super().request(method, path, query=query, **more)

    def stream(
        self, path: str, query: dict[str, str] | None = None, *, idle_seconds: float = 0.0
    ) -> AsyncIterator[bytes]:
        self._lacks(path)
        return super().stream(path, query, idle_seconds=idle_seconds)

    def _lacks(self, path: str) -> None:
        if "nodeoverlays" in path and not self.served:
            raise NotFoundError(404, "NotFound", "the server could not find the requested resource")


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_gate_whose_definition_is_missing_stops_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """No plan and no status would come. Once the kind is there it is read without a restart (NO-01)."""
    api = Partial()
    cache = ClusterCache(cast("Any", api), gates=FeatureGates(node_overlay=True))
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(5):
        await cache.wait_synced()
    await asyncio.sleep(5 * RECHECK_SECONDS)
    missing = [vars(record)["resource"] for record in caplog.records if "not serve" in record.message]
    assert sorted(missing) == [
        "disruptionfreezes.tenon.sh",
        "nodeoverlays.karpenter.sh",
        "nodeschedules.tenon.sh",
    ], "each once, and no rollouts"
    api.put("o", "1")
    assert cache.overlays.get("o") is None
    api.served = True
    await asyncio.sleep(2 * RECHECK_SECONDS)
    assert cache.overlays.get("o") is not None
    task.cancel()


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_missing_definitions_are_no_news_where_another_controller_runs_the_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`tenon shadow` would else ask users of Karpenter to apply Tenon's CRDs (NO-01)."""
    cache = ClusterCache(cast("Any", Partial()), may_lack=(DISRUPTIONFREEZES, NODESCHEDULES))
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(5):
        await cache.wait_synced()
    assert [record for record in caplog.records if "not serve" in record.message] == []
    assert DISRUPTIONFREEZES not in cache.required_resources
    assert {PODS, NODECLAIMS, NODEPOOLS} <= set(cache.required_resources)
    task.cancel()
