"""Pods that select labels which Tenon itself puts on nodes: a new node has them, whatever its NodePool is (LBL-03)."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.kube.requirements import Requirement
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.builders import asking, need, node, pool, problem

REGISTERED, INITIALIZED, NODEPOOL = labels.REGISTERED, labels.INITIALIZED, labels.NODEPOOL


@pytest.mark.parametrize(
    "requirements",
    [
        [need(REGISTERED, "In", "true")],
        [need(INITIALIZED, "In", "true")],
        [need(REGISTERED, "Exists"), need(INITIALIZED, "NotIn", "false")],
        [need(INITIALIZED, "In", "true", "yes"), need(labels.ZONE, "In", "us-west-2b")],
        [need(NODEPOOL, "Exists")],
        [need(NODEPOOL, "In", "other", "default"), need(REGISTERED, "In", "true")],
        [need("eks.amazonaws.com/compute-type", "NotIn", "fargate")],
        [need("node-role.kubernetes.io/control-plane", "DoesNotExist")],
    ],
    ids=lambda requests: ", ".join(map(str, requests)),
)
def test_lbl03_a_node_is_bought_for_labels_that_it_gets(requirements: list[Requirement]) -> None:
    plan = solve(problem([asking("p", *requirements)], pool()))
    (claim,) = plan.claims
    assert not {REGISTERED, INITIALIZED} & set(claim.requirements), "the API server refuses a NodeClaim with them"
    assert lower_bound(problem([asking("p", *requirements)], pool())) > 0


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        (need(REGISTERED, "In", "false"), "karpenter.sh/registered In [false] is asked for"),
        (need(INITIALIZED, "DoesNotExist"), "karpenter.sh/initialized DoesNotExist is asked for"),
        (need(INITIALIZED, "NotIn", "true"), "karpenter.sh/initialized NotIn [true] is asked for"),
        (need("node-role.kubernetes.io/worker", "In", ""), "label node-role.kubernetes.io/worker is not defined"),
        (need("eks.amazonaws.com/nodegroup", "Exists"), "label eks.amazonaws.com/nodegroup is not defined"),
        (need("karpenter.sh/unknown", "In", "true"), "label karpenter.sh/unknown is not allowed"),
    ],
    ids=lambda value: str(value) if isinstance(value, Requirement) else "",
)
def test_lbl03_nothing_is_bought_for_labels_that_no_node_gets(requirement: Requirement, reason: str) -> None:
    plan = solve(problem([asking("p", requirement)], pool()))
    assert not plan.claims
    assert reason in str(plan.unschedulable["default/p"])


def test_lbl03_a_node_that_no_nodepool_made_lacks_the_labels() -> None:
    foreign = node("foreign")
    ours = node("ours", labels={REGISTERED: "true", INITIALIZED: "true"})
    pods = [asking("waits", need(INITIALIZED, "In", "true")), asking("avoids", need(REGISTERED, "DoesNotExist"))]
    plan = solve(problem(pods, pool(), nodes=[foreign, ours]))
    assert {name: [pod.name for pod in placed] for name, placed in plan.placements.items()} == {
        "foreign": ["avoids"],
        "ours": ["waits"],
    }
