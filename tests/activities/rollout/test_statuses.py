"""What the status of a NodeRollout says, and where its events are."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.kubernetes.resources import NODEPOOLS, NODEROLLOUTS
from activities.rollout.statuses import RolloutStatuses
from tenon.kube.event_reasons import EventReason
from tenon.messages.rollout import PoolProgress, RolloutAnnouncement, WriteRolloutInput
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder

pytestmark = pytest.mark.asyncio(loop_scope="function")

HALTED = RolloutAnnouncement(
    pool="web", reason=EventReason.ROLLOUT_HALTED, message="wave 1 failed: pods ready: web-1 not Ready"
)


def server() -> FakeKube:
    """An API server with one NodeRollout and one NodePool."""
    kube = FakeKube(Clock())
    kube.add(NODEROLLOUTS, {"metadata": {"name": "careful", "uid": "r"}})
    kube.add(NODEPOOLS, {"metadata": {"name": "web", "uid": "p"}})
    return kube


def rows(kube: FakeKube) -> list[dict[str, Any]]:
    """What the status of the NodeRollout says."""
    return list(kube.objects["noderollouts", "", "careful"].get("status", {}).get("nodePools", []))


async def write(
    kube: FakeKube, *announcements: RolloutAnnouncement, uid: str = "r", exists: bool = True
) -> list[tuple[str, str, str]]:
    """The events, as kind, reason and message."""
    recorder = Recorder()
    pools = [PoolProgress(pool="web", current="old", target="new", phase="Halted", message="m")]
    write_input = WriteRolloutInput(
        cluster="c", name="careful", uid=uid, pools=pools, announcements=list(announcements)
    )
    result = await RolloutStatuses(cast("Any", kube), recorder).write(write_input)
    assert result.exists is exists
    return [(kind, reason, message) for kind, _, reason, message in recorder.events]


async def test_an_event_is_on_the_noderollout_and_on_the_nodepool() -> None:
    kube = server()
    assert await write(kube, HALTED) == [
        ("NodeRollout", "RolloutHalted", HALTED.message),
        ("NodePool", "RolloutHalted", HALTED.message),
    ]
    (row,) = rows(kube)
    assert (row["phase"], row["targetRevision"], row["message"]) == ("Halted", "new", "m")


async def test_a_nodepool_that_is_gone_has_no_event() -> None:
    for_gone_pool = RolloutAnnouncement(pool="gone", reason=EventReason.ROLLOUT_HALTED, message="m")
    assert [kind for kind, _, _ in await write(server(), for_gone_pool)] == ["NodeRollout"]


async def test_a_noderollout_that_is_gone_has_no_event() -> None:
    assert await write(FakeKube(Clock()), HALTED, exists=False) == []


async def test_a_noderollout_that_was_created_again_gets_nothing_of_the_one_before() -> None:
    kube = server()
    assert await write(kube, HALTED, uid="before") == []
    assert rows(kube) == []


async def test_a_noderollout_that_no_check_has_seen_yet_is_written_too() -> None:
    kube = server()
    await write(kube, uid="")
    assert [row["name"] for row in rows(kube)] == ["web"]
