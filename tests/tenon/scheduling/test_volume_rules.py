"""Volumes: where they can be reached, and how many a node can have attached (SCH-070..074)."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules
from tenon.kube.requirements import Requirements
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import WEB, domains, spread, web
from tests.tenon.scheduling.builders import (
    SIZES,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    node,
    pod,
    pool,
    problem,
    replicas,
)

A, B, C = ZONES
EBS = "ebs.csi.aws.com"


def reachable(*zones: str) -> tuple[Requirements, ...]:
    return tuple(Requirements.of(need(labels.ZONE, "In", zone)) for zone in zones)


def test_sch070_a_pod_goes_to_the_zone_of_its_volume() -> None:
    plan = solve(problem(web(2, PodRules(), volume_terms=reachable(B)), pool(), nodes=[node("n")]))
    assert (domains(plan), plan.placements) == ({B: 2}, {})


def test_sch071_alternatives_are_tried_together_with_those_of_the_pod() -> None:
    pods = [asking("web-0", need(labels.ZONE, "In", A, C), volume_terms=reachable(B, C))]
    assert domains(solve(problem(pods, pool()))) == {C: 1}
    assert solve(problem([asking("p", need(labels.ZONE, "In", A), volume_terms=reachable(B))], pool())).unschedulable


def test_sch072_volumes_do_not_narrow_the_zones_with_nodes_that_spread_compares() -> None:
    pods = web(2, spread(), volume_terms=reachable(A))
    plan = solve(problem(pods, pool(), nodes=[node("n", labels={labels.ZONE: B}, closed=True)]))
    assert domains(plan) == {A: 1}
    (reason,) = map(str, plan.unschedulable.values())
    assert "topology spread over topology.kubernetes.io/zone (maxSkew 1) rules out us-west-2a" in reason


def test_sch072_a_zone_without_nodes_that_no_volume_reaches_does_not_count() -> None:
    plan = solve(problem(web(2, spread(), volume_terms=reachable(A)), pool()))
    assert domains(plan) == {A: 2}


def test_sch072_a_stateful_set_with_volumes_in_three_of_four_zones_has_a_place_for_each_pod() -> None:
    zones = (*ZONES, "us-west-2d")
    four = catalog(*(entry(f"m5.{size}", cpu, 4 * cpu, 0.05 * cpu, zones=zones) for size, cpu in SIZES.items()))
    pods = [
        pod(f"web-{number}", labels=WEB, rules=spread(), volume_terms=reachable(zone))
        for number, zone in enumerate((A, B, C, B, A))
    ]
    plan = solve(problem(pods, pool(types=four)))
    assert domains(plan) == {A: 2, B: 2, C: 1}
    # the fourth zone is used by a pod that can go there
    plan = solve(problem([*pods, pod("web-5", labels=WEB, rules=spread())], pool(types=four)))
    assert domains(plan) == {A: 2, B: 2, C: 1, "us-west-2d": 1}


def test_sch074_a_node_takes_no_more_volumes_than_its_driver_attaches() -> None:
    running = pod("run", attachments=((EBS, "default/old"),))
    present_items = node("n", cpu="16", pods=(running,), volume_limits={EBS: 3})
    pods = [pod(f"p-{n}", attachments=((EBS, f"default/claim-{n}"),)) for n in range(4)]
    plan = solve(problem(pods, pool(), nodes=[present_items]))
    assert len(plan.placements["n"]) == 2
    assert sum(len(claim.pods) for claim in plan.claims) == 2


def test_sch074_a_shared_volume_counts_once_and_other_drivers_are_not_counted() -> None:
    present_items = node("n", cpu="16", volume_limits={EBS: 1})
    shared = replicas(3, attachments=((EBS, "default/shared"),))
    other = replicas(3, prefix="efs", attachments=(("efs.csi.aws.com", "default/many"),))
    plan = solve(problem([*shared, *other], pool(), nodes=[present_items]))
    assert len(plan.placements["n"]) == 6
