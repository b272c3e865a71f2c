"""Why a pod stays pending, in words that a person can act on (SCH-108)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Pool
from tests.tenon.scheduling.between_pods import near, spread, web
from tests.tenon.scheduling.builders import DEDICATED, ZONES, asking, need, pod, pool, problem


def reason(pod: Pod, *pools: Pool, daemons: tuple[Pod, ...] = ()) -> str:
    plan = solve(problem([pod], *pools, daemons=daemons))
    assert plan.claims == ()
    return str(plan.unschedulable[pod.key])


def test_too_large_for_every_type() -> None:
    assert reason(pod("p", "200"), pool()) == (
        "NodePool default: needs 200 CPU; the largest type it allows has 95.9 CPU"
    )


def test_an_exbibyte_is_written_without_an_exponent() -> None:
    assert reason(pod("p", "1", "1Ei"), pool()).startswith("NodePool default: needs 1048576Ti memory; ")


def test_a_pod_that_names_its_pool_hears_only_about_that_one() -> None:
    own = Requirements.of(need(labels.NODEPOOL, "In", "batch"))
    text = reason(pod("p", "200", "1Gi", own), pool("default"), pool("batch"))
    assert text == "NodePool batch: needs 200 CPU; the largest type it allows has 95.9 CPU"
    text = reason(pod("p", "1", "1Gi", own), pool("default"), pool("web"))
    assert text == "no NodePool that can launch nodes meets karpenter.sh/nodepool In [batch]"


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
    pair = pod("p", "80", "600Gi", Requirements.of(need(labels.INSTANCE_TYPE, "NotIn", "r5.24xlarge")))
    assert reason(pair, pool("default", types, sizes)).endswith(
        "needs 600Gi memory; the largest type it allows has 511.5Gi memory"
    )


def test_daemons_are_blamed_where_they_take_the_room() -> None:
    text = reason(pod("p", "95"), pool(), daemons=(pod("d", "1"),))
    needs = "no type that it allows has 95 CPU and 1Gi memory at once"
    daemons = "in addition to its DaemonSets: with the rest of the pod there is room for 94.9 CPU"
    assert text == f"NodePool default: {needs}, {daemons}"


def test_of_two_resources_the_one_that_lacks_least_is_reported() -> None:
    sizes = need(labels.INSTANCE_TYPE, "In", "c5.4xlarge", "r5.2xlarge")
    assert reason(pod("p", "15", "40Gi"), pool("default", sizes)) == (
        "NodePool default: no type that it allows has 15 CPU and 40Gi memory at once: "
        "with the rest of the pod there is room for 31.5Gi memory"
    )
    assert reason(pod("p", "10", "60Gi"), pool("default", sizes)).endswith("there is room for 7.9 CPU")


def test_the_available_values_of_a_label_are_reported() -> None:
    text = reason(asking("p", need(labels.ARCH, "In", "s390x")), pool())
    assert text.endswith("of the pool meets kubernetes.io/arch In [s390x] (available: amd64, arm64)")
    text = reason(asking("p", need(labels.ZONE, "In", "us-west-2d")), pool("default", need(labels.ZONE, "NotIn", "b")))
    assert text.endswith("(available: us-west-2a, us-west-2b, us-west-2c)")
    text = reason(asking("p", need("karpenter.k8s.aws/instance-cpu", "In", "1")), pool())
    assert text.endswith("(available: 2, 4, 8, 16, 32 and 2 others)")
    text = reason(asking("p", need("karpenter.k8s.aws/instance-gpu-name", "In", "t4")), pool())
    assert text.endswith("(none has that label)")


def test_only_conflicting_labels_are_reported() -> None:
    requirements = (need(labels.ARCH, "In", "arm64"), need("karpenter.k8s.aws/instance-family", "In", "c5"))
    text = reason(asking("p", *requirements, need(labels.ZONE, "In", ZONES[0])), pool())
    assert text == (
        "NodePool default: no available instance type of the pool meets "
        "karpenter.k8s.aws/instance-family In [c5], kubernetes.io/arch In [arm64] at once"
    )


def test_every_taint_in_the_way_is_reported() -> None:
    taints = (DEDICATED, Taint("slow", "PreferNoSchedule"), Taint("gpu", "NoExecute"))
    text = reason(pod(), pool("default", taints=taints))
    assert text == "NodePool default: its taints dedicated=x:NoSchedule and gpu:NoExecute are not tolerated"


def test_a_taint_in_the_way_is_reported_although_no_type_is_left() -> None:
    """EC2 may refuse all types of a NodePool for a while. Who waits for that would wait for ever."""
    empty = pool("default", need(labels.ARCH, "In", "s390x"), taints=(DEDICATED,))
    text = reason(pod(), empty)
    assert text.startswith("NodePool default: its taint dedicated=x:NoSchedule is not tolerated, and no ")


def test_sch108_all_that_must_change_is_reported() -> None:
    """What is told of a pool is enough: a person who changes that much sees the pod placed."""
    small = (need("karpenter.k8s.aws/instance-cpu", "Lt", "65"), need(labels.ZONE, "In", ZONES[0]))
    elsewhere = need(labels.ZONE, "In", "us-west-2d")
    text = reason(pod("p", "96", "1Gi", Requirements.of(elsewhere)), pool("default", *small, taints=(DEDICATED,)))
    assert text == (
        "NodePool default: its taint dedicated=x:NoSchedule is not tolerated, and "
        "topology.kubernetes.io/zone In [us-west-2d] is asked for, topology.kubernetes.io/zone In [us-west-2a] "
        "is allowed, and the pod needs 96 CPU; the largest type it allows has 63.9 CPU"
    )
    elsewheres = (elsewhere, need(labels.ARCH, "In", "s390x"))
    text = reason(asking("p", *elsewheres), pool("default", limits={"nodes": 0}))
    assert "kubernetes.io/arch In [s390x] (available: amd64, arm64), and no available" in text
    assert text.endswith("us-west-2c), and its limit leaves no room for another node (nodes 0)")
    text = reason(pod("p", "200", "9000Gi"), pool("default", limits={"nodes": 0}))
    assert "95.9 CPU, and needs 8.8Ti memory; the largest" in text
    assert text.endswith("and its limit leaves no room for another node (nodes 0)")


def test_sch108_what_would_fit_is_not_reported() -> None:
    """A pod that only a taint keeps off is told of the taint alone, and one that fits in another zone of the zone."""
    assert reason(pod(), pool("default", taints=(DEDICATED,))).endswith("is not tolerated")
    text = reason(asking("p", need(labels.ZONE, "In", "mars")), pool("default", limits={"nodes": 1, "cpu": 100}))
    assert text.endswith("(available: us-west-2a, us-west-2b, us-west-2c)")


def test_a_zone_without_subnet_is_reported_as_such() -> None:
    changed_pool = replace(pool(), zones=frozenset(ZONES[:1]))
    text = reason(asking("p", need(labels.ZONE, "In", "us-west-2d")), changed_pool)
    assert (
        text == "NodePool default: zone us-west-2d is in no subnet of its EC2NodeClass (its subnets are in us-west-2a)"
    )
    text = reason(asking("p", need(labels.ZONE, "In", "us-west-2d", "us-west-2e")), changed_pool)
    assert "zones us-west-2d, us-west-2e are in no subnet of its EC2NodeClass" in text


def test_a_limit_is_reported_with_what_is_left_and_what_a_node_needs() -> None:
    text = reason(pod("p", "3"), pool("default", limits={"cpu": 10, "memory": "1Ti"}, usage={"cpu": 7}))
    assert text == (
        "NodePool default: its limit leaves no room for another node (cpu 10); "
        "3 of cpu is left, and the smallest node for the pod has 4"
    )
    text = reason(pod("p", "3"), pool("default", limits={"nodes": 2, "cpu": 100}, usage={"nodes": 2}))
    assert text == "NodePool default: its limit leaves no room for another node (nodes 2)"


def test_minvalues_are_reported_with_what_is_available() -> None:
    family = "karpenter.k8s.aws/instance-family"
    few = pool("default", need(family, "Exists", least=3), need(labels.ARCH, "Exists", least=1))
    assert reason(asking("p", need(family, "In", "c5", "m5")), few) == (
        "NodePool default: the types that hold the pod do not offer the minValues of the pool "
        f"(3 values of {family}, of which they have 2)"
    )


def test_a_volume_in_another_zone_is_reported_as_such() -> None:
    present_items = pod("p", volume_terms=(Requirements.of(need(labels.ZONE, "In", ZONES[1])),))
    text = reason(present_items, pool("default", need(labels.ZONE, "In", ZONES[0])))
    assert text.endswith("topology.kubernetes.io/zone In [us-west-2a] is allowed (by where its volumes are)")


def test_many_alternatives_are_counted() -> None:
    terms = tuple(Requirements.of(need(labels.ZONE, "In", f"mars-{n}")) for n in range(6))
    text = reason(pod("p", "1", "1Gi", *terms), pool())
    assert text.count("mars-") == 4
    assert text.endswith(" or 2 other alternatives fail")


def test_a_reserved_label_and_a_hostname_are_reported_as_such() -> None:
    text = reason(asking("p", need("karpenter.sh/tier", "In", "x")), pool("a"), pool("b"))
    assert text == "label karpenter.sh/tier is not allowed: the domain karpenter.sh is reserved"
    text = reason(asking("p", need("karpenter.sh/capacity-typ", "In", "x")), pool())
    assert text.endswith("is reserved (did you mean karpenter.sh/capacity-type?)")
    assert "every node has that label" in reason(asking("p", need(labels.HOSTNAME, "DoesNotExist")), pool())


def test_absurd_amounts_are_written_out() -> None:
    assert reason(pod("p", "1234567"), pool()).startswith("NodePool default: needs 1234567 CPU (millicores")


def test_each_pool_speaks_in_the_order_of_their_weights() -> None:
    text = reason(pod("p", "200"), pool("light"), pool("heavy", weight=9, taints=(DEDICATED,)))
    assert text.startswith(
        "NodePool heavy: its taint dedicated=x:NoSchedule is not tolerated, and the pod needs 200 CPU; "
        "the largest type it allows has 95.9 CPU; NodePool light: needs 200 CPU"
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


def test_a_value_that_no_label_can_have_is_named() -> None:
    """The API server would refuse a NodeClaim that names it."""
    anyones = pool("default", need("team", "Exists"))
    text = reason(asking("p", need("team", "In", "bad value!")), anyones, replace(anyones, name="other"))
    assert text.startswith("it asks for a node with label team 'bad value!', and no label can have that value: ")
    pair = replace(
        pod("p"), required_terms=(Requirements.of(need("team", "In", "x" * 64)), Requirements.of(need("a", "Exists")))
    )
    assert "no label can have that value" in reason(pair, anyones)


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (spread(), "its topology spread over topology.kubernetes.io/zone (maxSkew 1)"),
        (near(), "its pod affinity over topology.kubernetes.io/zone"),
    ],
)
def test_sch031_min_values_of_a_label_that_a_rule_between_pods_settles(rules: PodRules, rule: str) -> None:
    """A node of the pod has one zone, so no node can offer two. What the reason advises gives the pod a node."""
    pods = web(2, rules)
    two = pool("default", need(labels.ZONE, "Exists", least=2))
    plan = solve(problem(pods, two))
    assert set(map(str, plan.unschedulable.values())) == {
        f"NodePool default: {rule} puts each node into one topology.kubernetes.io/zone, but the minValues of the pool "
        "ask for 2 values of it: lower them to 1, or set MIN_VALUES_POLICY to BestEffort"
    }
    assert not solve(problem(pods, pool("default", need(labels.ZONE, "Exists", least=1)))).unschedulable
    assert not solve(problem(pods, two, min_values_best_effort=True)).unschedulable


def test_sch031_min_values_of_the_zone_are_not_blamed_for_a_pod_that_is_too_large() -> None:
    (big,) = web(1, spread(), cpu="200")
    assert "needs 200 CPU" in reason(big, pool("default", need(labels.ZONE, "Exists", least=2)))
