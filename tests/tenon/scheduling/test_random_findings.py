"""What random plans showed to be wrong once, each by the smallest problem that shows it."""

from __future__ import annotations

from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules
from tenon.kube.requirements import Requirements
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import WEB, domains, near, spread, web
from tests.tenon.scheduling.builders import (
    CATALOG,
    ON_DEMAND,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    node,
    pod,
    pool,
    problem,
)

RACKED = catalog(
    entry("m5.large", 2, 8, 0.096, requirements={"example.com/rack": ["old"]}),
    entry("m5.xlarge", 4, 16, 0.192, requirements={"example.com/rack": ["new"]}),
)
"""Types with a label that only this catalogue knows."""


def test_a_label_that_only_the_catalogue_knows_chooses_types() -> None:
    """SCH-027: such a label comes from the type, so no NodePool has to define it."""
    for requirement in (need("example.com/rack", "In", "new"), need("example.com/rack", "NotIn", "old")):
        plan = solve(problem([asking("p", requirement)], pool(types=RACKED)))
        assert [claim.instance_types for claim in plan.claims] == [("m5.xlarge",)]


def test_a_daemonset_that_selects_such_a_label_gets_room() -> None:
    """SCH-081: an agent for old racks takes 1 CPU of the small type, which then cannot hold the pod."""
    agent = asking("agent", need("example.com/rack", "In", "old"))
    plan = solve(problem([pod(cpu="1500m")], pool(types=RACKED), daemons=[agent]))
    assert [claim.instance_types for claim in plan.claims] == [("m5.xlarge",)]


def test_no_room_is_asked_for_a_daemonset_that_will_not_come() -> None:
    """SCH-030, SCH-081: the node's team will be some number, so an agent of team red never runs there."""
    agent = asking("agent", need("team", "In", "red"))
    plan = solve(problem([pod()], pool("default", need("team", "Exists")), daemons=[agent]))
    (claim,) = plan.claims
    assert not claim.requirements["team"].has("red")
    assert claim.requests["pods"] == 1


def test_spread_counts_only_nodes_that_have_all_topology_keys() -> None:
    """SCH-052: kube-scheduler passes over a node that lacks one of the keys of the pod's constraints.

    The node without a team stands in zone a with three pods; they must not let three more go to another zone.
    """
    rules = PodRules(spreads=(*spread(labels.ZONE).spreads, *spread("team", skew=9).spreads))
    running = [replace(pod(f"old-{n}", labels=WEB), node_name="n") for n in range(3)]
    place = node("n", cpu="0", pods=running)
    two_zones = need(labels.ZONE, "In", *ZONES[:2])
    plan = solve(problem(web(4, rules), pool("default", two_zones, need("team", "In", "red")), nodes=[place]))
    assert domains(plan) == {ZONES[0]: 2, ZONES[1]: 2}


def test_one_pod_must_meet_all_terms_of_an_affinity() -> None:
    """SCH-067: kube-scheduler counts a pod only where it meets all required terms of the pod that arrives."""
    pod_rules = PodRules(affinity=(*near(labels.ZONE, "db").affinity, *near(labels.HOSTNAME, "cache").affinity))
    running = [replace(pod(app, labels={"app": app}), node_name="n") for app in ("db", "cache")]
    present_items = node("n", cpu="8", pods=running)
    assert solve(problem(web(1, pod_rules), pool(), nodes=[present_items])).unschedulable.keys() == {"default/web-0"}
    changed_running = replace(running[0], labels={"app": "db", "role": "cache"})
    rules = PodRules(affinity=(*near(labels.ZONE, "db").affinity, *near(labels.HOSTNAME, "db").affinity))
    plan = solve(problem(web(1, rules), pool(), nodes=[replace(present_items, pods=[changed_running])]))
    assert plan.placements.keys() == {"n"}


def test_values_that_a_pod_does_not_accept_are_no_domains_of_its_spread() -> None:
    """SCH-058, SCH-054: with nodeAffinityPolicy Honor, kube-scheduler compares only nodes that the pod may use."""
    blue = Requirements.of(need("team", "In", "blue"))
    pods: list[Pod] = [replace(item, required_terms=(blue,)) for item in web(3, spread("team"))]
    plan = solve(problem(pods, pool("default", ON_DEMAND, need("team", "In", "red", "blue"), types=CATALOG)))
    assert domains(plan, "team") == {"blue": 3}
