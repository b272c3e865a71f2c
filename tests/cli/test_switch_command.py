"""The exit status of a switch that was begun before, and what is reported with it, on an API server in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import CRDS, DEPLOYMENTS, NODECLAIMS, Resource
from cli.switching import memory
from cli.switching.command import WENT_BACK, Options, SwitchError, switch
from cli.switching.memory import Memory
from tenon.apis.crd import custom_resource_definitions
from tenon.migration.switch import Direction, Switch, SwitchPhase
from tests.activities.node.fake_kube import START
from tests.cli.test_guide import World, world
from tests.cli.test_switching import KARPENTER, TENON, deployment

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def under_way(cluster: World, phase: SwitchPhase, direction: Direction = Direction.HANDBACK) -> None:
    stop_first = direction is Direction.TAKEOVER
    begun = Switch(direction, 2, 2, timedelta(), timedelta(minutes=10), START, START, stop_first, phase)
    await memory.write(cluster.kube, "tenon", Memory(begun, str(KARPENTER), {"a": "i-1"}))  # type: ignore[arg-type]


def options(direction: Direction = Direction.HANDBACK, *, go_back: bool = False) -> Options:
    return Options(direction, None, None, False, True, timedelta(minutes=10), timedelta(), go_back, "table", "prod")


async def clear(_report: Callable[[str], None]) -> None:
    """Nothing has marks."""


async def unreachable() -> None:
    pytest.fail("a switch that goes on may have to go back, which needs no Temporal")


async def test_an_error_in_the_middle_says_that_the_switch_has_not_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = world(karpenter=0, tenon=0)
    await under_way(cluster, SwitchPhase.STARTING)

    async def forbidden(*_: Any, **__: Any) -> None:
        raise ApiError(403, "Forbidden", "may not scale")

    cluster.kube.patch = forbidden  # type: ignore[method-assign]
    assert await switch(cluster.kube, options(), (KARPENTER, TENON), clear, unreachable) == WENT_BACK  # type: ignore[arg-type]
    reported = capsys.readouterr().err
    assert "may not scale" in reported
    assert "tenon handback --go-back" in reported


async def test_from_v1beta1_a_takeover_goes_back_only_until_the_first_crd_is_tenons() -> None:
    cluster = world(karpenter=0, tenon=0)
    await under_way(cluster, SwitchPhase.INSTALLING, Direction.TAKEOVER)
    definitions = custom_resource_definitions()
    applied = next(item for item in definitions.values() if item["metadata"]["name"] == "nodepools.karpenter.sh")
    cluster.kube.add(CRDS, applied)
    back = options(Direction.TAKEOVER, go_back=True)
    with pytest.raises(SwitchError, match="no way back"):
        await switch(cluster.kube, back, (KARPENTER, TENON), clear)  # type: ignore[arg-type]
    cluster.kube.objects.pop(("customresourcedefinitions", "", "nodepools.karpenter.sh"))
    async with cluster.turning():
        assert await switch(cluster.kube, back, (KARPENTER, TENON), clear) == WENT_BACK  # type: ignore[arg-type]
    assert cluster.replicas("kube-system", "karpenter") == 2


async def test_a_switch_that_has_ended_is_done_even_if_nodes_cannot_be_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = world(karpenter=0, tenon=0)
    await under_way(cluster, SwitchPhase.STARTING)
    listing = cluster.kube.list

    async def without_claims(resource: Resource, **query: Any) -> list[dict[str, Any]]:
        if resource.plural == "nodeclaims":
            raise ApiError(503, "ServiceUnavailable", "no conversion webhook")
        return await listing(resource, **query)

    cluster.kube.list = without_claims  # type: ignore[method-assign]
    async with cluster.turning():
        assert await switch(cluster.kube, options(), (KARPENTER, TENON), clear, unreachable) == 0  # type: ignore[arg-type]
    assert "could not be compared with those from before: no conversion webhook" in capsys.readouterr().out


@pytest.mark.parametrize("phase", [None, SwitchPhase.STOPPING])
async def test_a_handback_of_another_cluster_than_its_tenon_is_refused(phase: SwitchPhase | None) -> None:
    """Two clusters may share a namespace of Temporal: the workflows of the one that still runs would end."""
    cluster = world(karpenter=0, tenon=2)
    if phase is not None:
        await under_way(cluster, phase)
    cluster.kube.add(DEPLOYMENTS, deployment("tenon", "tenon", "tenon", CLUSTER_NAME="a"))
    async with cluster.turning():
        with pytest.raises(SwitchError, match="has CLUSTER_NAME a, but the command names cluster b"):
            await switch(cluster.kube, replace(options(), cluster="b"), (KARPENTER, TENON), clear)  # type: ignore[arg-type]
    assert cluster.replicas("tenon", "tenon") == 2


async def test_the_plan_of_a_handback_names_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = world(karpenter=2, tenon=2)
    cluster.kube.add(DEPLOYMENTS, deployment("tenon", "tenon", "tenon", CLUSTER_NAME="a"))
    dry = replace(options(), dry_run=True, cluster="a")
    assert await switch(cluster.kube, dry, (KARPENTER, TENON), clear) == 0  # type: ignore[arg-type]
    assert "End Tenon's workflows of cluster a, and remove" in capsys.readouterr().out


async def test_a_dry_run_says_the_same_in_a_table_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = world(karpenter=2, tenon=2)
    metadata = {"name": "young", "labels": {"karpenter.sh/nodepool": "web"}}
    cluster.kube.add(NODECLAIMS, {"metadata": metadata, "spec": {}, "status": {}})
    dry = replace(options(), dry_run=True)
    await switch(cluster.kube, dry, (KARPENTER, TENON), clear)  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    await switch(cluster.kube, replace(dry, output="json"), (KARPENTER, TENON), clear)  # type: ignore[arg-type]
    steps = json.loads(capsys.readouterr().out)["plan"]
    assert any("now: NodeClaim young is not launched yet" in step for step in steps)
    assert steps == re.findall(r"^  \d+\. (.*)$", printed, re.MULTILINE)
