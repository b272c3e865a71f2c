"""What consolidation does with nodes that Reserved Instances and Savings Plans cover, and with what these leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.disruption.covered_nodes import with_coverage
from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.model import Decision, Situation
from tenon.ec2.commitments.coverage import Coverage
from tenon.scheduling.model import Commitment
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, situation

UNITS = {"m5.large": 4, "m5.xlarge": 8, "m5.2xlarge": 16}
RESERVED = "Reserved Instances of m5"


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
    assert command.saving > 0.12, "all that the node costs"


def test_a_node_that_is_covered_stays() -> None:
    """It costs nothing that a smaller or a spot node would save."""
    value = situation(cluster("m5.2xlarge"))
    assert decided(value).commands, "without the commitment it is replaced"
    assert decided(with_left(value, 0, "n0")).commands == ()


def test_pods_move_to_a_covered_node_that_has_room() -> None:
    value = with_left(situation(cluster("m5.2xlarge", "c5.large")), 0, "n0")
    (command,) = decided(value).commands
    assert [candidate.node.claim for candidate in command.candidates] == ["n1"]
    assert command.replacements == ()


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
        assert command.saving > 0
    assert used[RESERVED] <= amount
