"""What holds for every decision of consolidation, whatever the cluster."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.nodepool import Budget
from tenon.disruption.commands.command_messages import arrivals_of, to_message
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.history.arrivals import Arrival
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.budgets import max_unavailable
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.situation import Situation
from tenon.disruption.validation import validated
from tenon.messages.disruption import Replacement
from tenon.scheduling.model import Plan, PlannedClaim
from tests.tenon.disruption.clusters import (
    Cluster,
    NodeSpec,
    PodSpec,
    PoolSpec,
    duration,
    findings,
    situation,
    types,
)
from tests.tenon.disruption.random_clusters import clusters, large_cluster

JOINED = Path(__file__).with_name("spread_after_joined_moves.json")


def decided(situation: Situation, *, spot_to_spot: bool = False) -> Decision:
    decision = decide(situation, [Consolidation(spot_to_spot=spot_to_spot)])
    for error in decision.failed.values():
        raise error
    return decision


def is_quiet(spec: NodeSpec, after: str | None) -> bool:
    """Whether consolidateAfter has passed since the node's last pod event."""
    return after is not None and spec.quiet is not None and duration(spec.quiet) >= duration(after)


def taken(decision: Decision) -> list[ManagedNode]:
    return [candidate.node for command in decision.commands for candidate in command.candidates]


def worst_price(claim: PlannedClaim) -> float:
    """The most that EC2 may charge for what the NodeClaim allows."""
    return max(
        offering.price
        for name in claim.instance_types
        for offering in types()[name].offerings
        if claim.requirements.get(labels.CAPACITY_TYPE).has(offering.capacity_type)
        and claim.requirements.get(labels.ZONE).has(offering.zone)
    )


@given(clusters(), st.booleans())
@settings(max_examples=60)
def test_dis13_dis16_dis51_no_command_takes_a_protected_node_or_breaks_a_budget(cluster: Cluster, gate: bool) -> None:
    decision = decided(situation(cluster), spot_to_spot=gate)
    for node in taken(decision):
        spec = cluster.nodes[node.claim]
        pool = cluster.pools[spec.pool]
        assert spec.initialized
        assert spec.pods
        assert not spec.leaving
        assert not spec.protected
        assert not spec.held_by
        assert is_quiet(spec, pool.consolidate_after)
        assert pool.consolidate_after is not None
        assert pool.policy != "WhenEmpty"
        assert node.claim not in {*cluster.nominated, *cluster.buffer_hosts}
    for pool_name, count in Counter(node.pool for node in taken(decision)).items():
        members = [s for s in cluster.nodes.values() if s.pool == pool_name and s.initialized]
        leaving = sum(s.leaving for s in members)
        budget = Budget.model_validate(cluster.pools[pool_name].budgets[0])
        assert count <= max_unavailable(budget, len(members)) - leaving


@given(clusters(), st.booleans())
@settings(max_examples=60)
def test_dis34_dis36_no_command_costs_more_than_it_saves(cluster: Cluster, gate: bool) -> None:
    value = situation(cluster)
    assert value.model is not None
    for command in decided(value, spot_to_spot=gate).commands:
        leaving = [value.model.details[candidate.node.claim] for candidate in command.candidates]
        after = sum(map(worst_price, command.replacements))
        assert after < sum(detail.price for detail in leaving)
        assert abs(sum(detail.price for detail in leaving) - after - command.guaranteed_saving) < 1e-6
        if not gate and any(detail.capacity_type == "spot" for detail in leaving):
            kinds = [claim.requirements.get(labels.CAPACITY_TYPE).values for claim in command.replacements]
            assert kinds == [("on-demand",)] * len(command.replacements)
        own = {(detail.instance_type, detail.capacity_type) for detail in leaving}
        for claim in command.replacements:
            capacity_type = claim.offering.capacity_type
            assert claim.requirements.get(labels.CAPACITY_TYPE).values == (capacity_type,)
            assert not {(name, capacity_type) for name in claim.instance_types} & own
            assert len(claim.instance_types) >= min_values(cluster, claim)


def min_values(cluster: Cluster, claim: PlannedClaim) -> int:
    return 3 if cluster.pools[claim.pool].requirements else 1


@given(clusters(), st.booleans())
@settings(max_examples=60)
def test_dis31_dis32_every_pod_fits_where_a_command_puts_it(cluster: Cluster, gate: bool) -> None:
    value = situation(cluster)
    assert value.model is not None
    decision = decided(value, spot_to_spot=gate)
    assert findings(cluster, decision.commands) == []
    for command in decision.commands:
        moved = [p.key for pods in command.destinations.values() for p in pods]
        moved += [pod.key for claim in command.replacements for pod in claim.pods]
        own = [pod.key for c in command.candidates for pod in value.model.details[c.node.claim].pods]
        assert sorted(moved) == sorted(own)
        for name in command.destinations:
            spec = cluster.nodes[name]
            after = cluster.pools[spec.pool].consolidate_after
            assert spec.initialized
            assert not spec.leaving
            assert after is None or is_quiet(spec, after)


@given(clusters(free=True, often=True, most=12), st.booleans())
@settings(max_examples=300)
def test_dis32_no_move_breaks_a_rule_between_pods(cluster: Cluster, gate: bool) -> None:
    decision = decided(situation(cluster), spot_to_spot=gate)
    assert findings(cluster, decision.commands) == []


def test_dis32_a_joined_move_leaves_the_pods_that_the_spread_of_another_command_counts() -> None:
    """The first pass buys one node in each zone, so that n3 may go to zone a. n1's pod must go to zone b for that.

    The second pass could move n1's pod to n6, without a new node. Then zone a would have three pods and zone b none.
    """
    cluster = Cluster(
        pools={"default": PoolSpec(), "other": PoolSpec(capacity_types=["on-demand", "spot"])},
        nodes={
            "n1": NodeSpec(type="c5.4xlarge", pods=[PodSpec()]),
            "n3": NodeSpec(type="c5.xlarge", pods=[PodSpec(spread="zone")]),
            "n6": NodeSpec(
                type="m5.2xlarge", pods=[PodSpec(), PodSpec(app="db"), PodSpec(count=3, app="db", apart=True)]
            ),
            "n7": NodeSpec(type="m5.large", pods=[PodSpec(spread="zone", priority=-(2**30))]),
        },
    )
    decision = decided(situation(cluster))
    assert findings(cluster, decision.commands) == []
    assert {node.claim for node in taken(decision)} == {"n1", "n3", "n7"}


def test_dis32_pods_on_a_new_node_whose_zone_is_open_let_in_no_pod_with_a_spread() -> None:
    """The zones of pods on n1 depend on where n3's pods are. EC2 could launch n3's new nodes in any zone."""
    minimum = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 3}
    cluster = Cluster(
        pools={"default": PoolSpec(requirements=[minimum])},
        nodes={
            "n0": NodeSpec(type="r5.xlarge", pods=[PodSpec(count=2, spread="zone")]),
            "n1": NodeSpec(
                type="c5.2xlarge",
                pods=[PodSpec(count=3, cpu="100m", app="db", apart=True, spread="zone", priority=1_000_000_000)],
            ),
            "n3": NodeSpec(type="m5.2xlarge", zone="us-west-2b", pods=[PodSpec(count=3, cpu="1500m", app="db")]),
        },
    )
    decision = decided(situation(cluster))
    assert findings(cluster, decision.commands) == []
    assert {node.claim for node in taken(decision)} == {"n0", "n1", "n3"}


def test_dis32_moves_that_are_planned_again_keep_the_spread_of_pods_that_other_commands_move() -> None:
    """An input that the property above found. Its pods spread over three zones, and two commands move some of them."""
    cluster = Cluster.model_validate_json(JOINED.read_bytes())
    assert findings(cluster, decided(situation(cluster)).commands) == []


@given(clusters(free=True, rules=False, most=12), st.booleans())
@settings(max_examples=60)
def test_dis46_a_command_that_is_alone_starts_if_nothing_changes(cluster: Cluster, gate: bool) -> None:
    value = situation(cluster)
    decision = decided(value, spot_to_spot=gate)
    if len(decision.commands) == 1:
        assert why_refused(decision.commands[0], value) == ""


@pytest.mark.parametrize(
    ("seed", "count", "saving"), [(1111, 4, 0.074), (1113, 4, 1.428), (1494, 4, 0.392), (3211, 10, 1.562)]
)
def test_dis46_moves_are_joined_only_if_their_command_starts_if_nothing_changes(
    seed: int, count: int, saving: float
) -> None:
    """Put together, the moves would buy other nodes than one plan for all their pods, which validation asks for."""
    commands = commands_that_start(large_cluster(seed, count, rules=False))
    assert sum(command.expected for command in commands) == pytest.approx(saving)


@pytest.mark.parametrize(
    ("seed", "count", "saving"), [(5366, 5, 1.320), (56, 5, 0.940), (205, 5, 0.802), (115, 12, 4.163), (13, 60, 6.402)]
)
def test_dis46_commands_for_pods_with_rules_start_if_nothing_changes(seed: int, count: int, saving: float) -> None:
    """The search plans with nodes closed that cost too much, and several nodes at once; validation does neither."""
    commands = commands_that_start(large_cluster(seed, count, rules=True))
    assert sum(command.expected for command in commands) == pytest.approx(saving, abs=0.001)


def test_moves_of_pods_with_rules_that_were_found_in_time_are_kept() -> None:
    """The search checks each of them by another plan. If there is no time for it, the validation decides."""
    value = situation(large_cluster(205, 5, rules=True))
    questions = itertools.count()
    soon_over = Consolidation(deadline=lambda: lambda: next(questions) > 100)
    assert decide(value, [soon_over]).commands != ()


def commands_that_start(cluster: Cluster) -> Sequence[Command]:
    """The decision's commands, of which validation refuses none if nothing changes."""
    value = situation(cluster)
    commands = decided(value).commands
    for command in commands:
        others = {candidate.node.claim for other in commands if other is not command for candidate in other.candidates}
        assert why_refused(command, replace(value, under_command=frozenset(others))) == ""
    return commands


def why_refused(command: Command, situation: Situation) -> str:
    """Why the validation of the command refuses it in the situation that it was decided in."""
    assert situation.model is not None
    replacements = [
        Replacement(
            name=f"new-{number}",
            pool=claim.pool,
            body={"spec": {"requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": types}]}},
        )
        for number, claim in enumerate(command.replacements)
        if (types := list(claim.instance_types))
    ]
    message = to_message(command, ident="underutilized-1", replacements=replacements, details=situation.model.details)
    return validated(message, situation).why


@given(clusters(free=True, rules=False, most=12), st.booleans())
@settings(max_examples=120)
def test_wsh01_a_second_pass_at_what_a_decision_leaves_finds_little(cluster: Cluster, gate: bool) -> None:
    """In about one of a hundred small clusters it finds a move that the first pass missed. That move saves little."""
    value = situation(cluster)
    first = decided(value, spot_to_spot=gate)
    after = resting(applied(value, first.commands), value, first.commands)
    second = decided(after, spot_to_spot=gate)
    assert not moved(value, first.commands) & moved(after, second.commands)
    saved, more = (sum(command.expected for command in first.commands) for first in (first, second))
    assert more <= saved / 4


@given(clusters(free=True, most=12), st.booleans())
@settings(max_examples=60)
def test_wsh01_a_second_pass_moves_no_pod_again(cluster: Cluster, gate: bool) -> None:
    """With rules between pods it may find room on new nodes for pods that have not moved."""
    value = situation(cluster)
    first = decided(value, spot_to_spot=gate)
    after = resting(applied(value, first.commands), value, first.commands)
    second = decided(after, spot_to_spot=gate)
    assert not moved(value, first.commands) & moved(after, second.commands)


@pytest.mark.parametrize(
    ("seed", "count", "rules"), [(4, 147, False), (8, 194, False), (10, 167, False), (0, 100, True), (6, 120, True)]
)
def test_wsh01_a_second_pass_at_a_large_cluster_moves_no_pod_again_and_finds_next_to_nothing(
    seed: int, count: int, rules: bool
) -> None:
    """It finds what could not be joined: a spot node may be emptied onto a new one, but not leave in its command."""
    value = situation(large_cluster(seed, count, rules=rules))
    first = decided(value)
    after = resting(applied(value, first.commands), value, first.commands)
    second = decided(after)
    assert not moved(value, first.commands) & moved(after, second.commands)
    assert len(taken(first)) > count / 3
    saved, more = (sum(command.expected for command in first.commands) for first in (first, second))
    assert more < 0.01 * saved


def moved(situation: Situation, commands: Sequence[Command]) -> set[str]:
    """The keys of the pods that the commands move."""
    assert situation.model is not None
    claims = [candidate.node.claim for command in commands for candidate in command.candidates]
    return {pod.key for claim in claims for pod in situation.model.details[claim].pods}


def resting(after: Situation, before: Situation, commands: Sequence[Command]) -> Situation:
    """The situation with what the commands write down of the pods that they move, which were created again."""
    assert after.model is not None
    assert before.model is not None
    arrivals: dict[str, Arrival] = {}
    again = moved(before, commands)
    for command in commands:
        claims = [candidate.node.claim for candidate in command.candidates]
        new = [f"new-{min(claims)}-{number}" for number in range(len(command.replacements))]
        for name, times in arrivals_of(command, before.model, new, before.now).items():
            entries = arrivals[name].times if name in arrivals else {}
            arrivals[name] = Arrival(before.now, {**entries, **times})
    details = {
        claim: replace(
            detail,
            pods=tuple(
                replace(pod, created=before.now.timestamp()) if pod.key in again else pod for pod in detail.pods
            ),
        )
        for claim, detail in after.model.details.items()
    }
    nodes = [
        replace(node, arrivals=(arrivals[node.claim],)) if node.claim in arrivals else node for node in after.nodes
    ]
    return replace(after, nodes=nodes, model=replace(after.model, details=details))


def applied(situation: Situation, commands: Sequence[Command]) -> Situation:
    """The cluster after the commands, on new nodes of the cheapest type."""
    assert situation.model is not None
    moves = [
        ([candidate.node.claim for candidate in command.candidates], Plan(command.replacements, command.destinations))
        for command in commands
    ]
    after = carried_out(situation.model, moves)
    removal = {claim for claims, _ in moves for claim in claims}
    pool_of = {
        f"new-{sorted(claims)[0]}-{number}": claim.pool
        for claims, plan in moves
        for number, claim in enumerate(plan.claims)
    }
    new = [ManagedNode(name, f"uid-{name}", pool_of[name], True, True, False, False, None, name) for name in after.new]
    old = [node for node in situation.nodes if node.claim not in removal]
    details = {
        claim: replace(detail, quiet_since=detail.quiet_since or situation.now)
        for claim, detail in after.model.details.items()
    }
    model = replace(after.model, details=details)
    return Situation([*old, *new], situation.policies, situation.now, model=model)
