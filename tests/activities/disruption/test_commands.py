"""The steps of a disruption command until its nodes are asked to leave: taint, replace, wait, look again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.errors import ApiError, ConflictError, ForbiddenError
from activities.kubernetes.resources import DEPLOYMENTS, NODECLAIMS, PDBS
from activities.node.cordon import withdraw
from tenon.disruption.history.arrivals import Arrival, read_arrivals
from tenon.messages.command_steps import ReplacementsInput
from tenon.messages.disruption import RepairCause, StepResult
from tenon.messages.node import RebootAnswer, RebootRequest
from tests.activities.disruption.command_setting import ID, annotations_of, command, given, replacement, steps
from tests.activities.node.fake_kube import START
from tests.activities.node.world import DISRUPTED, REF, World, condition, pod

BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"


def budget(allowed: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


async def test_dis_60_candidates_are_tainted_but_keep_their_load_balancers() -> None:
    world = World().put_live()
    assert (await steps(world).taint_candidates(given())).failure == ""
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert BALANCERS not in world.node["metadata"]["labels"]
    assert world.status_of("DisruptionReason") == ("True", "Underutilized")
    assert annotations_of(world)["tenon.sh/disrupted-by"] == ID
    assert "deletionTimestamp" not in world.claim["metadata"]
    assert ("NodeClaim", REF.name, "DisruptionWaitingReadiness") in [event[:3] for event in world.recorder.events]


async def test_a_candidate_of_another_command_is_left_alone() -> None:
    world = World().put_live()
    annotations_of(world)["tenon.sh/disrupted-by"] = "drifted-2"
    assert "belongs to command drifted-2" in (await steps(world).taint_candidates(given())).failure
    assert world.node["spec"]["taints"] == []


async def test_a_candidate_that_leaves_already_ends_the_command() -> None:
    world = World().put_live()
    await world.kube.delete(NODECLAIMS, REF.name)
    assert "is already leaving" in (await steps(world).taint_candidates(given())).failure


async def test_a_candidate_whose_node_is_deleted_ends_the_command() -> None:
    world = World().put_live()
    world.node["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert "already leaving" in (await steps(world).taint_candidates(given())).failure
    assert "tenon.sh/disrupted-by" not in annotations_of(world)


@pytest.mark.parametrize(("status", "retried"), [(401, True), (408, True), (429, True), (500, True), (422, False)])
async def test_a_replacement_is_created_again_unless_the_api_server_judged_it(status: int, *, retried: bool) -> None:
    world = World().put_live()

    async def refuse(*_: Any, **__: Any) -> None:
        raise ApiError(status, "Refused", "not now")

    world.kube.create = refuse
    if retried:
        with pytest.raises(ApiError):
            await steps(world).create_replacements(given())
    else:
        assert "not now" in (await steps(world).create_replacements(given())).failure


async def test_dis_61_replacements_are_created_once() -> None:
    world = World().put_live()
    for _ in range(2):
        assert (await steps(world).create_replacements(given())).failure == ""
    assert world.kube.names(NODECLAIMS) == [REF.name, "web-new"]
    events = [event[:4] for event in world.recorder.events]
    assert events == [("NodeClaim", "web-new", "DisruptionLaunching", "Launching NodeClaim: Underutilized")]


async def test_a_name_that_another_nodeclaim_has_is_not_taken_for_the_replacement() -> None:
    world = World().put_live()
    other = replacement()
    other["metadata"]["annotations"] = {}
    world.kube.add(NODECLAIMS, other)
    assert "is taken" in (await steps(world).create_replacements(given())).failure


async def look(world: World, **changes: Any) -> StepResult:
    """What a check of the replacement says, if it has changed like this."""
    world.kube.add(NODECLAIMS, replacement() | changes)
    replacements_input = ReplacementsInput(cluster=REF.cluster, command=command(), until=START + timedelta(minutes=10))
    return await ActivityEnvironment().run(steps(world).look_at_replacements, replacements_input)


@pytest.mark.parametrize(
    ("conditions", "waits"),
    [
        ([], "web-new waits for its instance"),
        (["Launched"], "web-new waits for its Node"),
        (["Launched", "Registered"], "web-new waits until its Node is ready"),
        (["Launched", "Registered", "Initialized"], ""),
    ],
)
async def test_dis_63_a_command_waits_until_its_replacements_are_initialized(conditions: list[str], waits: str) -> None:
    """A Node that is only registered may not run pods yet."""
    status = {"conditions": [condition(name) for name in conditions]}
    world = World().put_live()
    assert await look(world, status=status) == StepResult(waits=waits)
    assert world.clock.slept == 0, "the activity holds no worker slot while the command waits"


async def test_dis_65_a_replacement_that_goes_away_fails_the_command() -> None:
    manifest = {"metadata": {**replacement()["metadata"], "deletionTimestamp": "2026-03-01T12:00:01Z"}}
    refused = {"type": "Launched", "status": "Unknown", "reason": "InsufficientCapacity", "message": "no capacity"}
    answer = await look(World().put_live(), **manifest, status={"conditions": [refused]})
    assert answer == StepResult(failure="replacement web-new is gone: no capacity")


@pytest.mark.parametrize(
    ("reason", "graceful", "why"),
    [
        ("Underutilized", True, "pod default/late-1 came after the decision"),
        ("Drifted", False, ""),
    ],
)
async def test_a_pod_that_came_after_the_decision_ends_a_consolidation(reason: str, graceful: bool, why: str) -> None:
    world = World().put_live().put_pods(pod("web-1"), pod("late-1"), pod("agent-1", owner="DaemonSet"))
    answer = await steps(world).check_candidates(given("web-1", reason=reason, graceful=graceful))
    assert answer.failure == (f"NodeClaim {REF.name}: {why}" if why else "")


@pytest.mark.parametrize("owner", ["ReplicaSet", "DaemonSet"])
async def test_dis_13_a_pod_that_became_protected_ends_a_graceful_command(owner: str) -> None:
    body = pod("web-1", owner=owner)
    body["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    world = World().put_live().put_pods(body)
    assert "karpenter.sh/do-not-disrupt protects it" in (await steps(world).check_candidates(given("web-1"))).failure
    events = [event[:3] for event in world.recorder.events]
    assert ("NodeClaim", REF.name, "DisruptionBlocked") in events
    assert ("Node", world.node["metadata"]["name"], "DisruptionBlocked") in events


@pytest.mark.parametrize(
    ("allowed", "spec", "why"),
    [
        (0, {}, "PodDisruptionBudget default/web allows no eviction"),
        (1, {}, ""),
        (0, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, ""),
    ],
)
async def test_dis_13_a_budget_that_allows_nothing_ends_a_graceful_command(
    allowed: int, spec: dict[str, Any], why: str
) -> None:
    world = World().put_live().put_pods(pod("web-1"))
    world.kube.add(PDBS, budget(allowed, **spec))
    failure = (await steps(world).check_candidates(given("web-1"))).failure
    assert failure == (f"NodeClaim {REF.name}: pod default/web-1: {why}" if why else "")


async def test_a_budget_does_not_protect_a_pod_that_a_drain_leaves_alone() -> None:
    """It tolerates the taint. Otherwise the command would buy a replacement and be undone, again and again."""
    world = World().put_live().put_pods(pod("web-1", owner="DaemonSet", tolerations=[{"operator": "Exists"}]))
    world.kube.add(PDBS, budget(0))
    assert (await steps(world).check_candidates(given())).failure == ""


class Rollout:
    """A Deployment whose controller replaces its pod between two attempts of the step, if it ``works``."""

    def __init__(self, world: World, *, replicas: int = 1, works: bool = True) -> None:
        self.world = world
        self.works = works
        self.waited: set[tuple[str, ApplicationErrorCategory, bool]] = set()
        """The errors of the attempts that had to wait."""
        done = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas}
        body = {
            "metadata": {"name": "web", "namespace": "default", "generation": 1},
            "spec": {"replicas": replicas, "template": {"metadata": {}}},
            "status": {**done, "availableReplicas": replicas},
        }
        world.kube.add(DEPLOYMENTS, body)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "o", "controller": True}
        running = pod("web-5d8f-x1")
        running["metadata"]["labels"]["pod-template-hash"] = "5d8f"
        running["metadata"] |= {"annotations": {"tenon.sh/surge": "true"}, "ownerReferences": [owner]}
        world.put_pods(running)

    async def start(self) -> str:
        """Repeat the step, as Temporal does, until it ends; why it failed.

        The API server counts the change of the spec.
        """
        replacements_input = ReplacementsInput(
            cluster=REF.cluster, command=command(surge=["default/web"]), until=START + timedelta(minutes=10)
        )
        self.world.kube.before_patch.append(self._counts)
        while True:
            try:
                return (
                    await ActivityEnvironment().run(steps(self.world).start_new_pods_first, replacements_input)
                ).failure
            except ApplicationError as error:
                self.waited.add((str(error), error.category, error.non_retryable))
            await self.world.clock.sleep(1)
            if self.works:
                deployment = self.world.kube.objects[("deployments", "default", "web")]
                deployment["status"]["observedGeneration"] = deployment["metadata"]["generation"]

    def _counts(self) -> None:
        self.world.kube.objects[("deployments", "default", "web")]["metadata"]["generation"] += 1

    @property
    def restarts(self) -> int:
        return int(self.world.kube.calls.count(("patch", "deployments", "web", "")))


async def test_wsh16_a_single_replica_is_restarted_once_and_waited_for() -> None:
    rollout = Rollout(World().put_live())
    assert await rollout.start() == ""
    assert (rollout.restarts, rollout.world.clock.slept) == (1, 1)
    assert rollout.waited == {
        ("Deployment default/web has not replaced its pods", ApplicationErrorCategory.BENIGN, False)
    }
    assert await rollout.start() == ""
    assert rollout.restarts == 1, "a repetition does not restart it again"


@pytest.mark.parametrize(("allowed", "restarts"), [(1, 0), (0, 1)])
async def test_wsh16_of_several_replicas_only_those_at_their_budgets_limit_are_restarted(
    allowed: int, restarts: int
) -> None:
    rollout = Rollout(World().put_live(), replicas=3)
    rollout.world.kube.add(PDBS, budget(allowed))
    assert await rollout.start() == ""
    assert rollout.restarts == restarts


async def test_wsh16_a_rollout_that_moves_the_pod_already_is_waited_for_and_not_restarted() -> None:
    """Another command restarted it. A restart of its rollout would delay both, and be answered by the next restart."""
    rollout = Rollout(World().put_live())
    deployment = rollout.world.kube.objects["deployments", "default", "web"]
    deployment["metadata"] |= {"generation": 2, "annotations": {"tenon.sh/surged-for": "drifted-2"}}
    pods = [name for plural, _, name in rollout.world.kube.objects if plural == "pods"]

    def moves() -> None:
        for name in pods:
            rollout.world.kube.objects.pop(("pods", "default", name), None)

    rollout.world.clock.on_tick.append(moves)
    assert await rollout.start() == ""
    assert (rollout.restarts, rollout.world.clock.slept) == (0, 1)
    assert deployment["metadata"]["annotations"] == {"tenon.sh/surged-for": "drifted-2"}


async def test_wsh16_of_two_commands_at_the_same_instant_only_one_restarts_the_deployment() -> None:
    rollout = Rollout(World().put_live())

    def other_command() -> None:
        metadata = rollout.world.kube.objects["deployments", "default", "web"]["metadata"]
        metadata |= {"resourceVersion": "other", "annotations": {"tenon.sh/surged-for": "drifted-2"}}

    rollout.world.kube.before_patch.append(other_command)
    with pytest.raises(ConflictError):
        await rollout.start()
    assert rollout.restarts == 0


async def test_wsh16_a_deployment_that_starts_no_new_pod_in_time_fails_the_command() -> None:
    rollout = Rollout(World().put_live(), works=False)
    assert await rollout.start() == "Deployment default/web has not replaced its pods in time"
    assert rollout.world.clock.instant == START + timedelta(minutes=10)


def _raise(error: ApiError) -> None:
    raise error


async def start_new_pods(world: World) -> str:
    """Try the step once. Return why it failed."""
    replacements_input = ReplacementsInput(
        cluster=REF.cluster, command=command(surge=["default/web"]), until=START + timedelta(minutes=10)
    )
    return (await ActivityEnvironment().run(steps(world).start_new_pods_first, replacements_input)).failure


REFUSED = ForbiddenError(403, "Forbidden", 'admission webhook "validate.example.com" denied the request: no limits')
UNAVAILABLE = ApiError(500, "InternalError", 'failed calling webhook "validate.example.com"')
CONFLICT = ConflictError(409, "Conflict", "the object has been modified")


async def test_wsh16_a_restart_that_the_api_server_refuses_fails_the_command() -> None:
    """The step has no other end: each attempt would be refused, and a cancellation waits for it."""
    world = World().put_live()
    Rollout(world)
    world.kube.before_patch.append(partial(_raise, REFUSED))
    assert await start_new_pods(world) == f"new pods could not be started first: {REFUSED.message}"


@pytest.mark.parametrize("error", [UNAVAILABLE, CONFLICT])
async def test_wsh16_a_restart_that_may_succeed_later_is_retried_until_its_time_is_over(error: ApiError) -> None:
    world = World().put_live()
    Rollout(world)
    world.kube.before_patch.extend(2 * [partial(_raise, error)])
    with pytest.raises(type(error)):
        await start_new_pods(world)
    await world.clock.sleep(600)
    assert await start_new_pods(world) == f"new pods could not be started first: {error.message}"


async def test_the_nodes_workflow_does_not_take_the_taint_of_an_open_command() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    assert not await withdraw(world.kube, REF, "node-1")
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert world.status_of("DisruptionReason") == ("True", "Underutilized")


async def test_wsh01_a_command_writes_down_where_its_pods_go_once_nothing_keeps_them() -> None:
    world = World().put_live().put_pods(pod("web-1"), pod("late-1"))
    arrivals = {REF.name: {"0a0b0c0d": 2}, "gone": {"0a0b0c0d": 1}}
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, scheduled_time=START)
    refused = await environment.run(steps(world).check_candidates, given("web-1", arrivals=arrivals))
    assert refused.failure
    assert "tenon.sh/moved-here" not in annotations_of(world)
    requests = {REF.name: {"0a0b0c0d": 3}}
    command_input = given("web-1", "late-1", arrivals=arrivals, arriving_workloads=requests)
    for _ in range(2):
        await environment.run(steps(world).check_candidates, command_input)
        world.clock.instant += timedelta(seconds=5)
    (arrival,) = read_arrivals(annotations_of(world)["tenon.sh/moved-here"])
    assert arrival == Arrival(START, {"0a0b0c0d": 2}, {"0a0b0c0d": 3}), "another attempt moves no more pods"


@pytest.mark.parametrize(("status", "failure"), [("False", ""), ("Unknown", ""), ("True", "recovers")])
async def test_n15_135_a_node_that_recovers_while_its_replacement_starts_stays(status: str, failure: str) -> None:
    """A repair that is not needed any more is undone, also if the watch has not said so yet."""
    world = World().put_live()
    world.node["status"]["conditions"] = [{"type": "Ready", "status": status}]
    written = RepairCause(condition="Ready", status="Unknown" if status == "Unknown" else "False")
    result = await steps(world).check_candidates(given(reason="Unhealthy", graceful=False, repair=written))
    expected = f"NodeClaim {REF.name}: its condition Ready is not False any more" if failure else ""
    assert result.failure == expected


async def test_n15_152_a_reboot_is_requested_with_the_drain_bound_of_the_policies() -> None:
    world, requests = World().put_live(), list[RebootRequest]()

    class Handle:
        async def execute_update(self, _name: str, request: RebootRequest, **_: Any) -> RebootAnswer:
            requests.append(request)
            return RebootAnswer(accepted=True)

    client = SimpleNamespace(get_workflow_handle=lambda _: Handle())
    environment = ActivityEnvironment(client=cast("Any", client))
    fault = RepairCause(condition="AcceleratedHardwareReady", status="False", reason="XID63", drain_seconds=300.0)
    expected = given(reason="Unhealthy", decision="reboot", repair=fault)
    result = await environment.run(steps(world).request_reboot, expected)
    assert (result.accepted, result.refused) == ([REF.name], {})
    (request,) = requests
    assert (request.reason, request.drain_seconds, request.repairs) == ("AcceleratedHardwareReady/XID63", 300.0, True)
    assert request.actor == f"command {ID}"
    assert world.status_of("Rebooting") == ("True", "RebootRequested")
    assert "taints" not in world.node["spec"] or DISRUPTED not in world.node["spec"]["taints"]
