"""Labels that a new node gets without its type: those that Tenon puts on every node (LBL-03), and those for which its
NodePool lists values (SCH-026).
"""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.ec2.launch.filters import missing_values
from tenon.kube.requirements import Requirement
from tenon.scheduling.after_plan import new_node
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.builders import CATALOG, TOLERATES_ALL, asking, need, node, pod, pool, problem

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


THREE = need("team", "In", "red", "blue", "green")


@pytest.mark.parametrize(
    ("of_pool", "of_pod", "value"),
    [
        (THREE, None, "blue"),
        (THREE, need("team", "Exists"), "blue"),
        (THREE, need("team", "In", "red", "green"), "green"),
        (THREE, need("team", "NotIn", "blue"), "green"),
        (need("team", "Exists"), need("team", "In", "red", "blue"), "blue"),
        (need("team", "NotIn", "green"), need("team", "In", "red", "blue"), "blue"),
        (need("team", "In", "3", "7", "9"), need("team", "Gt", "5"), "7"),
    ],
    ids=str,
)
def test_sch026_the_node_has_one_of_the_listed_values(
    of_pool: Requirement, of_pod: Requirement | None, value: str
) -> None:
    """kube-scheduler binds a pod that asks for the label only to a node that has it, and so does the next plan."""
    tiers, pods = pool("default", of_pool), [asking("p", *([of_pod] if of_pod else []))]
    (claim,) = solve(problem(pods, tiers)).claims
    assert claim.requirements.labels()["team"] == value
    bought = new_node("n", claim, tiers)
    plan = solve(problem([asking("q", *([of_pod] if of_pod else []), cpu="0")], tiers, nodes=[bought]))
    assert (plan.claims, list(plan.placements)) == ((), ["n"])


def test_sch026_nodes_of_pods_without_a_common_value_differ() -> None:
    pods = [asking("a", need("team", "In", "red", "green")), asking("b", need("team", "In", "blue", "green"))]
    (shared,) = solve(problem(pods, pool("default", THREE))).claims
    assert shared.requirements["team"].values == ("green",)
    pods = [asking("a", need("team", "In", "red", "green")), asking("b", need("team", "In", "blue"))]
    values = {claim.requirements["team"].values for claim in solve(problem(pods, pool("default", THREE))).claims}
    assert values == {("green",), ("blue",)}


@pytest.mark.parametrize("least", [1, 2])
def test_sch026_sch031_min_values_of_a_label_that_no_type_has_are_never_met(least: int) -> None:
    """The launch counts only values of instance types, so it would refuse the NodeClaim (AWS-026)."""
    teams = pool("default", need("team", "In", "red", "blue", "green", least=least))
    plan = solve(problem([pod()], teams))
    assert (plan.claims, str(plan.unschedulable["default/p"])) == (
        (),
        f"NodePool default: the types that hold the pod do not offer the minValues of the pool ({least} values of "
        "team, of which they have 0): minValues count only labels that instance types have, so remove those of team",
    )
    (claim,) = solve(problem([pod()], teams, min_values_best_effort=True)).claims
    assert (claim.requirements["team"].values, claim.requirements["team"].min_values) == (("blue",), None)
    assert claim.min_values_relaxed
    assert not missing_values(claim.requirements, [t for t in CATALOG if t.name in claim.instance_types])


@pytest.mark.parametrize(("team", "cpu"), [("blue", 1200), ("red", 1000)])
def test_sch026_sch081_daemonsets_that_select_another_value_need_no_room(team: str, cpu: int) -> None:
    agent = asking("agent", need("team", "In", team), cpu="200m", tolerations=TOLERATES_ALL)
    (claim,) = solve(problem([pod()], pool("default", THREE), daemons=[agent])).claims
    assert claim.requests["cpu"] == cpu
