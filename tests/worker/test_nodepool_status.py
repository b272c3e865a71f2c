"""The status of NodePools, kept by looking at the cache; API server and events are played from memory."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from activities.planning.launch_refusals import LaunchRefusals
from activities.planning.slowed_pools import SlowedPools
from tenon.kube.decode import decode_object
from tenon.lifecycle.breaker import refused
from tenon.lifecycle.messages.disruption import PoolSavings
from tenon.resources import Resources
from tests.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.cache.objects import claim, metadata
from tests.lifecycle_k8s.fake_kube import Recorder
from tests.planning.fake_view import READY
from tests.worker.background import in_background
from tests.worker.fake_temporal import MOMENT, Cache
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool_status import NodePoolStatusController

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class ApiServer:
    """Merges patches of NodePools into the cache, as a watch would; names in ``broken`` are refused."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.patches: list[tuple[str, str]] = []
        self.broken: set[str] = set()

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], *, subresource: str = "") -> None:
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        self.patches.append((name, subresource))
        if resource is NODECLAIMS:
            return
        present = self.cache.pools.get(name)
        assert present is not None
        body: dict[str, Any] = copy.deepcopy(dict(present.body))
        for part, fields in patch.items():
            body[part] = {**body.get(part, {}), **fields}
        put(self.cache, body)

    def status(self, name: str) -> dict[str, Any]:
        found = self.cache.pools.get(name)
        assert found is not None
        return dict(found.status)

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        found = self.cache.pools.get(name)
        assert found is not None
        return dict(found.condition(kind))


def put(cache: Cache, body: dict[str, Any]) -> None:
    """A NodePool as the watch tells it."""
    name = body["metadata"]["name"]
    kept = {key: value for key, value in body["metadata"].items() if key not in ("name", "resourceVersion")}
    cache.pools.on_event(name, decode_object(json.dumps({**body, "metadata": metadata(name, **kept)}).encode()))


def pool(name: str, edits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**edited(NODEPOOL, edits or {}), "metadata": {"name": name, "generation": 1}}


@contextlib.asynccontextmanager
async def keeping(
    *pools: dict[str, Any],
    claims: Sequence[Any] = (),
    broken: str = "",
    measured: bool = True,
    refusals: LaunchRefusals | None = None,
    slowed: SlowedPools | None = None,
) -> AsyncIterator[tuple[Cache, ApiServer, Recorder]]:
    """A controller that has looked at these pools."""
    cache, told = Cache(), Recorder()
    cache.publish(*claims)
    server = ApiServer(cache)
    server.broken = {broken}
    for body in pools:
        put(cache, body)
    ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
    cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
    view = PlanningView(cache)
    controller = NodePoolStatusController(
        cast("Any", server), cast("Any", told), cache, view, measured=measured, refusals=refusals, slowed=slowed
    )
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        yield cache, server, told


@pytest.mark.parametrize("measured", [True, False])
async def test_set14_metrics_of_pools_are_kept_unless_they_are_not_wanted(measured: bool) -> None:
    name = f"measured-{measured}".lower()
    async with keeping(pool(name, {"limits": {"cpu": "10"}}), measured=measured):
        found = REGISTRY.get_sample_value("karpenter_nodepools_limit", {"resource_type": "cpu", "nodepool": name})
    assert found == (10.0 if measured else None)


async def test_met37_the_state_counts_as_synced_only_once_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asyncio.Event()

    async def wait(_: Cache) -> None:
        await whole.wait()

    monkeypatch.setattr(Cache, "wait_synced", wait)
    async with keeping():
        assert REGISTRY.get_sample_value("karpenter_cluster_state_synced") == 0
        whole.set()
        await asyncio.sleep(MOMENT)
        assert REGISTRY.get_sample_value("karpenter_cluster_state_synced") == 1


async def test_met18_a_pool_that_is_gone_and_a_limit_that_was_lifted_are_told_as_nothing() -> None:
    """A series cannot be taken back where several processes share their metrics."""

    def told(kind: str, resource: str) -> float | None:
        labels = {"resource_type": resource, "nodepool": "going"}
        return REGISTRY.get_sample_value(f"karpenter_nodepools_{kind}", labels)

    async with keeping(pool("going", {"limits": {"cpu": "10", "memory": "1Gi"}})) as (cache, _, _):
        cache.publish(claim("a", node_name="", meta={"labels": {"karpenter.sh/nodepool": "going"}}))
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("limit", "memory"), told("usage", "nodes")) == (10.0, 2.0**30, 1.0)
        put(cache, {**pool("going", {"limits": {"cpu": "10"}}), "metadata": {"name": "going", "generation": 2}})
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("limit", "memory")) == (10.0, 0.0)
        cache.pools.on_event("going", None)
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("usage", "nodes")) == (0.0, 0.0)


async def test_nc07_another_controllers_pool_and_claims_are_not_written() -> None:
    """Neither conditions nor counts nor digests, and no series of metrics is theirs."""
    auto_mode = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    theirs = pool("auto", {"template/spec/nodeClassRef": auto_mode, "limits": {"cpu": "7"}})
    async with keeping(theirs) as (cache, server, told):
        cache.publish(claim("auto-a", nodeClassRef=auto_mode, meta={"labels": {"karpenter.sh/nodepool": "auto"}}))
        put(cache, pool("ours"))
        await asyncio.sleep(MOMENT)
        assert {name for name, _ in server.patches} == {"ours"}
        assert told.reasons() == []
    labels = {"resource_type": "cpu", "nodepool": "auto"}
    assert REGISTRY.get_sample_value("karpenter_nodepools_limit", labels) is None


async def test_a_pool_that_ec2_refuses_says_so_and_stays_ready() -> None:
    """In a condition, an event and a metric; the condition stays, as True, when it is over."""
    changed: list[str] = []
    refusals = LaunchRefusals(changed.append, lambda: NOW)
    breaker = refused(None, "refused", "Unauthorized", "you may not", NOW)
    async with keeping(pool("refused"), pool("other"), refusals=refusals) as (cache, server, told):
        assert server.condition("refused", "NodeLaunchHealthy") == {}, "nothing is said before it is known"
        refusals.update([breaker])
        assert changed == ["refused"]
        cache.changes.publish(Topic.POOL, "refused")
        await asyncio.sleep(MOMENT)
        condition = server.condition("refused", "NodeLaunchHealthy")
        assert (condition["status"], condition["reason"]) == ("False", "Unauthorized")
        assert "you may not" in condition["message"]
        assert server.condition("refused", "Ready")["status"] == "True"
        assert server.condition("other", "NodeLaunchHealthy") == {}
        assert told.reasons().count("LaunchesHeldBack") == 1
        assert measured_breaker("refused") == 1
        before = PlanningView(cache).fingerprint()

        refusals.update([])
        cache.changes.publish(Topic.POOL, "refused")
        await asyncio.sleep(MOMENT)
        assert server.condition("refused", "NodeLaunchHealthy")["status"] == "True"
        assert measured_breaker("refused") == 0
        assert PlanningView(cache).fingerprint() != before, "pods that waited for the pool are planned again"


async def test_a_deleted_pool_no_longer_counts_as_held_back() -> None:
    """An alert on the metric would otherwise fire for ever."""
    refusals = LaunchRefusals(now=lambda: NOW)
    refusals.update([refused(None, "deleted", "Unauthorized", "you may not", NOW)])
    async with keeping(pool("deleted"), refusals=refusals) as (cache, _, _):
        assert measured_breaker("deleted") == 1
        cache.pools.on_event("deleted", None)
        await asyncio.sleep(MOMENT)
        assert measured_breaker("deleted") == 0


async def test_wsh01_a_pool_that_is_slowed_down_says_so_until_its_consolidation_pays() -> None:
    changed: list[str] = []
    slowed = SlowedPools(changed.append)
    poor = PoolSavings(short=2, predicted=0.2, reached=0.05, at=datetime.now(UTC))
    async with keeping(pool("slow"), pool("other"), slowed=slowed) as (cache, server, told):
        slowed.update({"slow": poor})
        assert changed == ["slow"]
        cache.changes.publish(Topic.POOL, "slow")
        await asyncio.sleep(MOMENT)
        found = server.condition("slow", "ConsolidationSlowed")
        assert (found["status"], found["reason"]) == ("True", "WaitsAfterCommand")
        assert "saved $0.0500 an hour instead of $0.2000" in found["message"]
        assert server.condition("slow", "Ready")["status"] == "True"
        assert server.condition("other", "ConsolidationSlowed") == {}
        said = [event for event in told.events if event[2] == "ConsolidationSlowed"]
        assert said == [("NodePool", "slow", "ConsolidationSlowed", found["message"])]

        slowed.update({"slow": poor})
        slowed.update({})
        assert changed == ["slow", "slow"]
        cache.changes.publish(Topic.POOL, "slow")
        await asyncio.sleep(MOMENT)
        assert server.condition("slow", "ConsolidationSlowed") == {}


def measured_breaker(name: str) -> float | None:
    return REGISTRY.get_sample_value("tenon_nodepools_launches_held_back", {"nodepool": name})


async def test_a_status_that_is_true_is_not_written_again() -> None:
    """Each write wakes everybody who watches NodePools, this controller first of all."""
    async with keeping(pool("default")) as (cache, server, _):
        assert server.condition("default", "Ready")["status"] == "True"
        await asyncio.sleep(10 * MOMENT)
        written = len(server.patches)
        cache.publish(claim("a", node_name=""))
        await asyncio.sleep(200 * MOMENT)
        assert len(server.patches) == written


async def test_all_pools_are_counted_together_and_once_a_second_however_much_changes() -> None:
    """Each walk over 5,000 nodes holds up the leader's event loop."""
    async with keeping(pool("a"), pool("b"), pool("c")) as (cache, _, _):
        walks: list[float] = []
        clock, counted = asyncio.get_running_loop().time, cache.pool_usages

        def counting(**how: bool) -> Mapping[str, Resources]:
            walks.append(clock())
            return counted(**how)

        cache.pool_usages = counting  # type: ignore[method-assign]
        began = clock()
        while clock() < began + 10:
            cache.publish(claim(f"a-{clock()}", node_name=""))
            await asyncio.sleep(0.1)
        assert 5 <= len(walks) <= 12


async def test_nodes_and_resources_follow_the_claims_of_the_pool() -> None:
    """``kubectl get nodepools`` shows how many nodes there are."""
    async with keeping(pool("pool")) as (cache, server, _):
        assert server.status("pool")["nodes"] == 0
        cache.publish(claim("a", node_name="", status={"capacity": {"cpu": "4"}}))
        await asyncio.sleep(3 * MOMENT)
        assert server.status("pool")["nodes"] == 1


async def test_dis75_claims_of_a_pool_that_another_controller_hashed_are_hashed_anew() -> None:
    """QRK-15: with the pool itself, claims first."""
    theirs = {"karpenter.sh/nodepool-hash": "7", "karpenter.sh/nodepool-hash-version": "v3"}
    adopted = pool("pool")
    adopted["metadata"]["annotations"] = theirs
    async with keeping() as (cache, server, _):
        cache.publish(claim("a", node_name=""))
        put(cache, adopted)
        await asyncio.sleep(3 * MOMENT)
        written = [name for name, subresource in server.patches if not subresource]
        assert written.index("a") < written.index("pool")
        ours = cache.pools.get("pool")
        assert ours is not None
        assert ours.annotations["karpenter.sh/nodepool-hash-version"] == "tenon-v1"


async def test_dis75_a_claim_of_another_controller_that_is_seen_late_is_hashed_again() -> None:
    """The cache may be behind what Karpenter wrote last; with a version of its own the claim could never drift."""
    async with keeping(pool("pool")) as (cache, server, _):
        theirs = {"karpenter.sh/nodepool-hash": "7", "karpenter.sh/nodepool-hash-version": "v3"}
        cache.publish(claim("late", node_name="", meta={"annotations": theirs}))
        cache.publish(claim("unhashed", node_name=""))
        await asyncio.sleep(3 * MOMENT)
        written = [name for name, subresource in server.patches if not subresource]
        assert "late" in written
        assert "unhashed" not in written


async def test_a_pool_that_cannot_be_read_does_not_stop_the_others() -> None:
    unreadable = pool("a", {"template/spec/requirements": "nonsense"})
    async with keeping(unreadable, pool("b")) as (_, server, told):
        assert server.condition("b", "Ready")["status"] == "True"
        assert ("NodePool", "a", "NodePoolValidationFailed") in [event[:3] for event in told.events]


async def test_a_pool_that_cannot_be_written_does_not_stop_the_others() -> None:
    async with keeping(pool("a"), pool("b"), broken="a") as (_, server, _told):
        assert server.condition("b", "Ready")["status"] == "True"


async def test_an_invalid_pool_is_told_of_once_and_recovers() -> None:
    schedule = {"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}
    async with keeping(pool("a", schedule)) as (cache, server, told):
        await asyncio.sleep(200 * MOMENT)
        assert told.reasons() == ["NodePoolValidationFailed"]
        assert server.condition("a", "ValidationSucceeded")["status"] == "False"
        mended = pool("a")
        put(cache, {**mended, "status": server.status("a")})
        await asyncio.sleep(3 * MOMENT)
        assert server.condition("a", "Ready")["status"] == "True"


async def test_pools_that_take_the_same_pods_are_told_of_once_and_stay_ready() -> None:
    """Informative: a condition and one event on each, naming the other; weights settle it."""
    async with keeping(pool("a"), pool("b")) as (cache, server, told):
        await asyncio.sleep(200 * MOMENT)
        assert told.reasons() == ["SamePodsSameWeight", "SamePodsSameWeight"]
        assert "NodePool b" in server.condition("a", "Overlapping")["message"]
        assert "NodePool a" in server.condition("b", "Overlapping")["message"]
        assert server.condition("a", "Ready")["status"] == "True"
        heavier = {**pool("b", {"weight": 10}), "status": server.status("b")}
        heavier["metadata"]["generation"] = 2
        put(cache, heavier)
        await asyncio.sleep(3 * MOMENT)
        assert server.condition("a", "Overlapping") == server.condition("b", "Overlapping") == {}


async def test_unknown_values_beside_known_ones_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """NP-V8: the pool goes on with the values that there are."""
    term = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "free"]}
    async with keeping(pool("a", {"template/spec/requirements": [term]})) as (cache, server, _):
        cache.publish(claim("x", node_name="", meta={"labels": {"karpenter.sh/nodepool": "a"}}))
        await asyncio.sleep(200 * MOMENT)
        assert server.condition("a", "Ready")["status"] == "True"
    (line,) = [record for record in caplog.records if record.message == "A NodePool names unknown values"]
    assert "unknown values free are ignored" in line.__dict__["error"]


async def test_a_pool_that_fails_does_not_end_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    """An error that nobody foresaw would otherwise end the whole process, again and again."""
    async with keeping(pool("a"), pool("b")) as (cache, server, _):
        real, server.patch = server.patch, _unforeseen  # type: ignore[method-assign]
        cache.publish(claim("x", node_name="", meta={"labels": {"karpenter.sh/nodepool": "a"}}))
        await asyncio.sleep(3 * MOMENT)
        server.patch = real  # type: ignore[method-assign]
        cache.publish(claim("y", node_name="", meta={"labels": {"karpenter.sh/nodepool": "b"}}))
        await asyncio.sleep(3 * MOMENT)
        assert (server.status("a")["nodes"], server.status("b")["nodes"]) == (1, 1)
    (line,) = [record for record in caplog.records if record.exc_info]
    assert line.getMessage() == "The controller failed to reconcile for an unexpected reason and retries"
    assert line.__dict__["nodepool"] == "a"


async def _unforeseen(*_: object, **__: object) -> None:
    raise LookupError("nobody foresaw this")


HEALTH = "NodeRegistrationHealthy"
LAUNCHED = {"type": "Launched", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
REGISTERED = {"type": "Registered", "status": "True", "lastTransitionTime": "2026-03-01T12:01:00Z"}
TIMED_OUT = "2026-03-01T12:15:00Z"


def in_pool(name: str, *conditions: dict[str, str], deleted: str = "", pool: str = "web") -> Any:
    meta: dict[str, Any] = {"labels": {"karpenter.sh/nodepool": pool}}
    if deleted:
        meta["deletionTimestamp"] = deleted
    return claim(name, node_name=name, meta=meta, status={"conditions": list(conditions)})


async def test_lif06_ctl21_a_pool_says_whether_its_nodes_register() -> None:
    async with keeping(pool("web"), pool("other", {"weight": 5})) as (cache, server, told):

        async def health_after(*claims: Any) -> str:
            cache.publish(*claims)
            await asyncio.sleep(MOMENT)
            return str(server.condition("web", HEALTH)["status"])

        assert await health_after() == "Unknown"
        assert await health_after(in_pool("a", LAUNCHED)) == "Unknown"
        assert await health_after(in_pool("a", LAUNCHED, REGISTERED)) == "True"
        assert await health_after(in_pool("b", LAUNCHED, deleted=TIMED_OUT)) == "True"
        assert await health_after(in_pool("b", LAUNCHED, deleted=TIMED_OUT)) == "True", "one claim is one result"
        assert await health_after(in_pool("c", LAUNCHED, deleted=TIMED_OUT)) == "False"
        assert "NodeClaim c did not register" in server.condition("web", HEALTH)["message"]
        assert server.condition("web", "Ready")["status"] == "True", "it only informs"
        assert server.condition("other", HEALTH)["status"] == "Unknown"
        assert told.reasons() == []
        more = [in_pool(name, LAUNCHED, REGISTERED) for name in "def"]
        assert await health_after(*more) == "True", "only the last four count"


@pytest.mark.parametrize("changed", ["pool", "class"])
async def test_lif06_nps3_a_change_of_pool_or_class_forgets_the_results(changed: str) -> None:
    async with keeping(pool("web")) as (cache, server, _):
        cache.publish(*(in_pool(name, LAUNCHED, deleted=TIMED_OUT) for name in "ab"))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "False"
        if changed == "pool":
            record = cache.pools.get("web")
            assert record is not None
            put(cache, {**record.body, "metadata": {"name": "web", "generation": 2}})
        else:
            newer = {**EC2NODECLASS, "metadata": metadata("default", generation=7), "status": {"conditions": [READY]}}
            cache.nodeclasses.on_event("default", decode_object(json.dumps(newer).encode()))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "Unknown"
        if changed == "class":
            assert server.status("web")["nodeClassObservedGeneration"] == 7
        cache.publish(in_pool("c", LAUNCHED, REGISTERED))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "True"


async def test_ctl21_a_new_leader_takes_over_the_condition_and_counts_what_it_sees_happen() -> None:
    async with keeping(pool("web")) as (cache, server, _):
        cache.publish(*(in_pool(name, LAUNCHED, deleted=TIMED_OUT) for name in "ab"))
        await asyncio.sleep(MOMENT)
        record = cache.pools.get("web")
        assert record is not None
        left = dict(record.body)
    old = [in_pool(name, LAUNCHED, REGISTERED) for name in ("old", "older", "oldest")]
    async with keeping(left, claims=old) as (cache, server, _):
        assert server.condition("web", HEALTH)["status"] == "False"
        cache.publish(*(in_pool(name, LAUNCHED, REGISTERED) for name in "def"))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "True"
