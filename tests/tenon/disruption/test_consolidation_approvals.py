"""Consolidation where NodePools ask for approval: what it proposes, and what a command that waits keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Command
from tenon.disruption.rules.approvals import approvals_of
from tenon.disruption.rules.blockers import holds
from tenon.disruption.situation import Situation
from tenon.evolve import evolve
from tenon.messages.disruption import OpenCommand
from tests.tenon.disruption.approval_setting import REFUSED, SMALL, WAITING, decided, nodes_of
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, findings, situation
from tests.tenon.disruption.random_clusters import clusters


def asked(commands: Sequence[Command], number: int) -> dict[str, OpenCommand]:
    """Return commands as those that wait for a person."""
    return {
        claim: evolve(
            WAITING,
            command=f"c{number}-{place}",
            reason=command.reason.value,
            hosts=[] if position else sorted(command.destinations),
            awaits_replacement=False,
        )
        for place, command in enumerate(commands)
        for position, claim in enumerate(nodes_of(command))
    }


@pytest.mark.parametrize("cpu", ["300m", "500m", "700m", "900m"])
def test_consolidation_commands_that_wait_can_all_be_approved(cpu: str) -> None:
    """Each pass sees those that wait already. None of them moves pods to a node that another one removes."""
    nodes = {f"n{place}": NodeSpec(type="m5.large", pods=[PodSpec(cpu=cpu)]) for place in range(6)}
    cluster = Cluster(pools={"default": PoolSpec.model_validate({"approve": "Underutilized"})}, nodes=nodes)
    commands: list[Command] = []
    waiting: dict[str, OpenCommand] = {}
    for number in range(8):
        new_commands = decided(replace(situation(cluster), approvals=approvals_of(waiting))).commands
        commands += new_commands
        waiting |= asked(new_commands, number)
    assert commands, "something can be saved"
    removed = [claim for command in commands for claim in nodes_of(command)]
    assert len(removed) == len(set(removed))
    assert set(removed).isdisjoint(host for command in commands for host in command.destinations)
    assert findings(cluster, commands) == []


def keeping(entry: OpenCommand, asks: str) -> set[str]:
    """What keeps the host of a consolidation command, whose NodePool asks about these reasons."""
    pools = {"default": PoolSpec.model_validate({"approve": asks} if asks else {})}
    state = situation(Cluster(pools=pools, nodes={"host": NodeSpec(type="m5.large", pods=[PodSpec(cpu="500m")])}))
    (node,) = state.nodes
    after = replace(state, approvals=approvals_of({"another": evolve(entry, reason="Underutilized")}))
    return {hold.blocker.name for hold in holds(node, after, Reason.UNDERUTILIZED)}


def test_a_refused_consolidation_needs_no_room() -> None:
    asks = "Drifted, Underutilized"
    assert keeping(WAITING, asks) - keeping(REFUSED, asks) == {"destination of an approval"}


@pytest.mark.parametrize("asks", ["", "Drifted, Empty", "Underutilized above 3 nodes"])
def test_a_command_that_waits_keeps_no_host_of_a_nodepool_whose_own_might_pass(asks: str) -> None:
    assert "destination of an approval" not in keeping(WAITING, asks)


def mixed_cluster(*asks: str) -> Situation:
    """Three nodes that are too large, each of a NodePool of its own, whose pods fit on one new node together."""
    pools = {f"p{place}": PoolSpec.model_validate({"approve": text} if text else {}) for place, text in enumerate(asks)}
    nodes = {name: NodeSpec(pool=name, type="r5.4xlarge", pods=[SMALL]) for name in pools}
    return situation(Cluster(pools=pools, nodes=nodes))


def test_a_consolidation_waits_for_all_of_its_nodepools_or_for_none() -> None:
    """A NodePool that does not ask is not held up, although its pods and those of one that asks would share a node."""
    together = decided(mixed_cluster("", "", "")).commands
    assert [len(nodes_of(command)) for command in together] == [3]
    equal = decided(mixed_cluster(*["Underutilized"] * 3)).commands
    assert [len(nodes_of(command)) for command in equal] == [3]
    mixed = decided(mixed_cluster("", "Underutilized", "")).commands
    assert sorted(claim for command in mixed for claim in nodes_of(command)) == ["p0", "p2"]
    assert {command.approve_within for command in mixed} == {None}


def test_nodes_of_nodepools_that_ask_are_proposed_in_the_same_pass() -> None:
    """They are planned on what the commands that do not wait leave of the cluster."""
    pools = {"asks": PoolSpec(approve="Underutilized"), "free": PoolSpec()}
    alone = PodSpec(cpu="1", apart=True)
    nodes = {
        f"{pool}-{place}": NodeSpec(pool=pool, type="r5.4xlarge", pods=[alone]) for pool in pools for place in range(2)
    }
    waits: dict[bool, set[str]] = {False: set(), True: set()}
    for command in decided(situation(Cluster(pools=pools, nodes=nodes))).commands:
        waits[command.approve_within is not None] |= set(nodes_of(command))
    assert waits == {False: {"free-0", "free-1"}, True: {"asks-0", "asks-1"}}


@given(clusters(free=True), st.lists(st.sampled_from(["", "Underutilized", "Underutilized above 2 nodes"]), min_size=2))
def test_no_consolidation_has_nodes_of_nodepools_that_ask_differently(cluster: Cluster, asks: list[str]) -> None:
    pools = {
        name: pool.model_copy(update={"approve": text or None})
        for (name, pool), text in zip(cluster.pools.items(), asks, strict=False)
    }
    commands = decided(situation(cluster.model_copy(update={"pools": pools}))).commands
    for command in (command for command in commands if command.reason is Reason.UNDERUTILIZED):
        assert len({pools[candidate.node.pool].approve for candidate in command.candidates}) <= 1
    assert findings(cluster, commands) == []
