"""Which NodeClaims and Nodes are Tenon's own: other controllers' never enter the cache, only their Nodes do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.disruption.history.arrivals import Arrival
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_node
from tests.worker.cache.cluster_state import NOW, STATUS, state
from tests.worker.cache.objects import claim, metadata, node, running
from worker.cache.capacity import scheduling_nodes
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.cache.state import ClusterState
from worker.cache.usage import pool_usages

AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
DISRUPTED = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
OF_POOL = {"labels": {"karpenter.sh/nodepool": "pool", "karpenter.sh/initialized": "true"}}


def foreign(name: str = "auto", **options: Any) -> ClaimRecord:
    """A NodeClaim of EKS Auto Mode."""
    return claim(name, nodeClassRef=AUTO_MODE, **options)


def foreign_pool(name: str = "pool") -> ClaimRecord:
    return claim(name, node_name="", template={"spec": {"nodeClassRef": AUTO_MODE}})


def test_evt02_events_about_a_node_name_its_uid() -> None:
    """`kubectl describe node` finds them by it."""
    view = PlanningView(state(nodes=[node(meta={"uid": "uid-of-n"})]))  # type: ignore[arg-type]
    assert [view.node_uid(name) for name in ("n", "gone", "")] == ["uid-of-n", "", ""]


async def test_nc07_other_controllers_objects_are_absent_and_only_their_names_are_known() -> None:
    result = state(claims=[claim("ours"), foreign()], pools=[foreign_pool()])
    assert [claim.name for claim in result.claims] == ["ours"]
    assert list(result.pools) == []
    assert (result.claims.left_out, result.pools.left_out) == (frozenset({"auto"}), frozenset({"pool"}))
    await result.claims.on_replace({})
    assert result.claims.left_out == frozenset()


def test_nc07_changes_of_other_controllers_objects_trigger_nothing() -> None:
    result = state()
    with result.subscribe([Topic.CLAIM, Topic.POOL]) as news:
        result.claims.on_event("auto", foreign())
        result.pools.on_event("pool", foreign_pool())
        result.claims.on_event("auto", None)
        assert news.take() == []


def test_nc07_a_name_that_another_controller_takes_is_gone_here() -> None:
    """A NodeClaim was deleted, and another controller made one of its name."""
    result = state(claims=[claim("same")])
    with result.subscribe([Topic.CLAIM]) as news:
        result.claims.on_event("same", foreign("same"))
        assert news.take() == [(Topic.CLAIM, "same")]
    assert "same" not in result.claims
    result.claims.on_event("same", claim("same"))
    assert "same" in result.claims
    assert result.claims.left_out == frozenset()


def test_nc07_another_controllers_node_has_room_for_pods_and_is_no_pools() -> None:
    """SCH-090: an ordinary unmanaged node to plans; nothing else looks at it, whatever its labels say."""
    result = state(nodes=[node(meta=OF_POOL)], claims=[foreign(status=STATUS)], pods=[running("a", "n")])
    (scheduling_node,) = scheduling_nodes(result, NOW)
    assert (scheduling_node.name, scheduling_node.initialized, scheduling_node.closed) == ("n", True, False)
    assert (scheduling_node.allocatable, scheduling_node.used) == ({"cpu": 4000, "pods": 10}, {"cpu": 1000, "pods": 1})
    assert [pod.name for pod in scheduling_node.pods] == ["a"], "rules between pods count it"
    assert pool_usages(result, with_leaving=True).get("pool", {}) == {}
    view = PlanningView(result)  # type: ignore[arg-type]
    assert (set(view.claim_names()), view.managed_nodes(), view.node_pools()) == (set(), [], [])


def test_nc07_a_claim_of_another_controller_that_is_not_launched_promises_no_room() -> None:
    assert scheduling_nodes(state(claims=[foreign(node_name="")]), NOW) == []


@pytest.mark.parametrize("removal", [{"meta": {**OF_POOL, **LEAVING}}, {"meta": OF_POOL, "taints": DISRUPTED}])
def test_nc07_pods_of_another_controllers_node_are_that_ones_to_move(removal: dict[str, Any]) -> None:
    """It buys their new nodes; a second one from here would be one too many."""
    cluster_state: ClusterState = state(nodes=[node(**removal)], claims=[foreign()], pods=[running("a", "n")])
    assert cluster_state.moving_pods() == []


def test_a_node_that_was_bought_in_a_capacity_shortage_is_known_as_such() -> None:
    dear = claim("dear", meta={"annotations": {"tenon.sh/bought-in-shortage": "0.2720"}})
    edited = claim("edited", node_name="e", meta={"annotations": {"tenon.sh/bought-in-shortage": "much"}})
    view = PlanningView(state(claims=[dear, edited, claim("other", node_name="m")]))  # type: ignore[arg-type]
    bought_in_shortages = {
        managed_node.claim: (managed_node.bought_in_shortage, managed_node.usual_price)
        for managed_node in view.managed_nodes()
    }
    assert bought_in_shortages == {"dear": (True, 0.272), "edited": (True, 0.0), "other": (False, 0.0)}


def test_wsh01_a_node_knows_which_pods_commands_moved_to_it() -> None:
    text = '[["2026-11-21T11:30:00Z", {"0a0b0c0d": 2}, {}]]'
    moved = claim("moved", meta={"annotations": {"tenon.sh/moved-here": text}})
    view = PlanningView(state(claims=[moved, claim("other", node_name="m")]))  # type: ignore[arg-type]
    arrived = Arrival(datetime(2026, 11, 21, 11, 30, tzinfo=UTC), {"0a0b0c0d": 2})
    assert {managed_node.claim: managed_node.arrivals for managed_node in view.managed_nodes()} == {
        "moved": (arrived,),
        "other": (),
    }


def test_n15_121_disruption_knows_what_repair_needs_and_nothing_of_healthy_nodes() -> None:
    """N15-021, N15-109, N15-154: conditions with their reasons, the Node's age, the veto, and past reboots."""
    since = "2026-01-01T00:10:00Z"
    broken = [
        {"type": "Ready", "status": "True"},
        {"type": "StorageReady", "status": "False", "reason": "IOError", "lastTransitionTime": since},
    ]
    body = {
        "metadata": metadata("sick"),
        "spec": {"providerID": "aws:///us-west-2a/i-sick"},
        "status": {"conditions": broken},
    }
    marks = {"karpenter.sh/do-not-repair": "true", "tenon.sh/reboots": "2026-01-01T00:01:00Z"}
    ended = {"type": "Rebooting", "status": "False", "lastTransitionTime": "2026-01-01T00:05:00Z"}
    hold = claim("sick", node_name="sick", meta={**OF_POOL, "annotations": marks}, status={"conditions": [ended]})
    nodes = [decode_node(json.dumps(body).encode()), node("well")]
    pods = [running("a", "sick"), running("b", "well")]
    cluster = state(claims=[hold, claim("well", node_name="well", meta=OF_POOL)], nodes=nodes, pods=pods)
    view = PlanningView(cluster)  # type: ignore[arg-type]
    sick, well = sorted(view.managed_nodes(), key=lambda managed: managed.claim)
    (condition,) = sick.unhealthy
    assert (condition.type, condition.status, condition.reason) == ("StorageReady", "False", "IOError")
    assert sick.node_created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (sick.repair_veto, sick.rebooting) == ("NodeClaim", False)
    assert sick.reboots == (datetime(2026, 1, 1, 0, 1, tzinfo=UTC),)
    assert sick.rebooted_at == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    assert (well.unhealthy, well.node_created_at, well.repair_veto, well.reboots) == ((), None, "", ())
