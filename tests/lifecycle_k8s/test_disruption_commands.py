"""The steps of a disruption command that moves pods: taint, replace, wait, look again, finish."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import disruption_commands
from activities.disruption_commands import MAX_ATTEMPTS, CommandActivities
from activities.kubernetes.cordon import withdraw
from activities.kubernetes.resources import NODECLAIMS, PDBS, PODS
from tenon.disruption.commands import pod_mark
from tenon.lifecycle.messages.disruption import (
    DisruptInput,
    DisruptionCandidate,
    DisruptionCommand,
    FinishInput,
    Replacement,
    ReplacementsInput,
)
from tests.lifecycle_k8s.fake_kube import START
from tests.lifecycle_k8s.world import DISRUPTED, FINALIZER, REF, World, condition, pod

ID = "underutilized-1"
BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"


def replacement(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web-new",
            "annotations": {"tenon.sh/replacement-for": ID, **annotations},
            "finalizers": [FINALIZER],
        },
        "spec": {"nodeClassRef": {"name": "default"}},
    }


def command(*pods: str, **fields: Any) -> DisruptionCommand:
    """The command that replaces the world's node, on which it expects these pods."""
    candidate = DisruptionCandidate(
        claim=REF.name, uid=REF.uid, pool="web", since=START, due=START, pods=[pod_mark(f"uid-{name}") for name in pods]
    )
    given: dict[str, Any] = {"reason": "Underutilized", **fields}
    return DisruptionCommand(
        id=ID,
        candidates=[candidate],
        moves_pods=True,
        replacements=[Replacement(name="web-new", pool="web", body=replacement())],
        **given,
    )


def given(*pods: str, **fields: Any) -> DisruptInput:
    return DisruptInput(cluster=REF.cluster, command=command(*pods, **fields))


def steps(world: World) -> CommandActivities:
    return CommandActivities(world.kube, world.recorder, world.clock)  # type: ignore[arg-type]


def budget(allowed: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


def annotations(world: World) -> dict[str, str]:
    found: dict[str, str] = world.claim["metadata"]["annotations"]
    return found


async def test_dis_60_candidates_are_tainted_but_keep_their_load_balancers() -> None:
    world = World().put_live()
    assert (await steps(world).taint_candidates(given())).failure == ""
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert BALANCERS not in world.node["metadata"]["labels"]
    assert world.status_of("DisruptionReason") == ("True", "Underutilized")
    assert annotations(world)["tenon.sh/disrupted-by"] == ID
    assert "deletionTimestamp" not in world.claim["metadata"]
    assert ("NodeClaim", REF.name, "DisruptionWaitingReadiness") in [event[:3] for event in world.recorder.events]


async def test_a_candidate_of_another_command_is_left_alone() -> None:
    world = World().put_live()
    annotations(world)["tenon.sh/disrupted-by"] = "drifted-2"
    assert "belongs to command drifted-2" in (await steps(world).taint_candidates(given())).failure
    assert world.node["spec"]["taints"] == []


async def test_a_candidate_that_leaves_already_ends_the_command() -> None:
    world = World().put_live()
    await world.kube.delete(NODECLAIMS, REF.name)
    assert "is leaving already" in (await steps(world).taint_candidates(given())).failure


async def test_dis_61_replacements_are_created_once() -> None:
    world = World().put_live()
    for _ in range(2):
        assert (await steps(world).create_replacements(given())).failure == ""
    assert world.kube.names(NODECLAIMS) == [REF.name, "web-new"]


async def test_a_name_that_another_nodeclaim_has_is_not_taken_for_the_replacement() -> None:
    world = World().put_live()
    other = replacement()
    other["metadata"]["annotations"] = {}
    world.kube.add(NODECLAIMS, other)
    assert "is taken" in (await steps(world).create_replacements(given())).failure


async def wait(world: World, monkeypatch: pytest.MonkeyPatch, **after: Any) -> str:
    """What waiting for the replacement says, if it gets this status after a second."""
    world.kube.add(NODECLAIMS, replacement())

    async def sleep(seconds: float) -> None:
        await world.clock.sleep(seconds)
        if after:
            world.kube.objects[("nodeclaims", "", "web-new")] |= after

    monkeypatch.setattr(disruption_commands.asyncio, "sleep", sleep)
    wanted = ReplacementsInput(cluster=REF.cluster, command=command(), until=START + timedelta(minutes=10))
    answer = await ActivityEnvironment().run(steps(world).await_replacements, wanted)
    return answer.failure


async def test_dis_63_a_command_waits_until_its_replacements_are_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().put_live()
    ready = {"status": {"conditions": [condition("Launched"), condition("Registered"), condition("Initialized")]}}
    assert await wait(world, monkeypatch, **ready) == ""
    assert world.clock.slept == 1


async def test_dis_65_a_replacement_that_is_not_ready_in_time_fails_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World().put_live()
    assert "not initialized in time: web-new waits for its instance" in await wait(world, monkeypatch)
    assert world.clock.instant == START + timedelta(minutes=10)


async def test_dis_65_a_replacement_that_goes_away_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().put_live()
    gone = {"metadata": {**replacement()["metadata"], "deletionTimestamp": "2026-03-01T12:00:01Z"}}
    refused = {"type": "Launched", "status": "Unknown", "reason": "InsufficientCapacity", "message": "no capacity"}
    failure = await wait(world, monkeypatch, **gone, status={"conditions": [refused]})
    assert failure == "replacement web-new is gone: no capacity"


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
    assert "karpenter.sh/do-not-disrupt holds it" in (await steps(world).check_candidates(given("web-1"))).failure
    assert ("NodeClaim", REF.name, "DisruptionBlocked") in [event[:3] for event in world.recorder.events]


@pytest.mark.parametrize(
    ("allowed", "spec", "why"),
    [
        (0, {}, "PodDisruptionBudget default/web allows 0 more disruptions"),
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


async def test_the_nodes_workflow_does_not_take_the_taint_of_an_open_command() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    assert not await withdraw(world.kube, REF, "node-1")
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert world.status_of("DisruptionReason") == ("True", "Underutilized")


async def finish(world: World, *, stay: bool, undo: bool, attempt: int = 1) -> None:
    wanted = FinishInput(cluster=REF.cluster, command=command(), stay=[REF.name] if stay else [], undo=undo)
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=attempt)
    await environment.run(steps(world).finish_command, wanted)


async def test_dis_65_undoing_leaves_no_trace_on_the_candidate() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    await finish(world, stay=True, undo=True)
    assert world.node["spec"]["taints"] == []
    assert world.status_of("DisruptionReason") == ("", "")
    assert "tenon.sh/disrupted-by" not in annotations(world)


async def test_met34_a_command_that_is_undone_counts_as_a_failure() -> None:
    def failures() -> float:
        labels = {"decision": "replace", "reason": "underutilized", "consolidation_type": ""}
        return REGISTRY.get_sample_value("karpenter_voluntary_disruption_queue_failures_total", labels) or 0.0

    before = failures()
    await finish(World().put_live(), stay=True, undo=True)
    assert failures() == before + 1
    await finish(World().put_live(), stay=True, undo=False)
    assert failures() == before + 1


async def test_undoing_leaves_what_belongs_to_another_command() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    annotations(world)["tenon.sh/disrupted-by"] = "drifted-2"
    await finish(world, stay=True, undo=True)
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert annotations(world)["tenon.sh/disrupted-by"] == "drifted-2"


async def test_a_candidate_that_leaves_by_now_keeps_its_taint() -> None:
    """The request to leave failed, but its workflow had received it."""
    world = World().put_live()
    await steps(world).taint_candidates(given())
    await world.kube.delete(NODECLAIMS, REF.name)
    await finish(world, stay=True, undo=False)
    assert world.node["spec"]["taints"] == [DISRUPTED]


async def test_a_node_that_accepted_and_never_leaves_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workflow was terminated after it accepted, and the next one knows nothing of the command."""
    monkeypatch.setattr(disruption_commands, "POLL_SECONDS", 0.0)
    world = World().put_live()
    await steps(world).taint_candidates(given())
    with pytest.raises(ApplicationError, match="is not leaving yet"):
        await finish(world, stay=False, undo=False, attempt=MAX_ATTEMPTS - 1)
    assert world.node["spec"]["taints"] == [DISRUPTED]
    await finish(world, stay=False, undo=False, attempt=MAX_ATTEMPTS)
    assert world.node["spec"]["taints"] == []
    assert "tenon.sh/disrupted-by" not in annotations(world)


async def test_undoing_deletes_a_replacement_without_a_node() -> None:
    world = World().put_live()
    await steps(world).create_replacements(given())
    await finish(world, stay=True, undo=True)
    assert world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]["deletionTimestamp"]


async def test_a_finished_command_gives_its_replacements_free() -> None:
    world = World().put_live()
    await steps(world).create_replacements(given())
    await finish(world, stay=False, undo=False)
    new = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    assert "tenon.sh/replacement-for" not in new["annotations"]
    assert "deletionTimestamp" not in new
    assert world.kube.names(PODS) == []
