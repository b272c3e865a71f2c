"""Which pod goes where: selectors, taints, ports, pools, DaemonSets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.builders import (
    AMD64,
    CATALOG,
    DEDICATED,
    ON_DEMAND,
    TOLERATES_ALL,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    pod,
    pool,
    problem,
    replicas,
)

FAMILY = "karpenter.k8s.aws/instance-family"
CPU_LABEL = "karpenter.k8s.aws/instance-cpu"
GPU_LABEL = "karpenter.k8s.aws/instance-gpu-count"


def families(plan: Plan) -> set[str]:
    return {name.partition(".")[0] for claim in plan.claims for name in claim.instance_types}


@pytest.mark.parametrize(
    ("requirement", "allowed"),
    [
        (need(FAMILY, "In", "m5"), {"m5"}),
        (need(FAMILY, "NotIn", "m5", "c6g"), {"c5", "r5"}),
        (need(labels.ARCH, "In", "arm64"), {"c6g"}),
        (need("beta.kubernetes.io/arch", "In", "arm64"), {"c6g"}),
        (need(GPU_LABEL, "DoesNotExist"), {"c5", "m5", "r5", "c6g"}),
        (need(labels.ZONE, "NotIn", *ZONES[:2]), {"c5", "m5", "r5", "c6g"}),
        (need(labels.INSTANCE_TYPE, "In", "r5.large"), {"r5"}),
    ],
)
def test_sch029_a_pod_narrows_the_types(requirement: Requirement, allowed: set[str]) -> None:
    assert families(solve(problem([asking("p", requirement)], pool()))) == allowed


@pytest.mark.parametrize(("operator", "sizes"), [("Gt", {"24xlarge"}), ("Gte", {"16xlarge", "24xlarge"})])
def test_sch021_bounds_on_a_type_label(operator: str, sizes: set[str]) -> None:
    plan = solve(problem([asking("p", need(CPU_LABEL, operator, "64"))], pool()))
    assert {name.partition(".")[2] for name in plan.claims[0].instance_types} == sizes


@pytest.mark.parametrize(
    "requirement",
    [
        need(GPU_LABEL, "Exists"),
        need(GPU_LABEL, "Gt", "0"),
        need("karpenter.k8s.aws/instance-local-nvme", "Exists"),
        need(labels.ZONE, "In", "eu-west-1a"),
        need(labels.ZONE_ID, "Exists"),
        need(labels.HOSTNAME, "In", "n"),
        need(labels.CAPACITY_TYPE, "DoesNotExist"),
        need(labels.NODEPOOL, "DoesNotExist"),
    ],
)
def test_sch027_what_no_type_has_cannot_be_bought(requirement: Requirement) -> None:
    plan = solve(problem([asking("p", requirement)], pool()))
    assert plan.claims == ()
    assert requirement.key in str(plan.unschedulable["default/p"])


def test_sch029_any_required_term_may_be_used() -> None:
    terms = (Requirements.of(need("team", "In", "a")), Requirements.of(need(FAMILY, "In", "r5")))
    assert families(solve(problem([pod("p", "1", "1Gi", *terms)], pool()))) == {"r5"}


def test_sch019_a_claim_is_the_template_and_its_pods() -> None:
    expectation = pool("default", need(labels.ZONE, "In", *ZONES), ON_DEMAND, labels={"team": "a"})
    (claim,) = solve(problem([asking("p", need(labels.ZONE, "In", ZONES[1], "elsewhere"))], expectation)).claims
    assert claim.requirements[labels.ZONE].values == (ZONES[1],)
    assert claim.requirements.labels()["team"] == "a"
    assert claim.requirements.labels()[labels.NODEPOOL] == "default"
    assert claim.offering == OfferingKey(labels.ON_DEMAND, "c6g.large", ZONES[1])


def test_pods_that_contradict_each_other_get_nodes_of_their_own() -> None:
    pods = [asking("a", need(labels.ZONE, "In", ZONES[0])), asking("b", need(labels.ZONE, "In", ZONES[1]))]
    assert [len(claim.pods) for claim in solve(problem(pods, pool())).claims] == [1, 1]


def test_sch027_a_label_that_the_pool_defines_is_chosen_by_the_pod() -> None:
    pods = [asking("a", need("team", "In", "x")), asking("b", need("team", "In", "y"))]
    plan = solve(problem(pods, pool("default", need("team", "Exists"))))
    assert sorted(claim.requirements.labels()["team"] for claim in plan.claims) == ["x", "y"]


def test_qrk21_a_pod_that_contradicts_itself_is_not_placed() -> None:
    never = asking("p", need("team", "In", "a"), need("team", "In", "b"))
    for pools in ([pool()], [pool("default", need("team", "Exists"))]):
        plan = solve(problem([never], *pools))
        assert "contradict each other" in str(plan.unschedulable["default/p"])


def test_qrk22_naming_a_label_does_not_define_it() -> None:
    pods = [asking("a", need("team", "NotIn", "x"), cpu="2"), asking("b", need("team", "In", "y"))]
    plan = solve(problem(pods, pool()))
    assert [p.name for claim in plan.claims for p in claim.pods] == ["a"]
    assert "label team is not defined" in str(plan.unschedulable["default/b"])


@pytest.mark.parametrize(
    ("toleration", "placed"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Equal", "x", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "y"), False),
        (Toleration("dedicated", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
    ],
)
def test_a_pool_with_a_taint_takes_only_pods_that_tolerate_it(toleration: Toleration, placed: bool) -> None:
    plan = solve(problem([pod(tolerations=(toleration,))], pool(taints=(DEDICATED,))))
    assert bool(plan.claims) is placed


def test_preferred_and_startup_taints_keep_no_pod_away() -> None:
    soft = Taint("soft", "PreferNoSchedule")
    plan = solve(problem([pod()], pool(taints=(soft,), startup_taints=(DEDICATED,))))
    assert len(plan.claims) == 1


@pytest.mark.parametrize(
    ("first", "second", "nodes"),
    [
        (("", 80, "TCP"), ("", 80, "TCP"), 2),
        (("", 80, "TCP"), ("", 80, "UDP"), 1),
        (("", 80, "TCP"), ("", 81, "TCP"), 1),
        (("10.0.0.1", 80, "TCP"), ("10.0.0.2", 80, "TCP"), 1),
        (("10.0.0.1", 80, "TCP"), ("0.0.0.0", 80, "TCP"), 2),
        (("10.0.0.1", 80, "TCP"), ("::", 80, "TCP"), 2),
    ],
)
def test_sch075_host_ports_part_pods(first: tuple[str, int, str], second: tuple[str, int, str], nodes: int) -> None:
    pods = [pod("a", host_ports=(first,)), pod("b", host_ports=(second,))]
    assert len(solve(problem(pods, pool())).claims) == nodes


def test_sch075_a_daemon_keeps_its_host_port_on_new_nodes() -> None:
    daemon = pod("agent", "100m", "64Mi", Requirements.of(need(FAMILY, "In", "c5")), host_ports=(("", 9100, "TCP"),))
    plan = solve(problem([pod(host_ports=(("", 9100, "TCP"),))], pool(), daemons=[daemon]))
    assert families(plan) == {"m5", "r5", "c6g"}


def test_sch008_the_heavier_pool_goes_first_then_the_name() -> None:
    light, heavy = pool("a", weight=1), pool("z", weight=10)
    assert [c.pool for c in solve(problem([pod()], light, heavy)).claims] == ["z"]
    assert [c.pool for c in solve(problem([pod()], pool("b"), pool("a"))).claims] == ["a"]


def test_sch093_pods_that_the_heavier_pool_cannot_host_go_to_the_next() -> None:
    heavy = pool("heavy", need(FAMILY, "In", "m5"), weight=10, taints=(DEDICATED,))
    pods = [pod("plain"), pod("tolerant", tolerations=TOLERATES_ALL)]
    plan = solve(problem(pods, heavy, pool("light")))
    assert {claim.pool: [p.name for p in claim.pods] for claim in plan.claims} == {
        "heavy": ["tolerant"],
        "light": ["plain"],
    }


def test_sch081_daemons_take_room_where_they_run() -> None:
    daemon = pod("agent", "1", "1Gi", Requirements.of(need(FAMILY, "In", "c5")))
    (claim,) = solve(problem([pod("p", "1500m")], pool("default", AMD64), daemons=[daemon])).claims
    assert "c5.large" not in claim.instance_types
    assert {"c5.xlarge", "m5.large"} <= set(claim.instance_types)
    assert claim.requests["cpu"] == 2500


def test_qrk20_a_daemon_counts_on_each_type_that_any_of_its_terms_matches() -> None:
    terms = [Requirements.of(need(FAMILY, "In", family)) for family in ("c5", "m5", "r5")]
    (claim,) = solve(
        problem([pod("p", "1500m")], pool("default", AMD64), daemons=[pod("d", "1", "1Gi", *terms)])
    ).claims
    assert not {"c5.large", "m5.large", "r5.large"} & set(claim.instance_types)


@pytest.mark.parametrize(
    ("daemon", "cpu"),
    [
        (pod("d", "500m"), 1000),
        (asking("d", need("team", "In", "a"), cpu="500m"), 1000),
        (asking("d", need(labels.INITIALIZED, "In", "true"), cpu="500m"), 1500),
        (asking("d", need(labels.ZONE, "In", "elsewhere"), cpu="500m"), 1000),
        (pod("d", "500m", tolerations=TOLERATES_ALL), 1500),
    ],
)
def test_sch081_only_daemons_that_will_run_count(daemon: Pod, cpu: int) -> None:
    tolerant = replace(daemon, tolerations=TOLERATES_ALL) if daemon.required_terms else daemon
    plan = solve(problem([pod(tolerations=TOLERATES_ALL)], pool(taints=(DEDICATED,)), daemons=[tolerant]))
    assert plan.claims[0].requests["cpu"] == cpu


def test_daemons_of_different_zones_are_never_on_one_node() -> None:
    daemons = [asking(f"d{n}", need(labels.ZONE, "In", zone), cpu="500m") for n, zone in enumerate(ZONES)]
    (claim,) = solve(problem([pod()], pool(), daemons=daemons)).claims
    assert claim.requests["cpu"] == 1500


def test_sch078_pods_per_node_count() -> None:
    plan = solve(problem(replicas(120, "10m", "1Mi"), pool()))
    assert [len(claim.pods) <= 58 for claim in plan.claims] == [True, True, True]


def test_sch078_huge_pages_are_not_ordinary_memory() -> None:
    plain = entry("m5.large", 2, 8, 0.1)
    huge = entry("m5h.large", 2, 8, 0.05, capacity={"hugepages-2Mi": "6Gi"})
    (claim,) = solve(problem([pod("p", "1", "4Gi")], pool(types=catalog(plain, huge)))).claims
    assert claim.instance_types == ("m5.large",)


def test_sch079_extended_resources_choose_the_types_that_have_them() -> None:
    accelerated = entry("p9.large", 2, 8, 3.0, capacity={"example.com/device": "2"})
    pods = [pod(f"p{n}", "100m", extra={"example.com/device": 1}) for n in range(3)]
    plan = solve(problem(pods, pool(types=catalog(accelerated, entry("m5.large", 2, 8, 0.1)))))
    assert [(c.instance_types, len(c.pods)) for c in plan.claims] == [(("p9.large",), 2), (("p9.large",), 1)]


def test_sch102_types_are_listed_by_their_cheapest_allowed_offering() -> None:
    (claim,) = solve(
        problem([pod()], pool("default", ON_DEMAND, need("karpenter.k8s.aws/instance-size", "In", "large")))
    ).claims
    assert claim.instance_types == ("c6g.large", "c5.large", "m5.large", "r5.large")
    assert claim.price == 0.068


def test_an_offering_that_is_not_available_is_not_sold() -> None:
    removal = entry("a1.large", 2, 8, 0.01, available=False)
    (claim,) = solve(problem([pod()], pool(types=[*catalog(removal), *CATALOG]))).claims
    assert "a1.large" not in claim.instance_types


def test_sch014_a_claim_lists_600_types_and_keeps_the_min_values() -> None:
    many = [entry(f"m5.size{n:03}", 2, 8, 0.1 + n / 10_000) for n in range(650)]
    dear = [entry(f"x{n}.large", 2, 8, 9.0 + n) for n in range(3)]
    expectation = pool("default", need(FAMILY, "Exists", least=3), types=catalog(*many, *dear))
    (claim,) = solve(problem([pod()], expectation)).claims
    assert len(claim.instance_types) == 600
    assert claim.instance_types[-2:] == ("x0.large", "x1.large")


def test_sch014_zones_count_toward_the_min_values_of_a_claim_of_600_types() -> None:
    many = [entry(f"m5.size{n:03}", 2, 8, 0.1 + n / 10_000, zones=ZONES[:1]) for n in range(650)]
    dear = [entry(f"x{n}.large", 2, 8, 9.0 + n, zones=[zone]) for n, zone in enumerate(ZONES)]
    expectation = pool("default", need(labels.ZONE, "Exists", least=2), types=catalog(*many, *dear))
    (claim,) = solve(problem([pod()], expectation)).claims
    assert len(claim.instance_types) == 600
    assert claim.instance_types[-1] == "x1.large", "the cheapest type of a second zone"


@pytest.mark.parametrize(("least", "placed"), [(4, True), (5, False)])
def test_sch031_min_values_are_strict(least: int, placed: bool) -> None:
    plan = solve(problem([pod()], pool("default", need(FAMILY, "Exists", least=least))))
    assert bool(plan.claims) is placed
    if not placed:
        assert f"{least} values of {FAMILY}" in str(plan.unschedulable["default/p"])


def test_n15_253_min_values_count_only_values_that_the_pod_allows() -> None:
    """A pod of one zone cannot have the two zones that the NodePool asks for, although its types are sold in both."""
    two_zones = pool("default", need(labels.ZONE, "Exists", least=2))
    free, bound = pod("free"), asking("bound", need(labels.ZONE, "In", ZONES[0]))
    plan = solve(problem([free, bound], two_zones))
    assert [p.name for claim in plan.claims for p in claim.pods] == ["free"]
    assert f"2 values of {labels.ZONE}" in str(plan.unschedulable["default/bound"])


def test_sch031_a_node_is_not_filled_beyond_its_min_values() -> None:
    small = entry("m5.large", 2, 8, 0.1)
    large = entry("m6.xlarge", 4, 16, 0.2)
    plan = solve(problem(replicas(3), pool("default", need(FAMILY, "Exists", least=2), types=catalog(small, large))))
    assert [claim.instance_types for claim in plan.claims] == [("m5.large", "m6.xlarge")] * 3


def test_a_pod_with_a_rule_that_is_not_known_is_refused_with_its_reason() -> None:
    refused = pod("p", unsupported="topology spread is not supported yet")
    plan = solve(problem([refused, pod("q")], pool()))
    assert dict(plan.unschedulable) == {"default/p": NoPlace.of("topology spread is not supported yet")}
    assert [p.name for p in plan.claims[0].pods] == ["q"]


def test_sch010_older_pods_go_first_among_equal_ones() -> None:
    pods = [pod("young", created=2.0), pod("old", created=1.0)]
    plan = solve(problem(pods, pool(types=catalog(entry("m5.large", 2, 8, 0.1)), limits={"nodes": 1})))
    assert [p.name for claim in plan.claims for p in claim.pods] == ["old"]


def test_no_pods_no_plan() -> None:
    assert solve(problem([], pool())) == Plan()
