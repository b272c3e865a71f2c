"""What the status of a NodeRollout says, and where its events are."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.kubernetes.resources import NODEPOOLS, NODEROLLOUTS, Resource
from activities.rollout.statuses import RolloutStatuses
from tenon.kube.event_reasons import EventReason
from tenon.messages.rollout import PoolProgress, RolloutAnnouncement, WriteRolloutInput
from tests.activities.node.fake_kube import Recorder

pytestmark = pytest.mark.asyncio(loop_scope="function")

HALTED = RolloutAnnouncement(
    pool="web", reason=EventReason.ROLLOUT_HALTED, message="wave 1 failed: pods ready: web-1 not Ready"
)


class Server:
    """An API server with one NodeRollout and one NodePool."""

    def __init__(self, *, exists: bool = True) -> None:
        self.exists = exists
        self.status: dict[str, Any] = {}

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str
    ) -> dict[str, Any] | None:
        assert (resource, name, subresource) == (NODEROLLOUTS, "careful", "status")
        self.status = patch["status"]
        return {"kind": "NodeRollout", "metadata": {"name": "careful", "uid": "r"}} if self.exists else None

    async def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        assert resource is NODEPOOLS
        return {"kind": "NodePool", "metadata": {"name": "web", "uid": "p"}} if name == "web" else None


async def write(server: Server, *announcements: RolloutAnnouncement) -> list[tuple[str, str, str]]:
    """The events, as kind, reason and message."""
    recorder = Recorder()
    pools = [PoolProgress(pool="web", current="old", target="new", phase="Halted", message="m")]
    write_input = WriteRolloutInput(cluster="c", name="careful", pools=pools, announcements=list(announcements))
    result = await RolloutStatuses(cast("Any", server), recorder).write(write_input)
    assert result.exists is server.exists
    return [(kind, reason, message) for kind, _, reason, message in recorder.events]


async def test_an_event_is_on_the_noderollout_and_on_the_nodepool() -> None:
    server = Server()
    assert await write(server, HALTED) == [
        ("NodeRollout", "RolloutHalted", HALTED.message),
        ("NodePool", "RolloutHalted", HALTED.message),
    ]
    (row,) = server.status["nodePools"]
    assert (row["phase"], row["targetRevision"], row["message"]) == ("Halted", "new", "m")


async def test_a_nodepool_that_is_gone_has_no_event() -> None:
    for_gone_pool = RolloutAnnouncement(pool="gone", reason=EventReason.ROLLOUT_HALTED, message="m")
    assert [kind for kind, _, _ in await write(Server(), for_gone_pool)] == ["NodeRollout"]


async def test_a_noderollout_that_is_gone_has_no_event() -> None:
    assert await write(Server(exists=False), HALTED) == []
