"""What planning trusts: how the view finds out that the cache is behind, and brings it up to date."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import NAMESPACES, NODECLAIMS, PODS, PVCS
from tenon.apis import labels
from tenon.apis.cel_rules import broken_rules
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tenon.provisioning.readiness import usable_pools, why_unusable
from tenon.provisioning.static_capacity import usable_static_pools
from tests.activities.kubernetes.fake_api import FakeApi
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, mounting, node, running, waiting
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import CATCH_UP_SECONDS, QUIET_SECONDS, REFRESH_SECONDS, PlanningView

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class ManyApis(FakeApi):
    """An API server of several resources, each with its own objects."""

    def __init__(self) -> None:
        super().__init__()
        self.by_path: dict[str, FakeApi] = {}

    def of(self, path: str) -> FakeApi:
        return self.by_path.setdefault(path, FakeApi())

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        return await self.of(path).request(method, path, **options)

    async def stream(self, path: str, query: Any = None, **options: Any) -> AsyncIterator[bytes]:
        async for line in self.of(path).stream(path, query, **options):
            yield line

    def lists(self, path: str) -> int:
        return sum(1 for query in self.of(path).requests if "watch" not in query)


CLAIMS, ALL_PODS = NODECLAIMS.path(), PODS.path()


@contextlib.asynccontextmanager
async def viewing() -> AsyncIterator[tuple[ManyApis, ClusterCache, PlanningView]]:
    api = ManyApis()
    cache = ClusterCache(api, silence_limit=75.0)  # type: ignore[arg-type]
    async with in_background(cache.run()):
        await cache.wait_synced()
        yield api, cache, PlanningView(cache)


async def test_claims_that_a_working_watch_will_send_are_only_awaited() -> None:
    """Reading everything again after each plan would cost a list a second under load."""
    async with viewing() as (api, cache, view):
        wait = asyncio.create_task(view.catch_up(["a"]))
        await asyncio.sleep(CATCH_UP_SECONDS / 2)
        api.of(CLAIMS).put("a", "1")
        await wait
        assert cache.has_claims(["a"])
        assert api.lists(CLAIMS) == 0


@pytest.mark.parametrize("hold", [False, True])
async def test_claims_behind_a_stalled_watch_are_read_again(hold: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with viewing() as (api, cache, view):
        api.of(CLAIMS).stall(new_ones_too=hold)
        api.of(CLAIMS).put("a", "1", labels={labels.BATCH: "7"})
        await view.catch_up(["a"])
        assert cache.has_claims(["a"])
        assert view.newest_batch(up_to=7) == 7
        assert (api.lists(CLAIMS), api.lists(ALL_PODS)) == (1, 0)
    assert "The watch of NodeClaims is behind" in caplog.text


async def test_claims_that_are_gone_are_not_waited_for() -> None:
    async with viewing() as (_, cache, view):
        async with asyncio.timeout(2 * CATCH_UP_SECONDS):
            await view.catch_up(["gone"])
        assert not cache.has_claims(["gone"])


async def test_an_api_server_that_is_away_is_reported_and_not_awaited_forever() -> None:
    async with viewing() as (api, _, view):
        api.of(CLAIMS).failures += [ApiUnreachableError("https://x", "refused")] * 100
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * REFRESH_SECONDS):
                await view.catch_up(["a"])


async def test_pods_are_read_again_only_when_their_watch_was_quiet() -> None:
    """In a busy cluster the watch is never quiet; where it is, it may be broken."""
    async with viewing() as (api, cache, view):
        for second in range(60):
            await asyncio.sleep(1)
            api.of(ALL_PODS).bookmark()
            await asyncio.sleep(0.1)
            assert not await view.confirm_pods(), second
        api.of(ALL_PODS).stall()
        await asyncio.sleep(QUIET_SECONDS + 1)
        assert await view.confirm_pods()
        assert not await view.confirm_pods(), "read a moment ago"
        assert api.lists(ALL_PODS) == 1
        assert cache.silent_for(PODS) < QUIET_SECONDS


async def test_batches_that_are_no_numbers_do_not_count() -> None:
    """Anyone may label a NodeClaim."""
    async with viewing() as (api, cache, view):
        assert view.newest_batch(up_to=100) == 0
        for name, batch in (("a", "12"), ("b", "x"), ("c", "9"), ("d", "-4")):
            api.of(CLAIMS).put(name, json.dumps(batch), labels={labels.BATCH: batch})
        await cache.wait_for_claims(["a", "b", "c", "d"], 5)
        assert view.newest_batch(up_to=100) == 12
        assert view.newest_batch(up_to=11) == 9


async def test_namespaces_are_read_with_their_labels_and_a_change_of_them_counts() -> None:
    """A pod that no rule let in may fit once a namespace is labelled."""
    async with viewing() as (api, cache, view):
        before = view.fingerprint()
        with cache.subscribe([Topic.NAMESPACE]) as news:
            api.of(NAMESPACES.path()).put("shop", "1", labels={"team": "a"})
            await news.next()
        assert view.namespaces() == {"shop": {"team": "a"}}
        assert view.fingerprint().namespaces != before.namespaces
        assert view.fingerprint().supply == before.supply


async def test_lif01_the_nodeclaims_that_wait_for_an_instance_are_known() -> None:
    """Those that were planned for pods, without those that leave or have an instance."""
    planned = {labels.NODEPOOL: "default", labels.BATCH: "7"}
    launched = {"conditions": [{"type": "Launched", "status": "True"}]}
    bodies: list[dict[str, Any]] = [
        {"metadata": {"name": "waits", "labels": planned}},
        {"metadata": {"name": "by-hand", "labels": {labels.NODEPOOL: "default"}}},
        {"metadata": {"name": "launched", "labels": {**planned, labels.NODEPOOL: "other"}}, "status": launched},
        {"metadata": {"name": "leaves", "labels": planned, "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ]
    async with viewing() as (_, cache, view):
        for body in bodies:
            cache.claims.on_event(body["metadata"]["name"], ClaimRecord.of(body))
        assert [record.name for record in view.launching_claims()] == ["waits"]
        assert view.launching_pools() == {"default"}


async def test_waiting_pods_come_with_what_their_claims_say() -> None:
    async with viewing() as (api, cache, view):
        record = waiting(volumes=mounting("data"))
        cache.pods.on_event(record.key, record)
        (pod,) = view.pending_pods()
        assert "its volume claim ns/data does not exist" in pod.unsupported
        with cache.subscribe([Topic.PENDING]) as news:
            api.of(PVCS.path()).put("data", "1", namespace="ns")
            await news.next()
        (pod,) = view.pending_pods()
        assert "not bound and without a StorageClass" in pod.unsupported


def pool(generation: int = 1, **spec: Any) -> ObjectRecord:
    body = {"metadata": metadata("default", generation=generation), "spec": spec}
    return decode_object(json.dumps(body).encode())


def node_class(**status: Any) -> ObjectRecord:
    conditions = [{"type": "Ready", "status": "True"}]
    body = {"metadata": metadata("default", generation=1), "status": {"conditions": conditions, **status}}
    return decode_object(json.dumps(body).encode())


async def test_claims_that_come_and_go_make_no_room_but_in_a_pool_with_limits() -> None:
    """A pod that fits nowhere is not planned again whenever a node comes or goes; a limit that it waits for is news."""
    async with viewing() as (_, cache, view):
        cases: list[tuple[dict[str, Any], bool]] = [({}, False), ({"limits": {"cpu": "4"}}, True)]
        for limits, makes_room in cases:
            cache.pools.on_event("default", pool(**limits))
            before = view.fingerprint()
            labelled = {"labels": {labels.NODEPOOL: "default"}}
            cache.claims.on_event("a", claim("a", meta=labelled))
            cache.claims.on_event("a", claim("a", meta=labelled, initialized="2026-01-01T00:00:00Z"))
            assert view.fingerprint() == before
            cache.claims.on_event("a", None)
            assert (view.fingerprint() != before) is makes_room


async def test_what_is_found_for_a_class_is_new_supply() -> None:
    """A subnet in another zone or another AMI may be all that a pod waited for."""
    async with viewing() as (_, cache, view):
        observations = []
        subnet, ami = [{"id": "subnet-1", "zone": "a"}], [{"id": "ami-1"}]
        for status in ({}, {"subnets": subnet}, {"subnets": subnet, "amis": ami}):
            cache.nodeclasses.on_event("default", node_class(**status))
            observations.append(view.fingerprint())
            cache.nodeclasses.on_event("default", node_class(**status))
            assert view.fingerprint() == observations[-1], "only its version changed"
        assert len({result.supply for result in observations}) == 3


def launching_pool(version: str, own_kubelet: str, **spec: Any) -> ObjectRecord:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    body = {
        "metadata": metadata(
            "default", resourceVersion=version, generation=1, annotations={labels.V1BETA1_KUBELET: own_kubelet}
        ),
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}, **spec},
    }
    return decode_object(json.dumps(body).encode())


def launching_class(version: str, alias: str) -> ObjectRecord:
    terms = {"subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {
        "metadata": metadata("default", resourceVersion=version, generation=1),
        "spec": {"role": "r", "amiSelectorTerms": [{"alias": alias}], **terms},
        "status": {"conditions": [ready]},
    }
    return decode_object(json.dumps(body).encode())


async def test_only_what_was_edited_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan and every look asks which NodePools are usable, on the event loop of the leader."""
    checked: list[str] = []

    def counting(model: Any) -> Any:
        checked.append(type(model).__name__)
        return broken_rules(model)

    monkeypatch.setattr("tenon.apis.validation.broken_rules", counting)
    async with viewing() as (_, cache, view):

        def usable() -> tuple[int, set[str]]:
            """How many NodePools are usable, and the kinds that were checked to find out."""
            checked.clear()
            pools = view.node_pools()
            ready = usable_pools(pools, view.node_class, view) + usable_static_pools(pools, view.node_class, view)
            return len(ready), set(checked)

        cache.pools.on_event("default", launching_pool("1", '{"podsPerCore": 2}'))
        cache.nodeclasses.on_event("default", launching_class("1", "al2023@latest"))
        assert usable() == (1, {"NodePool", "EC2NodeClass"})
        assert usable() == (1, set())
        cache.nodeclasses.on_event("default", launching_class("2", "bottlerocket@latest"))
        assert usable() == (0, {"EC2NodeClass"})
        assert usable() == (0, set())
        cache.pools.on_event("default", launching_pool("2", '{"maxPods": 20}'))
        assert usable() == (1, {"NodePool", "EC2NodeClass"})
        assert usable() == (1, set())
        cache.pools.on_event("default", launching_pool("3", '{"maxPods": 20}', replicas=2))
        assert usable() == (1, {"NodePool"})
        cache.pools.on_event("default", launching_pool("4", '{"maxPods": 20}', limits={"cpu": "-1"}))
        assert usable() == (0, {"NodePool"})
        assert usable() == (0, set())


async def test_a_model_that_the_view_did_not_return_is_checked_itself() -> None:
    """A controller that read a NodePool from the API server must not get the faults of the one in the cache."""
    async with viewing() as (_, cache, view):
        cache.pools.on_event("default", launching_pool("1", "{}"))
        cache.nodeclasses.on_event("default", launching_class("1", "al2023@latest"))
        (pool_in_view,) = view.node_pools()
        assert why_unusable(pool_in_view, view.node_class, view) == ""
        newer, _ = parse(NodePool, launching_pool("2", "{}", limits={"cpu": "-1"}).body)
        assert newer is not None
        assert "spec.limits" in why_unusable(newer, view.node_class, view)


class Counted(dict[str, Any]):
    """Annotations that count how often their pods are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.reads += key == labels.PLANNED_PODS
        return super().get(key, default)


async def test_a_pass_over_a_hundred_empty_nodes_reads_the_pods_of_no_claim_twice() -> None:
    """When the work of a batch ends many nodes are empty at once; to parse all claims for each of them took seconds."""
    async with viewing() as (_, cache, view):
        for number in range(100):
            planned = ",".join(f"ns/p{number}-{n}=uid-{number}-{n}" for n in range(20))
            meta = {"annotations": {labels.PLANNED_PODS: planned}, "labels": {labels.NODEPOOL: "default"}}
            claim_record = claim(f"c{number}", node_name=f"n{number}", initialized="2026-01-01T00:00:00Z", meta=meta)
            body = {
                **claim_record.body,
                "metadata": {**claim_record.body["metadata"], "annotations": Counted(claim_record.annotations)},
            }
            claim_record = ClaimRecord.of(body)
            cache.claims.on_event(claim_record.name, claim_record)
            cache.nodes.on_event(f"n{number}", node(f"n{number}"))
        Counted.reads = 0
        assert sum(managed_node.empty for managed_node in view.managed_nodes()) == 100
        view.managed_nodes()
        assert Counted.reads <= 100


async def test_a_node_is_managed_as_its_objects_and_pods_are_now() -> None:
    """What is remembered of a node is no older than its NodeClaim, its Node and the pods on it."""
    async with viewing() as (_, cache, view):
        started = "2026-01-01T00:00:00Z"
        labelled = {"labels": {labels.NODEPOOL: "default"}}

        def told(*, pods: bool = False, ready: bool = True, life: str = "Never", **meta: Any) -> Any:
            output = claim("c", initialized=started, meta={**labelled, **meta}, expireAfter=life)
            cache.claims.on_event("c", output)
            cache.nodes.on_event("n", replace(node("n"), ready=ready))
            cache.pods.on_event("ns/p", running("p", "n") if pods else None)
            (managed_node,) = view.managed_nodes()
            return managed_node

        assert told().empty
        assert not told(pods=True).empty
        assert told().empty
        assert not told(ready=False).ready
        assert told(deletionTimestamp=started).leaving
        assert told(annotations={labels.KEEP_UNTIL: "2099-01-01T00:00:00Z"}).protected_by
        assert not told(annotations={labels.KEEP_UNTIL: "2020-01-01T00:00:00Z"}).protected_by
        assert told().expires_at is None
        assert told(life="24h").expires_at == datetime(2026, 1, 2, tzinfo=UTC)
        for kept_until, expires in (("2026-01-03T00:00:00Z", 3), ("2026-01-01T12:00:00Z", 2)):
            survivors = told(life="24h", annotations={labels.KEEP_UNTIL: kept_until})
            assert survivors.expires_at == datetime(2026, 1, expires, tzinfo=UTC)
        cache.claims.on_event("c", None)
        assert view.managed_nodes() == []


async def test_a_snapshot_stays_as_it_was_and_says_what_the_cache_says() -> None:
    """A plan states its problem in a thread while watches go on to change the cache."""
    async with viewing() as (_, cache, view):
        cache.nodes.on_event("n", node("n"))
        cache.claims.on_event("c", claim("c", meta={"labels": {labels.NODEPOOL: "default"}}))
        notes = {labels.PLANNED_PODS: "ns/w=uid-w", labels.LARGEST_CAPACITY: '{"cpu":"8"}'}
        bought = {"labels": {labels.NODEPOOL: "default"}, "annotations": notes}
        cache.claims.on_event("d", claim("d", node_name="", meta=bought))
        for record in (running("p", "n"), waiting("w"), waiting("v", volumes=mounting("data"))):
            cache.pods.on_event(record.key, record)
        view.pending_pods()
        snapshot = view.snapshot()
        before = view.nodes(), view.pool_usage("default"), view.daemons(), view.namespaces()
        for key in ("ns/p", "ns/w", "ns/v"):
            cache.pods.on_event(key, None)
        cache.claims.on_event("d", None)
        cache.nodes.on_event("n", node("n", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
        observations = await asyncio.to_thread(
            lambda: (snapshot.nodes(), snapshot.pool_usage("default"), snapshot.daemons(), snapshot.namespaces())
        )
        assert observations == before
        assert [result.name for result in observations[0]] == ["d", "n"]
        assert observations[1]["cpu"] >= 8_000, "what a claim may become counts against the limits of its pool"
        assert view.nodes() == []


async def test_a_snapshot_ends_with_its_last_user_without_the_garbage_collector() -> None:
    """The collector rarely looks at old objects, and a copy of a large cluster that waits for it is megabytes."""
    async with viewing() as (_, cache, view):
        cache.pods.on_event("default/a", running("a", "n"))
        snapshot = view.snapshot()
        assert snapshot.nodes() == []
        parts = [snapshot, snapshot._state, snapshot._state.pods, snapshot._state.storage, snapshot._state.spreading]
        remainder = [weakref.ref(part) for part in parts]
        gc.collect()
        gc.disable()
        try:
            del snapshot, parts
            assert [result() for result in remainder] == [None] * len(remainder)
        finally:
            gc.enable()


async def test_a_node_that_no_longer_awaits_its_pod_is_looked_at_at_once() -> None:
    """The pod was on no node, so that its end is no change of the node."""
    async with viewing() as (_, cache, view):
        record = waiting("w")
        cache.pods.on_event(record.key, record)
        looking = asyncio.create_task(view.nodes_changed(60.0))
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        cache.pods.on_event(record.key, None)
        await looking
        assert asyncio.get_running_loop().time() - began < 1.0
