"""Whether a waiting pod could have had the node that was bought for it, and what keeps it away for now (SCH-018)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.cache.objects import claim, node, owned_by, running, waiting
from tests.worker.cache.test_cluster import START, T0, Cache
from worker.cache.new_nodes import is_unused, undeclared_taint

BOUGHT = {"annotations": {"tenon.sh/planned-pods": "ns/p=uid-p,ns/q=uid-q"}}
OF_WEB = owned_by("ReplicaSet")
ROOM = {"allocatable": {"cpu": "4", "pods": "10"}}
CNI = {"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}


def bought(*present_items: Any, meta: Any = None, **node_spec: Any) -> bool:
    """Whether a node with these pods, bought for ``p`` and ``q``, is unused by ``p``."""
    cache = Cache()
    mine = claim(meta=BOUGHT, initialized=START, status=ROOM)
    cache.publish(mine, node(meta=meta, **node_spec), waiting("p", meta=OF_WEB), *present_items)
    return is_unused(cache, mine, cache.pods.get("ns/p").pod)  # type: ignore[union-attr]


def test_sch018_a_node_with_only_daemonset_pods_is_unused() -> None:
    assert bought()
    assert bought(running("ds", "n", cpu="3500m", meta=owned_by("DaemonSet")))


@pytest.mark.parametrize(
    "present_items",
    [
        running("q", "n"),
        running("other-replica", "n", meta=OF_WEB),
        running("large", "n", cpu="3500m"),
        running("done", "n", meta=OF_WEB, status={"phase": "Succeeded"}),
    ],
    ids=["a planned pod", "a pod of the same controller", "a pod that took the room", "a pod that has ended"],
)
def test_sch018_a_node_that_others_took_is_used(present_items: Any) -> None:
    assert not bought(present_items)


def test_sch018_small_pods_of_others_do_not_make_a_node_used() -> None:
    assert bought(running("small", "n", cpu="100m"))


def test_sch018_a_node_that_a_pod_came_to_and_left_is_used() -> None:
    cache = Cache()
    mine = claim(meta=BOUGHT, initialized=START, status=ROOM)
    cache.publish(mine, node(), waiting("p"), running("q", "n"))
    cache.pods.on_event("ns/q", None)
    assert not is_unused(cache, mine, cache.pods.get("ns/p").pod)  # type: ignore[union-attr]


def test_sch018_a_node_that_tenon_itself_keeps_closed_is_not_unused() -> None:
    assert not bought(meta={"annotations": {"tenon.sh/closed": "true"}}, unschedulable=True)


@pytest.mark.parametrize(
    ("taint", "claim_spec", "tolerations", "key"),
    [
        (CNI, {}, [], CNI["key"]),
        (CNI, {"startupTaints": [CNI]}, [], ""),
        (CNI, {"taints": [CNI]}, [], ""),
        (CNI, {}, [{"operator": "Exists"}], ""),
        ({**CNI, "effect": "PreferNoSchedule"}, {}, [], ""),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {}, [], ""),
        ({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {}, [], ""),
        ({**CNI, "effect": "NoExecute"}, {}, [], CNI["key"]),
        ({**CNI, "effect": "NoExecute"}, {"startupTaints": [CNI]}, [], CNI["key"]),
        ({**CNI, "effect": "NoExecute"}, {}, [{**CNI, "operator": "Exists"}], CNI["key"]),
        (CNI, {}, [{**CNI, "operator": "Exists"}], ""),
        ({"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}, {"startupTaints": [CNI]}, [],
         "ebs.csi.aws.com/agent-not-ready"),
    ],
    ids=[
        "undeclared", "startup", "declared", "tolerated", "preferred", "cordon", "disrupted", "evicts",
        "declared with another effect", "tolerated with another effect", "tolerated by key", "a second agent",
    ],
)  # fmt: skip
def test_sch018_an_undeclared_taint_is_one_that_an_agent_may_remove(
    taint: Any, claim_spec: Any, tolerations: Any, key: str
) -> None:
    cache = Cache()
    mine = claim(meta=BOUGHT, initialized=START, **claim_spec)
    cache.publish(mine, node(taints=[taint]), waiting("p", tolerations=tolerations))
    assert undeclared_taint(cache, mine, cache.pods.get("ns/p").pod) == key  # type: ignore[union-attr]


def test_dis01_a_new_node_is_not_empty_while_its_planned_pods_wait() -> None:
    """Else it leaves as Empty before a slow CNI is ready, and the next plan buys the same node again."""
    cache = Cache()
    mine = claim(meta=BOUGHT, initialized=START)
    cache.publish(mine, node(), waiting("p"))
    assert cache.empty_since(mine, T0 + 299) is None
    assert cache.empty_since(mine, T0 + 300) is not None, "the pod may never come"
    cache.publish(running("p", "elsewhere", since="2026-01-01T00:01:00Z"))
    assert cache.empty_since(mine, T0 + 299) is not None
    cache.publish(waiting("p", meta={"uid": "another"}))
    assert cache.empty_since(mine, T0 + 299) is not None, "it was bought for an earlier pod of that name"
