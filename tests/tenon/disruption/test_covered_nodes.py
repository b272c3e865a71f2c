"""What consolidation does with nodes that Reserved Instances and Savings Plans cover, and with what these leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.disruption.covered_nodes import with_coverage
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.situation import Situation
from tenon.ec2.commitments.coverage import Coverage
from tenon.scheduling.model import Commitment, Plan
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, micro_dollars
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, situation

UNITS = {"m5.large": 4, "m5.xlarge": 8, "m5.2xlarge": 16}
RESERVED = "Reserved Instances of m5"
PRICES = {"m5.large": 0.096, "m5.xlarge": 0.192, "c5.large": 0.085}


def with_left(value: Situation, amount: int, *covered: str) -> Situation:
    """The situation once a commitment covers these nodes, and has so much left."""
    assert value.model is not None
    coverage = Coverage((Commitment(RESERVED, amount, UNITS),), dict.fromkeys(covered, RESERVED))
    return replace(value, model=with_coverage(value.model, coverage))


def cluster(*kinds: str, cpu: str = "1500m", capacity_type: str = "on-demand") -> Cluster:
    """Nodes that are one pod too large, or too dear."""
    return Cluster(
        pools={"default": PoolSpec(budgets=[{"nodes": "100%"}])},
        nodes={
            f"n{number}": NodeSpec(type=kind, capacity_type=capacity_type, pods=[PodSpec(cpu=cpu)])
            for number, kind in enumerate(kinds)
        },
    )


def decided(value: Situation) -> Decision:
    decision = decide(value, [Consolidation()])
    for error in decision.failed.values():
        raise error
    return decision


def test_a_node_is_replaced_by_one_that_is_covered() -> None:
    """Without the commitment it costs the least that it can: its pods are alone on the cheapest type."""
    (command,) = decided(with_left(situation(cluster("r5.large")), 4)).commands
    (planned,) = command.replacements
    assert (planned.commitment, planned.instance_types) == (RESERVED, ("m5.large",))
    assert planned.requirements[labels.CAPACITY_TYPE].values == (labels.ON_DEMAND,)
    assert command.expected > 0.12, "all that the node costs"


def test_a_node_that_is_covered_stays() -> None:
    """It costs nothing that a smaller or a spot node would save."""
    value = situation(cluster("m5.2xlarge"))
    assert decided(value).commands, "without the commitment it is replaced"
    assert decided(with_left(value, 0, "n0")).commands == ()


def test_not_even_the_dearest_covered_nodes_are_a_saving() -> None:
    """Their pods would fit on the other nodes, and what the account pays stays the same."""
    value = situation(cluster(*["m5.2xlarge"] * 6))
    assert value.model is not None
    details = {
        name: replace(detail, price=400 * detail.price) for name, detail in value.model.details.items()
    }  # $150 an hour, more than the largest instance costs in most regions
    value = replace(value, model=replace(value.model, details=details))
    assert decided(value).commands, "without the commitment they are removed"
    assert decided(with_left(value, 0, *details)).commands == ()


def test_pods_move_to_a_covered_node_that_has_room() -> None:
    value = with_left(situation(cluster("m5.2xlarge", "c5.large")), 0, "n0")
    (command,) = decided(value).commands
    assert [candidate.node.claim for candidate in command.candidates] == ["n1"]
    assert command.replacements == ()


def test_covered_replacements_count_with_their_price_against_a_limit_on_costs() -> None:
    """They do once they are launched, so a decision must not count them as free. The limit is below what both cost."""
    dear = cluster("r5.large", "r5.large")
    limit = 0.18
    dear.pools["default"] = PoolSpec(budgets=[{"nodes": "100%"}], max_hourly_cost=str(limit))
    commands = decided(with_left(situation(dear), 8)).commands
    replacements = [planned for command in commands for planned in command.replacements]
    assert any(planned.commitment for planned in replacements)
    for planned in replacements:
        assert planned.largest[HOURLY_COST] == micro_dollars(PRICES[planned.instance_types[0]])
    assert sum(planned.largest[HOURLY_COST] for planned in replacements) <= micro_dollars(limit)


def test_a_covered_node_counts_with_its_price_in_the_cluster_after_a_move() -> None:
    dear = cluster("r5.large")
    dear.pools["default"] = PoolSpec(budgets=[{"nodes": "100%"}], max_hourly_cost="0.18")
    value = with_left(situation(dear), 4)
    (command,) = decided(value).commands
    assert value.model is not None
    after = carried_out(value.model, [(["n0"], Plan(command.replacements, command.destinations))]).model
    (pool,) = after.problem.pools
    assert pool.usage[HOURLY_COST] == micro_dollars(PRICES["m5.large"])


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["r5.large", "c5.xlarge", "m5.xlarge", "m5.2xlarge"]), min_size=1, max_size=6),
    amount=st.integers(0, 40),
    covered=st.sets(st.integers(0, 5)),
    capacity_type=st.sampled_from(["on-demand", "spot"]),
)
def test_replacements_never_use_more_than_is_left(
    kinds: list[str], amount: int, covered: set[int], capacity_type: str
) -> None:
    names = [f"n{number}" for number in covered if number < len(kinds)]
    decision = decided(with_left(situation(cluster(*kinds, capacity_type=capacity_type)), amount, *names))
    used: Counter[str] = Counter()
    for command in decision.commands:
        for planned in command.replacements:
            if planned.commitment:
                used[planned.commitment] += max(UNITS[name] for name in planned.instance_types)
        assert command.expected > 0
    assert used[RESERVED] <= amount
