"""A reboot is committed: what the NodeClaim records, what the workflow is told, and when nothing happens."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from activities.node.reboot_request import request_reboot
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import time_text
from tenon.messages.node import RebootAnswer, RebootRequest
from tenon.node.ids import REBOOT_UPDATE, nodeclaim_id
from tenon.node.reboot_record import operation_id, recorded_request
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.world import REF, World

AT = START + timedelta(minutes=5)
NO_WORKFLOW = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
AWAY = RPCError("Temporal does not answer", RPCStatusCode.UNAVAILABLE, b"")


class Workflows:
    """Stands for Temporal: the workflow of each node answers to the update."""

    def __init__(self, answer: RebootAnswer | Exception) -> None:
        self.answer = answer
        self.messages: list[tuple[str, str, RebootRequest, str]] = []

    def get_workflow_handle(self, ident: str) -> Any:
        async def execute_update(update: str, request: RebootRequest, *, id: str, result_type: type) -> RebootAnswer:
            assert result_type is RebootAnswer
            self.messages.append((ident, update, request, id))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return SimpleNamespace(execute_update=execute_update)


def wanted(at: Any = AT, **fields: Any) -> RebootRequest:
    usual: dict[str, Any] = {
        "reason": "AcceleratedHardwareReady/NVIDIAXID46Error",
        "repairs": True,
        "actor": "node repair",
    }
    return RebootRequest(operation_id=operation_id(REF.uid, at), requested_at=at, **usual | fields)


async def ask(
    world: World, request: RebootRequest, answer: RebootAnswer | Exception | None = None
) -> tuple[RebootAnswer, Workflows]:
    workflows = Workflows(answer or RebootAnswer(accepted=True))
    return await request_reboot(cast("Any", world.kube), cast("Any", workflows), REF, request), workflows


def record(world: World) -> ClaimRecord:
    return ClaimRecord.of(world.claim)


async def test_n15_152_the_claim_records_the_request_before_the_workflow_is_told() -> None:
    world = World().put_live()
    request = wanted(drain_seconds=300.0)
    answer, workflows = await ask(world, request)
    assert answer.accepted
    rebooting = record(world).condition("Rebooting")
    assert (rebooting["status"], rebooting["reason"]) == ("True", "RebootRequested")
    assert rebooting["message"] == "rebooting for AcceleratedHardwareReady/NVIDIAXID46Error"
    assert rebooting["lastTransitionTime"] == stamp(AT)
    assert world.status_of("DisruptionReason") == ("True", "Unhealthy")
    assert record(world).annotations[labels.REBOOT_GRACE_PERIOD] == "300s"
    assert record(world).reboots == (AT,)
    assert workflows.messages == [(nodeclaim_id(REF.cluster, REF.name), REBOOT_UPDATE, request, request.operation_id)]


async def test_n15_152_the_record_gives_the_request_back() -> None:
    world = World().put_live()
    request = wanted(drain_seconds=0.0, actor="")
    await ask(world, request)
    assert recorded_request(record(world)) == request


@pytest.mark.parametrize(
    ("policy", "grace", "bound"),
    [(60.0, "10m", "60s"), (None, "10m", "600s"), (0.0, "10m", "0s"), (None, None, None), (0.5, None, "0.5s")],
)
async def test_n15_152_the_drain_bound_is_of_the_policy_or_the_nodeclaim(
    policy: float | None, grace: str | None, bound: str | None
) -> None:
    world = World().put_live()
    world.kube.objects["nodeclaims", "", REF.name]["spec"]["terminationGracePeriod"] = grace
    world.kube.objects["nodeclaims", "", REF.name]["metadata"]["annotations"][labels.REBOOT_GRACE_PERIOD] = "7s"
    _, workflows = await ask(world, wanted(drain_seconds=policy))
    assert record(world).annotations.get(labels.REBOOT_GRACE_PERIOD) == bound
    messages = workflows.messages[0][2].drain_seconds
    assert bound == (None if messages is None else f"{messages:g}s")


async def test_a_repetition_writes_nothing_more_and_tells_the_workflow_again() -> None:
    world = World().put_live()
    with pytest.raises(RPCError):
        await ask(world, wanted(), AWAY)
    written = len(world.kube.calls)
    answer, workflows = await ask(world, wanted())
    assert answer.accepted
    assert len(workflows.messages) == 1
    assert len(world.kube.calls) == written


async def test_a_claim_that_reboots_already_refuses_another_request() -> None:
    world = World().put_live()
    await ask(world, wanted())
    answer, workflows = await ask(world, wanted(AT + timedelta(seconds=1)))
    assert (answer.accepted, answer.why) == (False, f"NodeClaim {REF.name} reboots already, since {time_text(AT)}")
    assert not workflows.messages


async def test_n15_167_a_claim_that_is_deleted_or_gone_is_not_rebooted() -> None:
    world = World().put_live()
    assert (await ask(World(), wanted()))[0].why == f"NodeClaim {REF.name} is gone"
    world.kube.objects["nodeclaims", "", REF.name]["metadata"]["deletionTimestamp"] = stamp(START)
    answer, workflows = await ask(world, wanted())
    assert (answer.accepted, answer.why) == (False, f"NodeClaim {REF.name} is being deleted")
    assert not workflows.messages
    assert world.status_of("Rebooting") == ("", "")


async def test_n15_152_a_deletion_between_the_two_writes_stops_the_request() -> None:
    world = World().put_live()
    claim = world.kube.objects["nodeclaims", "", REF.name]

    def delete() -> None:
        claim_now = world.kube.objects["nodeclaims", "", REF.name]
        if labels.REBOOTS in (claim_now["metadata"].get("annotations") or {}):
            claim_now["metadata"]["deletionTimestamp"] = stamp(START)
            claim_now["metadata"]["resourceVersion"] = "999"

    world.kube.before_patch = [lambda: None, delete]
    answer, workflows = await ask(world, wanted())
    assert not answer.accepted, claim
    assert not workflows.messages
    assert world.status_of("Rebooting") == ("", "")


async def test_n15_154_the_claim_keeps_the_reboots_of_a_day() -> None:
    world = World().put_live()
    times = [AT + timedelta(hours=hours) for hours in (0, 20, 30)]
    for at in times:
        await ask(world, wanted(at))
        conditions = world.kube.objects["nodeclaims", "", REF.name]["status"]["conditions"]
        next(item for item in conditions if item["type"] == "Rebooting")["status"] = "False"
    assert record(world).reboots == tuple(times[1:])


async def test_without_a_workflow_the_record_is_enough() -> None:
    world = World().put_live()
    answer, _ = await ask(world, wanted(), NO_WORKFLOW)
    assert answer.accepted
    assert record(world).rebooting
