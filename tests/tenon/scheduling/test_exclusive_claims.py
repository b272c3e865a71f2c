"""ReadWriteOncePod claims: one pod at a time uses them, and the others say which one they wait for (SCH-070)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.builders import node, pod, pool, problem

GPU = {"nvidia.com/gpu": 1}
"""No node of the tests has one."""


def using(name: str, *claims: str, **more: Any) -> Pod:
    return pod(name, exclusive=tuple(f"default/{claim}" for claim in claims or ("token",)), **more)


def placed(plan: Plan) -> set[str]:
    on_nodes = (pods for pods in (*plan.placements.values(), *(claim.pods for claim in plan.claims)))
    return {pod.name for pods in on_nodes for pod in pods}


def waits(claim: str, holder: str) -> NoPlace:
    return NoPlace.of(
        f"its volume claim default/{claim} is ReadWriteOncePod and pod default/{holder}, which is placed first, "
        "uses it too: stop that pod first"
    )


def test_sch070_a_pod_waits_for_the_pod_that_uses_its_claim_of_one_pod_at_a_time() -> None:
    pods = [using("new"), using("other", "free")]
    plan = solve(problem(pods, pool(), nodes=[node("n", pods=(using("old"),))]))
    assert [result.name for result in plan.placements["n"]] == ["other"]
    assert plan.unschedulable == {
        "default/new": NoPlace.of(
            "its volume claim default/token is ReadWriteOncePod and in use by pod default/old: stop that pod first"
        )
    }


def test_sch070_a_pod_waits_until_a_terminating_pod_has_released_its_claim() -> None:
    """kube-scheduler would leave the pod pending meanwhile, and a node for it would start in vain."""
    present = replace(node("n"), terminating_users={"default/token": "default/old"})
    plan = solve(problem([using("new"), using("other", "free")], pool(), nodes=[present]))
    assert placed(plan) == {"other"}
    assert plan.unschedulable == {
        "default/new": NoPlace.of(
            "its volume claim default/token is ReadWriteOncePod and in use by pod default/old, which is terminating"
        )
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"name": "b", "created": 1.0}, {"name": "a", "created": 2.0}),
        ({"name": "b", "created": 2.0, "priority": 10}, {"name": "a", "created": 1.0}),
        ({"name": "b", "created": 2.0, "node_name": "leaving"}, {"name": "a", "created": 1.0, "priority": 10}),
        ({"name": "a", "cpu": "1"}, {"name": "b", "cpu": "8"}),
    ],
    ids=["the older", "the more important", "the one that runs", "of equals the first by name"],
)
def test_sch070_of_two_waiting_pods_with_one_claim_the_first_gets_a_node(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    plan = solve(problem([using(**second), using(**first)], pool()))
    assert placed(plan) == {first["name"]}
    assert plan.unschedulable == {f"default/{second['name']}": waits("token", first["name"])}


def test_sch070_a_pod_that_fits_nowhere_does_not_keep_the_claim_from_the_next() -> None:
    """A Deployment whose pod could never run is mended: the new pod starts before the old one is stopped."""
    pods = [using("broken", created=1.0, extra=GPU), using("mended", created=2.0), using("third", created=3.0)]
    plan = solve(problem(pods, pool()))
    assert placed(plan) == {"mended"}
    assert "nvidia.com/gpu" in str(plan.unschedulable["default/broken"])
    assert plan.unschedulable["default/third"] == waits("token", "mended")


def test_sch070_a_pod_that_waits_for_one_claim_leaves_its_other_claims_to_others() -> None:
    pods = [
        using("a", "one", created=1.0),
        using("b", "one", "two", created=2.0),
        using("c", "two", created=3.0),
    ]
    plan = solve(problem(pods, pool()))
    assert placed(plan) == {"a", "c"}
    assert plan.unschedulable == {"default/b": waits("one", "a")}


def test_sch070_pods_with_claims_of_their_own_do_not_wait() -> None:
    plan = solve(problem([using(f"p{n}", f"claim-{n}") for n in range(3)], pool()))
    assert placed(plan) == {"p0", "p1", "p2"}
