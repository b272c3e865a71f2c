"""What the scenarios of `tests/conformance/disruption` cannot show: large clusters, time limits, formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from tenon.apis import labels
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods.balanced import score
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.search.consolidation_price import PriceRule
from tenon.disruption.search.cost import eviction_cost, rescheduling_cost
from tenon.disruption.search.joined_moves import MAX_JOINED
from tenon.disruption.search.rescheduling import Rescheduler, is_complete
from tenon.disruption.situation import Situation
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Offering, Plan, PlannedClaim, Problem
from tenon.scheduling.offerings.type_table import TypeTables
from tests.tenon.disruption.clusters import (
    NOW,
    Cluster,
    NodeSpec,
    PodSpec,
    PoolSpec,
    ReservationSpec,
    findings,
    situation,
)
from tests.tenon.scheduling.builders import CATALOG, need, node, pod, pool


def small(**more: object) -> PodSpec:
    return PodSpec.model_validate({"cpu": "100m", "memory": "128Mi", **more})


def wasteful(count: int, kind: str = "m5.xlarge", budget: str = "100%") -> Cluster:
    return Cluster(
        pools={"default": PoolSpec(budgets=[{"nodes": budget}])},
        nodes={f"n{number:03}": NodeSpec(type=kind, pods=[small()]) for number in range(count)},
    )


def decided(situation: Situation, method: Consolidation | None = None) -> Decision:
    decision = decide(situation, [method or Consolidation()])
    for error in decision.failed.values():
        raise error
    return decision


def removed(decision: Decision) -> list[str]:
    return sorted(candidate.node.claim for command in decision.commands for candidate in command.candidates)


def test_dis37_more_than_a_hundred_nodes_leave_in_one_decision() -> None:
    cluster = wasteful(150)
    decision = decided(situation(cluster))
    assert len(removed(decision)) >= 145
    assert all(len(command.candidates) <= MAX_JOINED for command in decision.commands)
    assert findings(cluster, decision.commands) == []


def test_dis51_a_large_set_shrinks_to_the_budget() -> None:
    assert len(removed(decided(situation(wasteful(50, budget="10%"))))) == 5


def test_without_a_model_there_is_no_decision() -> None:
    decision = decided(replace(situation(wasteful(3)), model=None))
    assert (decision.commands, decision.next_pass) == ((), None)


def test_the_order_of_nodes_does_not_matter() -> None:
    value = situation(wasteful(9, "m5.2xlarge"))
    model = value.model
    assert model is not None
    turned = replace(
        value,
        nodes=list(reversed(value.nodes)),
        model=replace(
            model,
            problem=replace(model.problem, nodes=list(reversed(model.problem.nodes))),
            details=dict(reversed(list(model.details.items()))),
        ),
    )
    assert decided(turned).commands == decided(value).commands


@pytest.mark.parametrize("steps", [0, 1, 5, 40])
def test_when_the_time_is_over_what_was_found_so_far_is_returned(steps: int) -> None:
    calls = 0

    def expired() -> bool:
        nonlocal calls
        calls += 1
        return calls > steps

    cluster = Cluster(nodes={f"n{n}": NodeSpec(type="r5.4xlarge", pods=[PodSpec(cpu="9")]) for n in range(20)})
    decision = decided(situation(cluster), Consolidation(deadline=lambda: expired))
    assert findings(cluster, decision.commands) == []
    assert len(removed(decision)) <= len(removed(decided(situation(cluster))))
    if steps == 0:
        assert decision.commands == ()


def test_sch026_a_replacement_has_the_label_of_which_its_pool_lists_several_values() -> None:
    """Its pods wait for a Node with the label, before and after the move."""
    tiers = PoolSpec(requirements=[{"key": "tier", "operator": "In", "values": ["silver", "gold"]}])
    cluster = Cluster(pools={"default": tiers}, nodes={"a": NodeSpec(type="m5.4xlarge", pods=[small()])})
    (command,) = decided(situation(cluster)).commands
    assert [claim.requirements.labels()["tier"] for claim in command.replacements] == ["gold"]


def test_dis34_a_least_saving_is_asked_of_each_command() -> None:
    cluster = Cluster(nodes={"a": NodeSpec(type="m5.xlarge", pods=[PodSpec()])})
    for least, count in ((0.1, 1), (0.15, 0)):
        decision = decided(situation(cluster), Consolidation(least_saving=least))
        assert len(decision.commands) == count
        assert all(command.guaranteed_saving >= least for command in decision.commands)


def test_dis05_a_node_in_a_capacity_reservation_leaves_if_its_pods_fit_elsewhere() -> None:
    """Its place is paid for either way, so there is nothing to save. Karpenter deletes whatever a node costs."""
    reservations = {"cr-1": ReservationSpec(type="m5.xlarge")}
    node = NodeSpec(type="m5.xlarge", reservation="cr-1", price=1.92e-8, pods=[small()])

    def commands(least_saving: str | None) -> Sequence[Command]:
        pool = PoolSpec(capacity_types=["reserved", "on-demand"], least_saving=least_saving)
        cluster = Cluster(pools={"default": pool}, nodes={"a": node, "b": node}, reservations=reservations)
        return decided(situation(cluster)).commands

    (command,) = commands(None)
    assert (len(command.candidates), command.replacements) == (1, ())
    assert command.explanation[-1] == "Frees 1 place in capacity reservations, which are paid for either way"
    assert commands("0.01") == ()


@pytest.mark.parametrize(("larger", "new"), [([], 0), (["c5.2xlarge"], 1)])
def test_dis36_a_set_of_spot_nodes_needs_fifteen_types_unless_it_becomes_smaller(larger: list[str], new: int) -> None:
    """Without a larger type the two nodes would become two others of few types. With one they become one node."""
    node = NodeSpec(type="r5.xlarge", capacity_type="spot", pods=[PodSpec(count=4, cpu="700m")])
    cluster = Cluster(
        pools={"default": PoolSpec(capacity_types=["spot"], types=["c5.xlarge", "m5.xlarge", "r5.xlarge", *larger])},
        nodes={"a": node, "b": node},
    )
    commands = decided(situation(cluster), Consolidation(spot_to_spot=True)).commands
    assert sum(len(command.replacements) for command in commands) == new
    assert sum(len(command.candidates) for command in commands) == 2 * new


def test_dis30_a_candidate_is_due_since_the_last_pod_event_and_leaves_now() -> None:
    (command,) = decided(situation(Cluster(nodes={"a": NodeSpec(type="m5.4xlarge", pods=[small()])}))).commands
    (candidate,) = command.candidates
    assert candidate.since == NOW - timedelta(hours=1)
    assert (command.moves_pods, command.graceful, command.only_if_empty) == (True, True, False)


def test_dis34_a_type_counts_with_its_price_in_the_costliest_allowed_zone() -> None:
    """EC2 chooses the zone, so a type that is cheap in only one of them may cost more than the node that leaves."""
    cheap, dear = (next(kind for kind in CATALOG if kind.name == name) for name in ("c5.large", "m5.large"))
    offerings = tuple(
        replace(offering, price=0.3) if offering.zone == "us-west-2b" else offering for offering in cheap.offerings
    )
    pools = [replace(pool(), instance_types=[replace(cheap, offerings=offerings), dear])]
    leaving = NodeDetail("n", "m5.xlarge", "us-west-2a", labels.ON_DEMAND, 0.192, (), 1.0)

    def listed(*zones: str) -> tuple[str, ...]:
        needs = Requirements.of(need(labels.ZONE, "In", *zones), need(labels.CAPACITY_TYPE, "In", labels.ON_DEMAND))
        offering = OfferingKey(labels.ON_DEMAND, "c5.large", "us-west-2a")
        claim = PlannedClaim("default", (), ("c5.large", "m5.large"), needs, {}, 0.085, offering)
        bill = PriceRule(Problem((), pools)).bill([leaving], [claim])
        assert bill is not None
        return bill.replacements[0].instance_types

    assert listed("us-west-2a", "us-west-2b") == ("m5.large",)
    assert listed("us-west-2a") == ("c5.large", "m5.large")


def test_dis34_no_type_costs_more_than_what_leaves_if_the_cheapest_one_costs_nothing() -> None:
    """A NodeOverlay may set a price of 0. An m5.4xlarge costs 0.768, as much as the node that leaves."""
    kinds = [next(kind for kind in CATALOG if kind.name == name) for name in ("c5.large", "m5.large", "m5.4xlarge")]
    free = replace(kinds[0], offerings=tuple(replace(offering, price=0.0) for offering in kinds[0].offerings))
    pools = [replace(pool(), instance_types=[free, *kinds[1:]])]
    leaving = NodeDetail("n", "m5.4xlarge", "us-west-2a", labels.ON_DEMAND, 0.768, (), 1.0)
    needs = Requirements.of(need(labels.CAPACITY_TYPE, "In", labels.ON_DEMAND))
    offering = OfferingKey(labels.ON_DEMAND, "c5.large", "us-west-2a")
    claim = PlannedClaim("default", (), ("c5.large", "m5.large", "m5.4xlarge"), needs, {}, 0.0, offering)
    bill = PriceRule(Problem((), pools)).bill([leaving], [claim])
    assert bill is not None
    assert bill.replacements[0].instance_types == ("c5.large", "m5.large")
    assert bill.guaranteed_saving == pytest.approx(0.768 - 0.096)


def test_sch103_the_worst_price_is_that_of_the_capacity_type_that_launches_first() -> None:
    """A type that is reserved at 0.01 and on demand at 1.0 launches from the reservation."""
    reserved = Offering("us-west-2a", labels.RESERVED, 0.01, reservation_id="cr-1", reservation_capacity=1)
    kind = next(kind for kind in CATALOG if kind.name == "c5.large")
    kind = replace(kind, offerings=(*kind.offerings, reserved))
    pools = [replace(pool(), instance_types=[kind])]
    claim = PlannedClaim(
        "default", (), ("c5.large",), Requirements(), {}, 0.034, OfferingKey(labels.SPOT, "c5.large", "us-west-2a")
    )
    leaving = NodeDetail("n", "m5.large", "us-west-2a", labels.ON_DEMAND, 0.096, (), 1.0)
    bill = PriceRule(Problem((), pools)).bill([leaving], [claim])
    assert bill is not None
    assert bill.guaranteed_saving == pytest.approx(0.086)
    assert bill.replacements[0].requirements[labels.CAPACITY_TYPE].values == (labels.RESERVED,)


@pytest.mark.parametrize(
    ("saving", "disruption", "pool_cost", "pool_disruption", "expected"),
    [(1, 10, 10, 100, 1.0), (1, 20, 10, 100, 0.5), (1, 0, 10, 100, inf), (0, 0, 10, 100, 0.0), (-1, 1, 10, 100, 0.0),
     (1, 1, 0, 100, 0.0), (1, 1, 10, 0, 0.0)],
)  # fmt: skip
def test_dis42_score(
    saving: float, disruption: float, pool_cost: float, pool_disruption: float, expected: float
) -> None:
    assert score(saving, disruption, pool_cost, pool_disruption) == expected


@pytest.mark.parametrize(
    ("priority", "deletion_cost", "cost"),
    [
        (0, 0, 1.0),
        (2**25, 0, 2.0),
        (0, -(2**27), 0.0),
        (2**25 * 8, 2**27, 10.0),
        (2**25 * 9, 2**27, 10.0),
        (2_000_000_000, 2**31 - 1, 10.0),
        (-(2**25) * 11, 0, -10.0),
        (-(2**25) * 12, 0, -10.0),
    ],
)
def test_dis20_what_it_costs_to_evict_a_pod(priority: int, deletion_cost: int, cost: float) -> None:
    assert eviction_cost(priority, deletion_cost) == cost


def test_dis22_a_node_counts_one_and_only_pods_of_positive_cost_add_to_it() -> None:
    assert rescheduling_cost([]) == 1.0
    assert rescheduling_cost([(-(2**31), 0)]) == 1.0
    assert rescheduling_cost([(0, 0), (2**25, 0), (0, 2**27)]) == 6.0


def test_full_nodes_do_not_change_a_plan() -> None:
    """A simulation leaves them out, and plans as if they were there."""
    cluster = Cluster(
        nodes={
            "a": NodeSpec(type="c5.large", pods=[PodSpec()]),
            "b": NodeSpec(type="c5.large", pods=[PodSpec(cpu="1900m")]),
            "c": NodeSpec(type="c5.large", pods=[PodSpec(cpu="500m")]),
        }
    )
    model = situation(cluster).model
    assert model is not None
    pods = model.details["a"].pods
    others = [node for node in model.problem.nodes if node.name != "a"]
    assert Rescheduler(model).simulate(["a"]) == solve(replace(model.problem, pods=pods, nodes=others))
    assert is_complete(Rescheduler(model).simulate(["a"], buys=False))


def test_a_node_that_is_closed_for_one_plan_is_open_for_the_next() -> None:
    model = situation(wasteful(2)).model
    assert model is not None
    rescheduler = Rescheduler(model)
    assert not is_complete(rescheduler.simulate(["n000"], buys=False, closed={"n001"}))
    assert is_complete(rescheduler.simulate(["n000"], buys=False))


def test_plans_are_the_same_with_tables_that_earlier_plans_used() -> None:
    tables = TypeTables()
    value = pool("default", need(labels.CAPACITY_TYPE, "In", "on-demand"))
    for cpu in ("1", "7", "30"):
        problem = Problem([pod("p", cpu), pod("q", "2", extra={"example.com/gpu": 0})], [value], [node()])
        assert solve(problem, tables=tables) == solve(problem)


def test_the_cluster_after_a_move_has_its_pods_on_their_new_nodes() -> None:
    value = situation(Cluster(nodes={"a": NodeSpec(type="m5.4xlarge", pods=[PodSpec()])}))
    assert value.model is not None
    (command,) = decided(value).commands
    after = carried_out(value.model, [(["a"], Plan(command.replacements, command.destinations))])
    (new,) = after.new
    assert after.model.details[new].pods == value.model.details["a"].pods
    assert [node.name for node in after.model.problem.nodes] == [new]
    assert [pool.usage["nodes"] for pool in after.model.problem.pools] == [1]


def test_evt02_a_node_that_stays_says_why() -> None:
    """Not a node that leaves, and not one that its NodePool's policy keeps: the NodePool says that."""
    full = {"type": "m5.large", "pods": [PodSpec(cpu="1500m", memory="4Gi")]}
    hold = "pod default/web: karpenter.sh/do-not-disrupt protects it"
    cluster = Cluster(
        pools={"default": PoolSpec(budgets=[{"nodes": "100%"}]), "calm": PoolSpec(policy="WhenEmpty")},
        nodes={
            "full": NodeSpec.model_validate(full),
            "spot": NodeSpec.model_validate({**full, "capacity_type": "spot"}),
            "held": NodeSpec.model_validate({**full, "held_by": hold}),
            "priceless": NodeSpec.model_validate({**full, "price": 0.0}),
            "buffer": NodeSpec.model_validate(full),
            "calm": NodeSpec.model_validate({**full, "pool": "calm"}),
            "leaves": NodeSpec(type="m5.4xlarge", pods=[small()]),
        },
        buffer_hosts=["buffer"],
    )
    decision = decided(situation(cluster))
    assert removed(decision) == ["leaves"]
    assert decision.unconsolidatable == {
        "buffer": "a CapacityBuffer or the floor of a NodeSchedule keeps room on it",
        "full": "there is neither room for its pods on other nodes nor a cheaper new node for them",
        "held": hold,
        "priceless": "its price is not known: the catalogue has no m5.large (on-demand, us-west-2a)",
        "spot": "its pods fit on no other nodes, "
        "and spot nodes are replaced only with the gate SpotToSpotConsolidation",
    }


def test_evt02_a_search_out_of_time_says_nothing_of_nodes_it_may_not_have_tried() -> None:
    cluster = Cluster(nodes={"a": NodeSpec(type="m5.large", pods=[PodSpec(cpu="1500m", memory="4Gi")])})
    assert decided(situation(cluster), Consolidation(deadline=lambda: lambda: True)).unconsolidatable == {}
    assert list(decided(situation(cluster)).unconsolidatable) == ["a"]


def test_met35_dis42_what_balanced_says_of_moves() -> None:
    few = PodSpec(cpu="100m", memory="128Mi", count=15)
    pods = {"a": [few], "b": [PodSpec(cpu="7800m", count=2)]}
    types = {"a": "m5.large", "b": "c5.4xlarge"}
    pools = {"default": PoolSpec(policy="Balanced")}
    nodes = {name: NodeSpec(type=types[name], pods=pods[name]) for name in pods}
    refused = decided(situation(Cluster(pools=pools, nodes=nodes)))
    assert {(verdict.pool, verdict.claims, verdict.approved) for verdict in refused.verdicts} == {
        ("default", ("a",), False)
    }
    assert all(verdict.score < 0.5 for verdict in refused.verdicts)
    assert "Balanced" in refused.unconsolidatable["a"]
    nodes["a"] = NodeSpec(type="m5.4xlarge", pods=[PodSpec(cpu="1")])
    decision = decided(situation(Cluster(pools=pools, nodes=nodes)))
    assert [(verdict.claims, verdict.approved) for verdict in decision.verdicts] == [(("a",), True)]
    (verdict,) = decision.verdicts
    assert verdict.score >= 0.5
    assert verdict.savings / verdict.disruption == pytest.approx(verdict.score), "what the event says adds up"
