"""Who leaves a warm node alone: a stopped instance is neither broken nor lost, and no command saves its price."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.model import ManagedNode
from tenon.disruption.rules.blockers import is_free
from tenon.disruption.rules.pool_budgets import members_of
from tenon.fleet.disruption_state import DisruptionState, disruption_of
from tenon.kube.records import NodeCondition
from tests.tenon.disruption.clusters import NOW, Cluster, situation
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import Cache
from worker.cache.managed_nodes import ManagedNodes
from worker.controllers.node.not_ready_nodes import NotReadyNodeController

INITIALIZED: dict[str, Any] = {"conditions": [{"type": "Initialized", "status": "True"}]}
STATES = ["filling", "stopped", "starting"]


def stopped(cache: Cache, state: str) -> None:
    """A node whose kubelet has been silent for long."""
    silent = NodeCondition("Ready", "Unknown", since=0.0)
    cache.publish(
        claim("a", node_name="a", status=INITIALIZED, meta={"annotations": {labels.WARM: state}}),
        dataclasses.replace(node("a"), ready=False, unhealthy=(silent,)),
    )


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
@pytest.mark.parametrize("state", STATES)
async def test_no_sweep_asks_for_the_instance_of_a_warm_node(state: str) -> None:
    cache, sweeps = Cache(), list[None]()

    async def sweep() -> None:
        sweeps.append(None)

    stopped(cache, state)
    async with in_background(NotReadyNodeController(cache, sweep).run()):
        await asyncio.sleep(3600)
    assert sweeps == []


@pytest.mark.parametrize("state", STATES)
def test_a_warm_node_is_not_unhealthy_and_uses_no_budget_up(state: str) -> None:
    cache = Cache()
    stopped(cache, state)
    (managed,) = ManagedNodes(cache).now()
    assert (managed.warm, managed.ready, managed.unhealthy) == (True, True, ())


def warm_among(**options: Any) -> tuple[ManagedNode, Any]:
    state = situation(Cluster.model_validate({"nodes": {"empty": {"type": "m5.large", **options}}}))
    nodes = [dataclasses.replace(item, warm=True) for item in state.nodes]
    return nodes[0], dataclasses.replace(state, nodes=nodes)


@pytest.mark.parametrize("reason", [Reason.EMPTY, Reason.UNDERUTILIZED])
def test_consolidation_keeps_warm_nodes(reason: Reason) -> None:
    warm, state = warm_among()
    assert not is_free(warm, state, reason)


def test_drift_takes_warm_nodes() -> None:
    warm, state = warm_among(drifted="AMIDrift")
    assert is_free(warm, state, Reason.DRIFTED)
    assert members_of(state)[warm.pool].not_ready == 0


@pytest.mark.parametrize("state", STATES)
def test_the_list_of_nodes_says_that_a_node_is_warm(state: str) -> None:
    cache = Cache()
    stopped(cache, state)
    (record,) = cache.claims
    row = disruption_of(record, cache.node_of(record), [], None, NOW)
    assert row.state is DisruptionState.WARM
    assert row.why
