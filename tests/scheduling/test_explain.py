"""Why a pod stays pending, in words that a person can act on (SCH-108)."""

from __future__ import annotations

from tenon.apis import labels
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Pod, Pool
from tenon.scheduling.requirements import Requirements
from tests.scheduling.builders import DEDICATED, asking, need, pod, pool, problem


def reason(one: Pod, *pools: Pool, daemons: tuple[Pod, ...] = ()) -> str:
    plan = solve(problem([one], *pools, daemons=daemons))
    assert plan.claims == ()
    return plan.unschedulable[one.key]


def test_too_large_for_every_type() -> None:
    assert reason(pod("p", "200"), pool()) == (
        "NodePool default: needs 200 CPU; the largest type it allows has 95.9 CPU"
    )


def test_sch079_a_request_in_the_wrong_unit_gets_a_hint() -> None:
    assert "written with a small m" in reason(pod("p", "1M"), pool())


def test_sch079_an_unknown_resource_is_named() -> None:
    text = reason(pod("p", extra={"example.com/device": 1}), pool())
    assert text == "NodePool default: needs example.com/device, which none of the types that it allows has"


def test_no_type_has_both() -> None:
    text = reason(pod("p", "60", "700Gi"), pool("default", need("karpenter.k8s.aws/instance-cpu", "Lt", "90")))
    assert "needs 700Gi memory" in text
    types = need("karpenter.k8s.aws/instance-family", "In", "c5", "r5")
    sizes = need("karpenter.k8s.aws/instance-size", "In", "16xlarge", "24xlarge")
    both = pod("p", "80", "600Gi", Requirements.of(need(labels.INSTANCE_TYPE, "NotIn", "r5.24xlarge")))
    assert reason(both, pool("default", types, sizes)).endswith(
        "needs 600Gi memory; the largest type it allows has 511.5Gi memory"
    )


def test_daemons_are_blamed_where_they_take_the_room() -> None:
    text = reason(pod("p", "95"), pool(), daemons=(pod("d", "1"),))
    needs = "no type that it allows has 95 CPU and 1Gi memory at once"
    assert text == f"NodePool default: {needs}, once its DaemonSets have their room"


def test_each_pool_speaks_in_the_order_of_their_weights() -> None:
    text = reason(pod("p", "200"), pool("light"), pool("heavy", weight=9, taints=(DEDICATED,)))
    assert text.startswith(
        "NodePool heavy: its taint dedicated=x:NoSchedule is not tolerated; NodePool light: needs 200 CPU"
    )


def test_a_label_that_no_pool_defines_is_said_once() -> None:
    assert reason(asking("p", need("team", "In", "a")), pool("a"), pool("b")) == "no NodePool defines label team"


def test_a_value_that_the_pool_does_not_allow() -> None:
    text = reason(asking("p", need("team", "In", "b")), pool("default", need("team", "In", "a")))
    assert text == "NodePool default: team In [b] is asked for, team In [a] is allowed"


def test_a_pool_that_contradicts_itself_says_so() -> None:
    text = reason(pod(), pool("default", need("team", "In", "a"), labels={"team": "b"}))
    assert text == "NodePool default: its own requirements and labels contradict each other on team"


def test_no_pools_at_all() -> None:
    assert reason(pod()) == "no NodePool is ready to launch nodes, and no existing node has room"


def test_a_pool_without_types() -> None:
    text = reason(pod(), pool("default", need(labels.ARCH, "In", "riscv")))
    assert text == "NodePool default: no available instance type meets its requirements"
