"""What the commands of one pass are promised: each place, each room and each node only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.drift import Drift, StaticDrift
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.search.consolidation_price import PriceRule
from tenon.disruption.search.move_planner import MoveTerms, Planner
from tenon.disruption.situation import Situation
from tenon.scheduling.deadline import never
from tenon.scheduling.model import InstanceType, Offering, Plan, Pool
from tenon.scheduling.offerings.hourly_cost import TOTAL_HOURLY_COST
from tenon.scheduling.reservations import reservation_of
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, findings, situation

ANY = ["on-demand", "reserved"]


def with_reservation(situation: Situation, type_name: str, places: int = 1) -> Situation:
    """The situation with so many free places of one type in a capacity reservation."""
    model = situation.model
    assert model is not None
    offering = Offering("us-west-2a", labels.RESERVED, 1e-8, reservation_id="cr-1", reservation_capacity=places)

    def selling(kind: InstanceType) -> InstanceType:
        return replace(kind, offerings=(*kind.offerings, offering)) if kind.name == type_name else kind

    def holding(pool: Pool) -> Pool:
        return replace(pool, instance_types=[selling(kind) for kind in pool.instance_types])

    problem = replace(model.problem, pools=[holding(pool) for pool in model.problem.pools])
    static = {name: holding(pool) for name, pool in model.static_pools.items()}
    return replace(situation, model=replace(model, problem=problem, static_pools=static))


def places_promised(decision: Decision) -> int:
    """How many new nodes of the commands launch into the reservation."""
    assert not decision.failed
    return sum(bool(reservation_of(claim)) for command in decision.commands for claim in command.replacements)


def of_type(count: int, **spec: object) -> dict[str, NodeSpec]:
    return {f"n{number}": NodeSpec.model_validate(spec) for number in range(count)}


LARGE = PodSpec(cpu="3", memory="6Gi", apart=True)


@pytest.mark.parametrize("method", [Drift(), Consolidation()])
@pytest.mark.parametrize("places", [1, 2])
def test_sch094_the_commands_of_a_pass_share_the_places_of_a_reservation(method: Method, places: int) -> None:
    """The replacements beyond its places could not be launched, and their commands were undone."""
    nodes = of_type(3, type="m5.4xlarge", pods=[LARGE], drifted="AMIDrift")
    value = situation(Cluster(pools={"default": PoolSpec(capacity_types=ANY)}, nodes=nodes))
    decision = decide(with_reservation(value, "m5.xlarge", places), [method])
    assert sum(len(command.replacements) for command in decision.commands) == 3
    assert places_promised(decision) == places


def test_sch094_static_nodes_share_the_places_of_a_reservation() -> None:
    pools = {"fixed": PoolSpec(replicas=3, capacity_types=ANY)}
    value = situation(Cluster(pools=pools, nodes=of_type(3, pool="fixed", drifted="AMIDrift")))
    decision = decide(with_reservation(value, "m5.xlarge", 2), [StaticDrift()])
    assert len(decision.commands) == 3
    assert places_promised(decision) == 2


@pytest.mark.parametrize("methods", [[StaticDrift(), Drift()], [Drift(), Consolidation()]])
def test_sch094_a_method_counts_the_places_that_an_earlier_one_took(methods: Sequence[Method]) -> None:
    pools = {"default": PoolSpec(capacity_types=ANY), "fixed": PoolSpec(replicas=1, capacity_types=ANY)}
    nodes = of_type(2, type="m5.4xlarge", pods=[LARGE])
    nodes["n0"] = nodes["n0"].model_copy(update={"drifted": "AMIDrift"})
    nodes["static"] = NodeSpec(pool="fixed", drifted="AMIDrift")
    value = situation(Cluster(pools=pools, nodes=nodes))
    decision = decide(with_reservation(value, "m5.xlarge"), methods)
    assert len(decision.commands) == 2
    assert places_promised(decision) == 1


def test_sch094_a_second_pass_of_a_search_counts_the_places_that_the_first_took() -> None:
    pools = {"default": PoolSpec(capacity_types=ANY)}
    reservation = situation(Cluster(pools=pools, nodes=of_type(2, type="m5.4xlarge", pods=[LARGE])))
    reservation = with_reservation(reservation, "m5.xlarge")
    assert reservation.model is not None
    first = decide(reservation, [Drift(), Consolidation()]).commands[0]
    (claim,) = first.candidates
    after = carried_out(reservation.model, [([claim.node.claim], Plan(first.replacements, first.destinations))]).model
    (other,) = {"n0", "n1"} - {claim.node.claim}
    planner = Planner(after, MoveTerms(PriceRule(after.problem), lambda _, __: True, {}))
    (bought,) = planner.rescheduler.simulate([other]).claims
    assert reservation_of(bought) == ""


def test_sch094_a_new_node_that_gets_more_pods_takes_no_place_of_another_move() -> None:
    """The search makes a new node larger if pods of a later move join it. It does not know who uses the place then."""
    pools = {"default": PoolSpec(capacity_types=ANY)}
    alone = situation(Cluster(pools=pools, nodes=of_type(2, type="m5.4xlarge", pods=[PodSpec(cpu="3", memory="6Gi")])))
    reservation = with_reservation(alone, "m5.2xlarge")
    assert alone.model is not None
    assert reservation.model is not None
    pods = reservation.model.details["n1"].pods
    (bought,) = Planner(alone.model, _terms(alone)).rescheduler.simulate(["n0"], closed={"n1"}).claims
    assert Planner(alone.model, _terms(alone)).larger(bought, pods) is not None
    assert Planner(reservation.model, _terms(reservation)).larger(bought, pods) is None
    (reserved,) = Planner(reservation.model, _terms(reservation)).rescheduler.simulate(["n0"], closed={"n1"}).claims
    larger = Planner(reservation.model, _terms(reservation)).larger(reserved, pods)
    assert reservation_of(reserved) == "cr-1"
    assert larger is not None
    assert reservation_of(larger) == "cr-1", "its own place"


def test_a_new_node_that_gets_more_pods_says_the_most_that_its_types_have_of_what_is_limited() -> None:
    """Its NodeClaim counts at that until it has an instance, also where a limit is on costs or GPUs."""
    pools = {"default": PoolSpec(limits={"cpu": "1k", "nvidia.com/gpu": "8"})}
    nodes = of_type(2, type="m5.4xlarge", pods=[PodSpec(cpu="3", memory="6Gi")])
    value = situation(Cluster(pools=pools, nodes=nodes, max_hourly_cost=100))
    assert value.model is not None
    planner = Planner(value.model, _terms(value))
    (bought,) = planner.rescheduler.simulate(["n0"], closed={"n1"}).claims
    larger = planner.larger(bought, value.model.details["n1"].pods)
    assert larger is not None
    assert set(larger.largest) == set(bought.largest) == {"cpu", "memory", "nvidia.com/gpu", TOTAL_HOURLY_COST}
    (pool,) = value.model.problem.pools
    dearest = max(
        kind.capacity[TOTAL_HOURLY_COST] for kind in pool.instance_types if kind.name in larger.instance_types
    )
    assert larger.largest[TOTAL_HOURLY_COST] == dearest > 0


def _terms(situation: Situation) -> MoveTerms:
    assert situation.model is not None
    return MoveTerms(PriceRule(situation.model.problem), lambda _, __: True, {})


def taken(decision: Decision) -> set[str]:
    assert not decision.failed
    return {candidate.node.claim for command in decision.commands for candidate in command.candidates}


def test_dis62_consolidation_takes_no_node_that_drift_moves_pods_to() -> None:
    """Both commands of one pass failed their validation, or the pods moved twice."""
    nodes = {
        "old": NodeSpec(type="m5.large", pods=[PodSpec(cpu="500m")], drifted="AMIDrift"),
        "host": NodeSpec(type="m5.4xlarge", pods=[PodSpec(cpu="1")]),
    }
    cluster = Cluster(nodes=nodes)
    assert taken(decide(situation(cluster), [Consolidation()])) == {"old", "host"}
    decision = decide(situation(cluster), moving_methods(never))
    assert [(command.reason, list(command.destinations)) for command in decision.commands] == [("Drifted", ["host"])]


def test_dis62_consolidation_plans_with_the_room_that_drift_leaves() -> None:
    """`host` has room for the pod of `old` or for that of `half`."""
    nodes = {
        "old": NodeSpec(type="m5.large", pods=[PodSpec(cpu="1500m")], drifted="AMIDrift"),
        "half": NodeSpec(type="m5.large", pods=[PodSpec(cpu="1500m")]),
        "host": NodeSpec(type="c5.xlarge", pods=[PodSpec(cpu="2", memory="1Gi")], protected=True),
    }
    cluster = Cluster(nodes=nodes)
    assert list(decide(situation(cluster), [Consolidation()]).commands[0].destinations) == ["host"]
    decision = decide(situation(cluster), moving_methods(never))
    assert taken(decision) >= {"old"}
    assert findings(cluster, decision.commands) == []


def test_limits_count_what_an_earlier_method_of_the_pass_launches() -> None:
    """Both would need the last 4 CPU that a NodePool may launch."""
    nodes = {
        "old": NodeSpec(pool="small", type="c5.xlarge", pods=[LARGE], drifted="AMIDrift"),
        "dear": NodeSpec(pool="small", type="m5.4xlarge", pods=[LARGE]),
    }
    pools = {"small": PoolSpec(types=["m5.large"]), "large": PoolSpec(limits={"cpu": "4"})}
    cluster = Cluster(pools=pools, nodes=nodes)
    assert taken(decide(situation(cluster), [Consolidation()])) == {"dear"}
    decision = decide(situation(cluster), moving_methods(never))
    assert [(command.reason, claim.pool) for command in decision.commands for claim in command.replacements] == [
        ("Drifted", "large")
    ]
