"""The leader's part of rollouts: what it observes, and which workflows it starts and pokes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import NODEROLLOUTS, Resource
from activities.rollout.advancing import RolloutAdvancer
from activities.rollout.launchable import VersionTypes
from activities.rollout.statuses import status_rows
from tenon.apis import labels
from tenon.disruption.decision import DisruptionBlocked
from tenon.kube.decode import decode_object
from tenon.messages.rollout import AdvanceRolloutInput, PoolProgress, RolloutAdvance
from tenon.rollout.revisions import to_object
from tests.activities.provisioning.fake_view import UNREADY, FakeTypes, node_class, node_pool
from tests.tenon.schedule.schedules import schedule_body
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, node, owned_by, running
from tests.worker.fake_temporal import MOMENT, Cache, FakeTemporal
from worker.cache.node_versions import decode_revision
from worker.cache.planning_view import PlanningView
from worker.cache.rollout_view import RolloutView
from worker.controllers.nodepool.rollouts import NodeRolloutController
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
REFUSAL = "CreateFleet: InvalidAMIID.NotFound: The image id '[ami-1]' does not exist"
WORKFLOW = names.rollout_id("c", "nodes")


class Server:
    """An API server whose writes reach the cache, and that lists no pods."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.spec: dict[str, Any] = {}
        self.status: dict[str, Any] = {}
        self.uid = "1"
        self.writes = 0
        self.refuses = False
        self._version = 100

    def put(self) -> None:
        self._version += 1
        metadata = {"name": "nodes", "uid": self.uid, "resourceVersion": str(self._version), "generation": 1}
        body = {"metadata": metadata, "spec": self.spec, "status": self.status}
        self.cache.versions.rollouts.on_event("nodes", decode_object(json.dumps(body).encode()))

    def remove(self) -> None:
        self.cache.versions.rollouts.on_event("nodes", None)

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str) -> None:
        assert (resource, name, subresource) == (NODEROLLOUTS, "nodes", "status")
        self.writes += 1
        self.status = {**self.status, **json.loads(json.dumps(patch["status"]))}
        self.put()

    async def list(self, resource: Resource, **_: Any) -> list[dict[str, Any]]:
        if self.refuses:
            raise ForbiddenError(403, "Forbidden", "pods is forbidden")
        return []

    def user_data(self, text: str, *, is_recorded: bool = True) -> None:
        """Make another version."""
        self._version += 1
        body = json.loads(node_class(uid="class").model_dump_json(by_alias=True, exclude_none=True))
        body["spec"]["userData"] = text
        body["metadata"]["resourceVersion"] = str(self._version)
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(body).encode()))
        if is_recorded:
            self.record()

    def pool(self, edits: dict[str, Any]) -> None:
        """Change the NodePool, which makes another version."""
        body = json.loads(node_pool(edits=edits).model_dump_json(by_alias=True, exclude_none=True))
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.cache.pools.on_event("default", decode_object(json.dumps(body).encode()))
        self.record()

    def record(self) -> None:
        """Record the newest version, as another controller does."""
        view = PlanningView(self.cache)
        (pool,) = view.specs()
        revision = view.newest_revision(pool)
        assert revision is not None
        recorded = decode_revision(json.dumps(to_object(revision, "tenon", 1)).encode())
        self.cache.versions.revisions.on_event(recorded.key, recorded)


def cluster() -> tuple[Cache, Server]:
    cache = Cache()
    server = Server(cache)
    pool = json.loads(node_pool().model_dump_json(by_alias=True, exclude_none=True))
    cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
    server.user_data("echo 0")
    return cache, server


def add_node(cache: Cache, name: str, revision: str, *conditions: dict[str, str], warm: str = "") -> None:
    """Add an initialized node. ``warm``: the state of a warm node."""
    annotations = {labels.REVISION: revision, **({labels.WARM: warm} if warm else {})}
    metadata = {"labels": {labels.NODEPOOL: "default"}, "annotations": annotations}
    cache.claims.on_event(name, claim(name, meta=metadata, node_name=name, initialized="2026-11-23T11:00:00Z"))
    cache.nodes.on_event(name, node(name, conditions=conditions))


def refuse_launch(cache: Cache, name: str, revision: str) -> None:
    """A NodeClaim that EC2 refuses, and that is deleted."""
    refused = {"type": "Launched", "status": "Unknown", "reason": "LaunchFailed", "message": REFUSAL}
    metadata = {"labels": {labels.NODEPOOL: "default"}, "annotations": {labels.REVISION: revision}}
    cache.claims.on_event(name, claim(name, meta=metadata, node_name="", status={"conditions": [refused]}))
    cache.claims.on_event(name, None)


class Leader:
    """An advancer on a complete cache."""

    def __init__(self, cache: Cache, server: Server) -> None:
        self.now = NOW
        self.blocked: dict[str, DisruptionBlocked] = {}
        view = PlanningView(cache)
        self.view = RolloutView(cache, view, lambda: self.now, lambda: self.blocked)
        self.view.synced = lambda: True  # type: ignore[method-assign]
        types = VersionTypes(view, FakeTypes())
        self._advancer = RolloutAdvancer(self.view, cast("Any", server), types, lambda: self.now)

    async def advance(self, *pools: PoolProgress, uid: str = "") -> RolloutAdvance:
        return await self._advancer.advance(AdvanceRolloutInput(cluster="c", name="nodes", uid=uid, pools=list(pools)))


async def test_a_new_version_begins_with_one_node_and_a_bad_condition_there_stops_it() -> None:
    cache, server = cluster()
    server.spec = {"strategy": {"waves": ["1", "100%"]}, "onFailure": "Rollback"}
    server.put()
    leader = Leader(cache, server)
    first = await leader.advance()
    (settled,) = first.pools
    assert (settled.phase, first.written, first.look_again) == ("Settled", False, None)
    old = settled.current
    for name in ("a", "b", "d"):
        add_node(cache, name, old)

    server.user_data("echo 1")
    (begun,) = (await leader.advance(settled, uid="1")).pools
    assert (begun.phase, begun.current, begun.claims) == ("Progressing", old, ["a"])

    cache.claims.on_event("a", None)
    add_node(cache, "e", begun.target, {"type": "KernelDeadlock", "status": "True"})
    (failed,) = (await leader.advance(begun, uid="1")).pools
    assert failed.phase == "RollingBack"
    assert "KernelDeadlock=True on e, and on no old node" in failed.message
    (going_back,) = (await leader.advance(failed, uid="1")).pools
    assert going_back.claims == ["e"]


async def test_a_workload_that_was_broken_before_fails_no_version() -> None:
    cache, server = cluster()
    server.spec = {"strategy": {"waves": ["1", "100%"]}}
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    long_ago = "2026-11-20T00:00:00Z"
    broken = running("broken", "a", since=long_ago, meta=owned_by("ReplicaSet", "broken"))
    cache.pods.on_event(broken.key, broken)
    server.user_data("echo 1")
    (begun,) = (await leader.advance(settled, uid="1")).pools
    assert begun.before is not None
    assert begun.before.unready_owners == ["broken"]

    cache.claims.on_event("a", None)
    add_node(cache, "e", begun.target)
    moved = running("broken", "e", since="2026-11-23T11:00:00Z", meta=owned_by("ReplicaSet", "broken"))
    cache.pods.on_event(moved.key, moved)
    (soaking,) = (await leader.advance(begun, uid="1")).pools
    assert (soaking.phase, soaking.soaking_since) == ("Progressing", NOW)

    healthy_before = running("shop", "e", since="2026-11-23T11:00:00Z", meta=owned_by("ReplicaSet", "shop"))
    cache.pods.on_event(healthy_before.key, healthy_before)
    (failed,) = (await leader.advance(begun, uid="1")).pools
    assert (failed.phase, "ns/shop not Ready within 10m" in failed.message) == ("Halted", True)


async def test_a_version_that_is_not_recorded_yet_is_not_followed() -> None:
    """It would be lost with the next change, and launches would have the newest version then."""
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    server.user_data("echo 1", is_recorded=False)
    (waiting,) = (await leader.advance(settled, uid="1")).pools
    assert waiting.phase == "Settled"
    server.record()
    (begun,) = (await leader.advance(waiting, uid="1")).pools
    assert begun.phase == "Progressing"


async def test_what_is_seen_of_a_node() -> None:
    """Pods that wait there count from when they got the node; conditions named Ready are faults if not True."""
    cache, server = cluster()
    server.put()
    add_node(cache, "a", "r", {"type": "StorageReady", "status": "False"}, {"type": "DiskPressure", "status": "False"})
    for pod in (
        running("slow", "a", since="2026-11-23T11:30:00Z"),
        running("ended", "a", status={"phase": "Succeeded"}),
        running("agent", "a", since="2026-11-23T11:31:00Z", meta=owned_by("DaemonSet")),
    ):
        cache.pods.on_event(pod.key, pod)
    (observed,) = Leader(cache, server).view.nodes_of("default")
    assert observed.faults == {"StorageReady=False"}
    assert {(pod.name, pod.placed.minute) for pod in observed.waiting_pods} == {("ns/slow", 30), ("ns/agent", 31)}
    assert (observed.node.revision, observed.node.initialized, observed.node_name) == ("r", True, "a")


@pytest.mark.parametrize(("state", "counts"), [("filling", True), ("stopped", False), ("starting", False)])
async def test_faults_of_a_warm_node_count_only_while_its_instance_runs(state: str, counts: bool) -> None:
    """Otherwise its Node, which is not Ready, and the pods of DaemonSets there would excuse those of new nodes."""
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    add_node(cache, "a", settled.current)
    add_node(cache, "w", settled.current, {"type": "StorageReady", "status": "Unknown"}, warm=state)
    agent = running("agent", "w", since="2026-11-20T00:00:00Z", meta=owned_by("DaemonSet", "agent"))
    cache.pods.on_event(agent.key, agent)
    server.user_data("echo 1")
    (begun,) = (await leader.advance(settled, uid="1")).pools
    assert begun.before is not None
    assert begun.before.faults == (["StorageReady=Unknown"] if counts else [])
    assert begun.before.unready_owners == (["agent"] if counts else [])


@pytest.mark.parametrize(("state", "is_warm"), [("", False), ("filling", True), ("stopped", True), ("starting", False)])
async def test_a_warm_node_is_an_ordinary_one_once_it_starts_for_pods(state: str, is_warm: bool) -> None:
    cache, server = cluster()
    server.put()
    add_node(cache, "w", "r", warm=state)
    (observed,) = Leader(cache, server).view.nodes_of("default")
    assert observed.node.warm is is_warm


async def test_a_rollout_that_was_made_again_begins_anew_and_one_that_is_gone_ends() -> None:
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    progress = PoolProgress(pool="default", current="old", phase="Halted", target="bad")
    (next_progress,) = (await leader.advance(progress, uid="1")).pools
    assert next_progress.phase == "Progressing", "a later version than the one that failed begins"
    server.uid = "2"
    server.put()
    (new_progress,) = (await leader.advance(progress, uid="1")).pools
    assert new_progress.phase == "Settled"
    server.remove()
    assert not (await leader.advance(progress, uid="2")).exists


async def test_a_status_that_says_the_same_is_not_written_again() -> None:
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    server.status = {"nodePools": status_rows([settled])}
    server.put()
    assert (await leader.advance(settled, uid="1")).written
    server.status = {}
    server.put()
    assert not (await leader.advance(settled, uid="1")).written, "somebody wiped it"


async def test_pods_that_cannot_be_listed_leave_the_nodepool_as_it_is_and_the_message_says_so() -> None:
    """Others go on: the answer comes, with a time for the next look."""
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    add_node(cache, "a", settled.current)
    server.user_data("echo 1")
    (begun,) = (await leader.advance(settled, uid="1")).pools
    server.refuses = True
    answer = await leader.advance(begun, uid="1")
    assert answer.look_again is not None
    assert (answer.pools[0].phase, answer.pools[0].claims) == (begun.phase, begun.claims)
    assert "the pods of a node cannot be listed" in answer.pools[0].message


async def test_a_node_that_drift_cannot_remove_gives_its_place_to_another_one() -> None:
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    server.user_data("echo 1")
    leader.blocked = {
        "a": DisruptionBlocked("NodeRollout nodes replaces it", "pod shop/job has the annotation do-not-disrupt")
    }
    (progress,) = (await leader.advance(settled, uid="1")).pools
    (progress,) = (await leader.advance(progress, uid="1")).pools
    assert progress.claims == ["a"]
    leader.now += timedelta(minutes=30)
    (progress,) = (await leader.advance(progress, uid="1")).pools
    assert progress.claims == ["b"]
    assert "a (pod shop/job has the annotation do-not-disrupt)" in progress.message


async def test_a_version_that_ec2_never_launches_fails_its_wave_with_ec2s_sentence() -> None:
    """The NodeClaims that EC2 refuses are gone when the leader looks."""
    cache, server = cluster()
    server.spec = {"onFailure": "Rollback"}
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    server.user_data("echo 1")
    (progress,) = (await leader.advance(settled, uid="1")).pools
    for minutes in range(0, 16, 5):
        leader.now = NOW + timedelta(minutes=minutes)
        refuse_launch(cache, f"try-{minutes}", progress.target)
        (progress,) = (await leader.advance(progress, uid="1")).pools
        assert progress.phase == "Progressing"
    leader.now += timedelta(minutes=1)
    (progress,) = (await leader.advance(progress, uid="1")).pools
    assert progress.phase == "RollingBack"
    assert f"no new node initialized since 2026-11-23 12:00:00 UTC, within 15m: {REFUSAL}" in progress.message
    assert REFUSAL in progress.history[-1].outcome


@pytest.mark.parametrize("busy", [True, False])
async def test_a_version_without_any_instance_type_fails_its_wave_and_says_why(busy: bool) -> None:
    """No plan buys a node of it, so EC2 refuses nothing. It fails also if its nodes are empty and just leave."""
    cache, server = cluster()
    server.spec = {"onFailure": "Rollback"}
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    unknown = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.huge"]}]
    server.pool({"template/spec/requirements": unknown})
    (progress,) = (await leader.advance(settled, uid="1")).pools
    sentence = "no available instance type meets its requirement node.kubernetes.io/instance-type In [m5.huge]"
    for minutes in range(0, 16, 5):
        leader.now = NOW + timedelta(minutes=minutes)
        (progress,) = (await leader.advance(progress, uid="1")).pools
        assert progress.phase == "Progressing"
        if not busy:
            cache.claims.on_event("a", None)
            cache.claims.on_event("b", None)
    leader.now += timedelta(minutes=1)
    (progress,) = (await leader.advance(progress, uid="1")).pools
    assert progress.phase == "RollingBack"
    assert f"no new node initialized since 2026-11-23 12:00:00 UTC, within 15m: {sentence}" in progress.message


async def test_what_a_version_can_launch_is_not_judged_while_ec2_or_its_class_does_not_tell() -> None:
    cache, server = cluster()
    server.put()
    server.pool(
        {"template/spec/requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.huge"]}]}
    )
    view, types = PlanningView(cache), FakeTypes()
    launches = VersionTypes(view, types)
    (pool,) = view.specs()
    assert await launches.why_none(pool)

    def is_away() -> None:
        raise EC2Error("Unavailable", "EC2 is away")

    types.on_read = is_away
    assert await launches.why_none(pool) == ""
    types.on_read = lambda: None
    body = json.loads(node_class("default", UNREADY).model_dump_json(by_alias=True, exclude_none=True))
    body["metadata"]["resourceVersion"] = "1000"
    cache.nodeclasses.on_event("default", decode_object(json.dumps(body).encode()))
    assert await launches.why_none(pool) == ""


async def test_no_wave_begins_while_a_schedule_has_the_nodepool_off() -> None:
    cache, server = cluster()
    server.put()
    cache.clock = NOW.timestamp
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    add_node(cache, "a", settled.current)
    body = schedule_body({"from": "00:00", "to": "00:00", "closed": True}, nodePools=["default"])
    body["metadata"] = metadata("hours")
    cache.schedules.on_event("hours", decode_object(json.dumps(body).encode()))
    server.user_data("echo 1")
    (progress,) = (await leader.advance(settled, uid="1")).pools
    assert progress.claims == []
    assert progress.message.startswith("wave 1 waits: the NodePool launches no nodes, because it is off for more than")


async def test_a_launch_that_succeeds_ends_a_refusal() -> None:
    cache, server = cluster()
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    server.user_data("echo 1")
    (progress,) = (await leader.advance(settled, uid="1")).pools
    refuse_launch(cache, "try", progress.target)
    assert leader.view.refusal("default", progress.target) == REFUSAL
    registered = {"type": "Registered", "status": "True"}
    metadata = {"labels": {labels.NODEPOOL: "default"}, "annotations": {labels.REVISION: progress.target}}
    cache.claims.on_event("c", claim("c", meta=metadata, node_name="c", status={"conditions": [registered]}))
    assert leader.view.refusal("default", progress.target) == ""


def gauge(name: str, **more: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"noderollout": "nodes", "nodepool": "default", **more})


async def test_metrics_say_how_far_a_rollout_is_and_drop_to_zero_with_it() -> None:
    cache, server = cluster()
    server.spec = {"gates": {"approval": [2]}, "strategy": {"soak": "0s"}}
    server.put()
    leader = Leader(cache, server)
    (settled,) = (await leader.advance()).pools
    assert gauge("tenon_rollout_state", state="settled") == 1
    for name in ("a", "b"):
        add_node(cache, name, settled.current)
    server.user_data("echo 1")
    (progress,) = (await leader.advance(settled, uid="1")).pools
    assert (gauge("tenon_rollout_state", state="progressing"), gauge("tenon_rollout_state", state="settled")) == (1, 0)
    assert gauge("tenon_rollout_wave") == 1
    assert gauge("tenon_rollout_wave_began_timestamp_seconds") == NOW.timestamp()
    assert gauge("tenon_rollout_nodes", kind="leaving") == 1

    cache.claims.on_event("a", None)
    add_node(cache, "e", progress.target)
    (progress,) = (await leader.advance(progress, uid="1")).pools
    assert progress.awaits_approval
    assert gauge("tenon_rollout_state", state="awaits_approval") == 1
    assert gauge("tenon_rollout_nodes", kind="replaced") == 1
    assert gauge("tenon_rollout_wave_began_timestamp_seconds") == 0

    server.remove()
    await leader.advance(progress, uid="1")
    states = ("settled", "progressing", "awaits_approval")
    assert [gauge("tenon_rollout_state", state=state) for state in states] == [0, 0, 0]
    assert (gauge("tenon_rollout_wave"), gauge("tenon_rollout_nodes", kind="replaced")) == (0, 0)


async def test_an_incomplete_cache_decides_nothing() -> None:
    cache, server = cluster()
    leader = Leader(cache, server)
    leader.view.synced = lambda: False  # type: ignore[method-assign]
    with pytest.raises(ApplicationError, match="not synced"):
        await leader.advance()


# --- the controller ---


@contextlib.asynccontextmanager
async def controlled(cache: Cache, server: Server) -> AsyncIterator[FakeTemporal]:
    temporal = FakeTemporal()
    view = PlanningView(cache)
    controller = NodeRolloutController(cast("Client", temporal), cast("Any", server), cache, view, "c", "leader-queue")
    async with in_background(controller.run()):
        await asyncio.sleep(2 * MOMENT)
        yield temporal


def signals(temporal: FakeTemporal) -> list[str]:
    return [signal for workflow, signal, _ in temporal.signals if workflow == WORKFLOW]


async def test_without_a_rollout_nothing_is_started() -> None:
    cache, server = cluster()
    async with controlled(cache, server) as temporal:
        server.user_data("echo 1")
        await asyncio.sleep(2 * MOMENT)
        assert (temporal.starts, temporal.signals) == ([], [])


async def test_a_rollout_that_went_while_another_replica_led_has_no_state() -> None:
    cache, server = cluster()
    server.put()
    await Leader(cache, server).advance()
    async with controlled(cache, server):
        assert gauge("tenon_rollout_state", state="settled") == 1
    async with controlled(*cluster()):
        assert gauge("tenon_rollout_state", state="settled") == 0


async def test_a_rollout_gets_a_workflow_that_knows_this_leader_and_hears_of_new_versions() -> None:
    cache, server = cluster()
    server.put()
    async with controlled(cache, server) as temporal:
        assert [ident for ident, _ in temporal.starts] == [WORKFLOW]
        assert signals(temporal) == ["planner_started", "poke"]
        server.put()
        await asyncio.sleep(2 * MOMENT)
        assert signals(temporal) == ["planner_started", "poke"], "nothing changed"
        server.user_data("echo 1")
        await asyncio.sleep(2 * MOMENT)
        assert signals(temporal) == ["planner_started", "poke", "poke"]
        server.remove()
        await asyncio.sleep(2 * MOMENT)
        assert signals(temporal) == ["planner_started", "poke", "poke", "poke"], "it looks, and ends"


async def test_the_end_of_a_node_of_a_wave_moves_the_rollout_on() -> None:
    cache, server = cluster()
    add_node(cache, "a", "old")
    add_node(cache, "b", "old")
    row = {"name": "default", "phase": "RollingBack", "currentRevision": "", "waveClaims": ["a"]}
    server.status = {"nodePools": [row]}
    server.put()
    async with controlled(cache, server) as temporal:
        before = len(signals(temporal))
        cache.claims.on_event("b", None)
        await asyncio.sleep(2 * MOMENT)
        assert len(signals(temporal)) == before
        cache.claims.on_event("a", None)
        await asyncio.sleep(2 * MOMENT)
        assert len(signals(temporal)) == before + 1


async def test_what_is_wrong_with_a_rollout_is_in_its_conditions() -> None:
    cache, server = cluster()
    server.spec = {"windows": [{"schedule": "0 0 31 2 *", "duration": "1h"}]}
    server.put()
    async with controlled(cache, server):
        conditions = {condition["type"]: condition for condition in server.status["conditions"]}
        assert conditions["Ready"]["status"] == "False"
        assert "spec.windows[0]" in conditions["ValidationSucceeded"]["message"]
        server.spec = {}
        server.put()
        await asyncio.sleep(2 * MOMENT)
        conditions = {condition["type"]: condition for condition in server.status["conditions"]}
        assert conditions["Ready"]["status"] == "True"
        writes = server.writes
        server.put()
        await asyncio.sleep(2 * MOMENT)
        assert server.writes == writes
