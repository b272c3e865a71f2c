"""Room for DaemonSets that run on some nodes only: elsewhere it belongs to the pods (SCH-081, SCH-075)."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.builders import (
    AMD64,
    ON_DEMAND,
    TOLERATES_ALL,
    ZONES,
    need,
    pod,
    pool,
    price,
    problem,
    replicas,
)

HUGE = "95800m"
"""More than the largest type has beside a DaemonSet of 200m, and less than it has alone."""
IN_ZONE_A = need(labels.ZONE, "In", ZONES[0])


def daemon(*requirements: Requirement, cpu: str = "200m", port: int = 0) -> Pod:
    ports = ((("0.0.0.0", port, "TCP"),)) if port else ()
    terms = Requirements.of(*requirements)
    return pod("agent", cpu, "128Mi", terms, tolerations=TOLERATES_ALL, host_ports=ports)


@pytest.mark.parametrize(
    ("where", "key", "avoided"),
    [
        (IN_ZONE_A, labels.ZONE, ZONES[0]),
        (need(labels.CAPACITY_TYPE, "In", labels.SPOT), labels.CAPACITY_TYPE, labels.SPOT),
        (need("team", "In", "red"), "team", "red"),
    ],
)
def test_sch081_a_pod_that_fits_next_to_no_daemon_goes_where_none_runs(
    where: Requirement, key: str, avoided: str
) -> None:
    open_pool = pool("default", AMD64, need("team", "In", "red", "blue"))
    plan = solve(problem([pod("p", HUGE)], open_pool, daemons=[daemon(where)]))
    (claim,) = plan.claims
    assert not claim.requirements[key].has(avoided)
    assert claim.instance_types[0] == "c5.24xlarge"


def test_sch075_a_pod_goes_where_no_daemon_takes_its_port() -> None:
    shortage = pod("p", host_ports=(("0.0.0.0", 80, "TCP"),))
    plan = solve(problem([shortage], pool("default", ON_DEMAND), daemons=[daemon(IN_ZONE_A, port=80)]))
    (claim,) = plan.claims
    assert not claim.requirements[labels.ZONE].has(ZONES[0])


def test_pods_that_fit_next_to_the_daemon_leave_the_zone_open() -> None:
    plan = solve(problem([pod("p")], pool("default", ON_DEMAND), daemons=[daemon(IN_ZONE_A)]))
    (claim,) = plan.claims
    assert labels.ZONE not in claim.requirements


def test_where_the_daemon_runs_everywhere_the_pod_has_no_place() -> None:
    plan = solve(problem([pod("p", HUGE)], pool(), daemons=[daemon(need(labels.ZONE, "In", *ZONES))]))
    assert "DaemonSets" in str(plan.unschedulable["default/p"])


def test_of_the_zones_without_the_daemon_the_cheapest_is_taken() -> None:
    plan = solve(problem([pod("p", HUGE)], pool("default", AMD64), daemons=[daemon(IN_ZONE_A)]))
    assert plan.claims[0].offering.capacity_type == labels.SPOT


def test_pods_with_and_without_room_next_to_the_daemon_are_planned_together() -> None:
    plan = solve(
        problem(
            [*replicas(3, HUGE, prefix="huge"), *replicas(20, "1", prefix="small")],
            pool("default", ON_DEMAND, AMD64),
            daemons=[daemon(IN_ZONE_A)],
        )
    )
    assert plan.unschedulable == {}
    assert price(plan) <= 3 * 96 * 0.0425 + 24 * 0.0425 + 1e-9


def test_sch092_types_beyond_the_limit_do_not_count_as_room_next_to_the_daemon() -> None:
    limited = pool("default", ON_DEMAND, AMD64, limits={"cpu": "2"})
    plan = solve(problem([pod("p", "1800m")], limited, daemons=[daemon(IN_ZONE_A)]))
    (claim,) = plan.claims
    assert claim.instance_types[0] == "c5.large"
