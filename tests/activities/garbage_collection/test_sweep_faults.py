"""A sweep that cannot read something, or reads a list that is late, ends nothing by it and goes on with the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from activities.garbage_collection.node_workflows import NodeWorkflows
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODES
from tenon.messages.garbage_collection import Figures
from tests.activities.garbage_collection.lost import LATER, Cluster, some

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


async def test_a_list_that_misses_a_claim_ends_nothing(lost: Cluster) -> None:
    """The claim is asked for by name before anything is ended on the word of its absence."""
    await lost.put_life("live-0")
    await lost.until_open({"live-0"})
    lost.kube.unlisted.add("live-0")
    lost.late = LATER
    assert (await lost.sweep(left_since={id_: lost.now() - LATER for id_ in lost.instances()})).figures.keys() <= {
        "unused_launch_template"
    }
    assert lost.alive() == {"live-0"}
    assert await lost.open() == {"live-0"}
    assert lost.names(NODES) == {"node-live-0"}


async def test_a_list_that_misses_an_open_workflow_ends_nothing_under_it(
    lost: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that was left to its workflow a minute ago stays with it, though the search does not show it now."""
    instance = lost.buy("orphan-0").rsplit("/", 1)[-1]
    await lost.start("orphan-0")
    await lost.until_open({"orphan-0"})

    async def none(_: NodeWorkflows) -> tuple[()]:
        return ()

    monkeypatch.setattr(NodeWorkflows, "opened", none)
    lost.late = LATER
    await lost.sweep(left_since={instance: lost.now() - timedelta(minutes=1)})
    assert lost.alive() == {"orphan-0"}
    await lost.sweep(left_since={instance: lost.now() - timedelta(minutes=31)})
    assert lost.alive() == set()


async def test_an_error_is_never_taken_for_none(lost: Cluster) -> None:
    """Neither of the API server nor of EC2: the sweep says what it could not read and ends nothing by it."""
    await lost.put_life("live-0")
    lost.buy("orphan-0")
    lost.late = LATER
    lost.kube.broken["nodeclaims"] = ApiError(500, "InternalError", "etcd is away")
    result = await lost.sweep()
    assert (result.figures, list(result.unread)) == ({}, ["NodeClaims"])
    lost.kube.broken = {"nodes": ApiError(410, "Expired", "the continue token is too old")}
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(findings=1, ended=1), "what needs no Node goes on"
    assert lost.alive() == {"live-0"}


async def test_ec2_away(lost: Cluster, server: Server) -> None:
    """Instances that cannot be listed are not gone."""
    from sandbox.ec2.faults import Fault

    await lost.put_life("live-0")
    await lost.start("driven-0")
    await lost.until_open({"live-0", "driven-0"})
    lost.late = LATER
    server.world.faults.add(Fault(action="DescribeInstances", code="InternalError", status=500, count=None))
    result = await lost.sweep()
    assert list(result.unread) == ["instances"]
    assert result.figures["workflow_without_claim"] == Figures(findings=1, ended=1), "Temporal needs no EC2"
    assert "claim_without_instance" not in result.figures


async def test_one_fault_stops_nothing_else(lost: Cluster, server: Server) -> None:
    """A failure is reported and counted, and the next sweep tries again."""
    from sandbox.ec2.faults import Fault

    for name in some("orphan", 3):
        lost.buy(name)
    lost.late = LATER
    server.world.faults.add(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403, message="no"))
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(findings=3, ended=2, failed=1)
    assert len(result.faults) == 1
    assert "UnauthorizedOperation" in result.faults[0]
    assert len(result.failed) == 1, "it has its turn after those that did not fail"
    assert (await lost.sweep()).figures["instance_without_claim"] == Figures(findings=1, ended=1)
    assert lost.alive() == set()
