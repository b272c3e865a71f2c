"""A reboot on the API server: fence, evictions only, boot ID, new boot, and what a failure leaves behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.client import EvictionAnswer
from activities.kubernetes.nodeclaims import view_of
from activities.node import rebooting
from activities.node.cordon import withdraw
from activities.node.reboot_activities import RebootActivities
from activities.node.reboot_drain import drain_for_reboot
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import time_text
from tenon.messages.node import RebootRequest
from tenon.messages.node_steps import NodeInput
from tenon.messages.reboot import (
    BootRecord,
    FenceInput,
    FenceResult,
    RebootCheck,
    RebootCheckInput,
    RebootDrainInput,
    RebootFailure,
    RebootInput,
    RebootOutcome,
    RebootReply,
    RebootResult,
)
from tenon.node.reboot_record import operation_id
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.joining import initialize
from tests.activities.node.world import PROVIDER_ID, REF, World, pod

FENCE = {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}
INPUT: dict[str, Any] = {"claim": REF, "provider_id": PROVIDER_ID, "node_name": "node-1"}


def request(drain: float | None = 60.0, *, repairs: bool = True) -> RebootRequest:
    return RebootRequest(
        operation_id=operation_id(REF.uid, START),
        reason="AcceleratedHardwareReady/NVIDIAXID46Error",
        repairs=repairs,
        drain_seconds=drain,
        requested_at=START,
    )


def live() -> World:
    world = World().put_live()
    world.node["status"]["nodeInfo"] = {"bootID": "boot-1"}
    return world


async def fence(world: World, expected: RebootRequest | None = None) -> FenceResult:
    return await rebooting.fence(world.kube, FenceInput(**INPUT, request=expected or request()))


async def record(world: World) -> BootRecord:
    return await rebooting.record_boot(world.kube, NodeInput(**INPUT))


async def check(world: World, *, issued: bool = True) -> RebootCheck:
    check_input = RebootCheckInput(**INPUT, request=request(), boot_id="boot-1", issued=issued, issued_at=START)
    return await rebooting.check(world.kube, world.recorder, check_input, world.clock)


async def issued() -> World:
    world = live()
    await fence(world)
    await record(world)
    world.clock.instant += timedelta(minutes=1)
    assert await check(world) == RebootCheck(ready=True)
    return world


def boot(world: World, *, ready: bool = True) -> None:
    world.node["status"]["nodeInfo"]["bootID"] = "boot-2"
    world.node["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]


def sample(name: str, **of: str) -> float:
    return REGISTRY.get_sample_value(name, of) or 0.0


async def test_n15_155_the_fence_is_a_taint_and_the_claim_has_the_request() -> None:
    world = live()
    result = await fence(world)
    assert world.node["spec"]["taints"] == [FENCE]
    assert world.status_of("Rebooting") == ("True", "RebootRequested")
    assert result.request == request()
    assert (result.boot_id, result.pre_boot_id, result.issued) == ("boot-1", "", False)
    written = len(world.kube.calls)
    assert await fence(world) == result
    assert len(world.kube.calls) == written


async def test_an_operators_request_gets_the_grace_period_of_the_claim_and_no_disruption_reason() -> None:
    world = World().put_live(terminationGracePeriod="10m")
    result = await fence(world, request(None, repairs=False))
    assert result.request is not None
    assert result.request.drain_seconds == 600
    assert world.status_of("DisruptionReason") == ("", "")


async def test_n15_165_an_unreadable_bound_stops_the_reboot_before_the_fence() -> None:
    world = live()
    await fence(world)
    world.node["spec"]["taints"] = []
    world.claim["metadata"]["annotations"][labels.REBOOT_GRACE_PERIOD] = "-5s"
    result = await fence(world)
    assert "'-5s'" in result.invalid
    assert world.node["spec"]["taints"] == []


async def test_n15_156_pods_are_only_evicted_and_at_the_bound_the_others_stay() -> None:
    world = live().put_pods(pod("a"), pod("db"), pod("static", owner="Node"))
    world.kube.answers["default/db"] = EvictionAnswer("blocked", "a budget", 429)
    until = START + timedelta(seconds=60)
    drain = RebootDrainInput(**INPUT, until=until, budget_seconds=300)
    result = await drain_for_reboot(world.kube, world.recorder, drain, world.clock, world.clock.sleep)
    assert (result.evicted, result.remaining) == (1, 1)
    assert result.blocked[0].pods == ("default/db",)
    assert until <= world.clock() <= until + timedelta(seconds=1)
    assert {call[2] for call in world.kube.calls if call[0] == "delete"} == {"a"}, "which its eviction deletes"
    assert world.status_of("Drained") == ("", "")


async def test_n15_158_the_boot_id_is_recorded_once() -> None:
    world = live()
    await fence(world)
    assert await record(world) == BootRecord(pre_boot_id="boot-1", boot_id="boot-1")
    boot(world)
    assert await record(world) == BootRecord(pre_boot_id="boot-1", boot_id="boot-2")
    assert world.claim["metadata"]["annotations"][labels.REBOOT_PRE_BOOT_ID] == "boot-1"


class Ec2:
    """EC2 that accepts each reboot, and counts them."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, tuple[str, str]]] = []

    def reboot(self, instance_id: str, zones: tuple[str, str]) -> RebootReply:
        self.requests.append((instance_id, zones))
        return RebootReply(outcome=RebootOutcome.ACCEPTED)


async def reboot(world: World, ec2: Ec2) -> RebootReply:
    steps = RebootActivities(world.kube, world.recorder, cast("Any", ec2))
    reboot_input = RebootInput(claim=REF, instance_id="i-1", request=request(), boot_id="boot-1")
    reply: RebootReply = await ActivityEnvironment().run(steps.reboot, reboot_input)
    return reply


async def test_n15_159_ec2_is_asked_only_for_the_recorded_boot() -> None:
    world, ec2 = live(), Ec2()
    await fence(world)
    assert (await reboot(world, ec2)).outcome is RebootOutcome.UNKNOWN
    await record(world)
    assert (await reboot(world, ec2)).outcome is RebootOutcome.ACCEPTED
    boot(world)
    assert (await reboot(world, ec2)).outcome is RebootOutcome.UNKNOWN
    assert len(ec2.requests) == 1


async def test_n15_167_a_claim_that_is_deleted_meanwhile_is_not_rebooted() -> None:
    world, ec2 = live(), Ec2()
    await fence(world)
    await record(world)
    world.claim["metadata"]["deletionTimestamp"] = stamp(START)
    assert (await reboot(world, ec2)).outcome is RebootOutcome.WITHDRAWN
    assert not ec2.requests
    assert not (await fence(world)).claim_stays


async def test_n15_161_an_issued_reboot_makes_the_node_not_initialized() -> None:
    world = await issued()
    assert world.status_of("Rebooting") == ("True", "RebootIssued")
    assert world.status_of("Initialized") == ("Unknown", "Rebooting")
    assert world.status_of("Ready")[0] == "Unknown"
    assert labels.INITIALIZED not in world.node["metadata"]["labels"]
    assert world.node["spec"]["taints"] == [FENCE]


async def test_n15_162_the_new_boot_ends_the_fence_and_a_ready_node_ends_the_reboot() -> None:
    world = await issued()
    before = sample("karpenter_nodes_reboots_total", result="succeeded")
    boot(world, ready=False)
    assert await check(world) == RebootCheck(rebooted=True)
    assert world.node["spec"]["taints"] == []
    assert world.recorder.reasons()[-1] == "RebootObserved"
    assert world.status_of("Rebooting") == ("True", "RebootIssued")
    boot(world)
    assert (await check(world)).ended
    assert world.status_of("Rebooting") == ("False", "RebootSucceeded")
    assert world.status_of("DisruptionReason") == ("", "")
    assert labels.REBOOT_PRE_BOOT_ID not in world.claim["metadata"]["annotations"]
    assert ClaimRecord.of(world.claim).reboots == (START,)
    assert sample("karpenter_nodes_reboots_total", result="succeeded") == before + 1
    assert (await check(world)).ended
    assert sample("karpenter_nodes_reboots_total", result="succeeded") == before + 1
    assert (await initialize(world.kube, NodeInput(**INPUT), world.clock)).initialized
    assert world.node["metadata"]["labels"][labels.INITIALIZED] == "true"


async def test_n15_313_a_rebooting_node_does_not_initialize() -> None:
    world = await issued()
    result = await initialize(world.kube, NodeInput(**INPUT), world.clock)
    assert (result.initialized, result.reason) == (False, "Rebooting")
    assert world.status_of("Initialized") == ("Unknown", "Rebooting")


@pytest.mark.parametrize(("present", "remainder"), [("", 60), ("soon", 10), ("late", 60)])
async def test_n15_164_a_failed_reboot_tightens_the_deadline(present: str, remainder: int) -> None:
    world = await issued()
    now = world.clock()
    written = {"soon": now + timedelta(seconds=10), "late": now + timedelta(hours=1)}
    if present:
        world.claim["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP] = stamp(written[present])
    failure = RebootFailure(**INPUT, request=request(), result=RebootResult.RECOVERY_TIMEOUT, message="it is dark")
    before = sample("karpenter_nodes_reboots_total", result="recovery_timeout")
    await rebooting.end_failed(world.kube, world.recorder, failure, world.clock)
    assert world.node["spec"]["taints"] == []
    assert ClaimRecord.of(world.claim).termination_timestamp == now + timedelta(seconds=remainder)
    assert world.recorder.events[-1][2:] == (
        "RebootFailed",
        f"the reboot that was requested at {time_text(START)} failed: it is dark",
    )
    assert sample("karpenter_nodes_reboots_total", result="recovery_timeout") == before + 1


@pytest.mark.parametrize("behind", [timedelta(), timedelta(minutes=3)], ids=["at-once", "slower-clock"])
async def test_n15_165_a_node_that_stays_says_that_its_reboot_failed(behind: timedelta) -> None:
    """``behind``: by how much the worker's clock is behind the one that the request is from."""
    world = live()
    world.clock.instant -= behind
    await fence(world)
    failure = RebootFailure(
        **INPUT, request=request(), result=RebootResult.INVALID_REQUEST, message="bad bound", stays=True
    )
    for _ in range(2):
        await rebooting.end_failed(world.kube, world.recorder, failure, world.clock)
    assert world.status_of("Rebooting") == ("False", "RebootFailed")
    assert world.node["spec"]["taints"] == []
    assert world.recorder.reasons() == ["RebootFailed"]


async def test_n15_170_the_pass_for_orphaned_marks_leaves_a_rebooting_node_alone() -> None:
    world = await issued()
    assert not await withdraw(world.kube, REF, "node-1")
    assert world.status_of("DisruptionReason") == ("True", "Unhealthy")


async def test_n15_643_a_new_workflow_reads_from_the_claim_how_far_the_reboot_is() -> None:
    world = await issued()
    view = view_of(ClaimRecord.of(world.claim))
    assert view.reboot == request()
    assert view.reboots == (START,)
    result = await fence(world, view.reboot)
    assert (result.issued, result.pre_boot_id, result.issued_at) == (True, "boot-1", START + timedelta(minutes=1))
