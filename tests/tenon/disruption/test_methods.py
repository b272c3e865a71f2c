"""The registry of methods, and the rules that hold each method, whatever it proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.disruption import methods
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.disrupt_request import disrupt_request
from tenon.disruption.deciding import IneligibleNodeError, decide, eligible
from tenon.disruption.decision import Candidate, Command, Proposal
from tenon.disruption.methods import METHODS, check_registry, moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.emptiness import Emptiness
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.budgets import max_unavailable
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.scheduling.deadline import never

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POLICIES = {"default": PoolPolicy("default", timedelta(seconds=30), (Budget(nodes="100%"),))}


def node(name: str, **changed: Any) -> ManagedNode:
    managed_node = ManagedNode(name, f"uid-{name}", "default", True, True, False, True, NOW - timedelta(hours=1))
    return replace(managed_node, **changed)


def test_each_method_is_registered() -> None:
    """A class with what `Method` asks for, in a module next to the registry, is a method."""
    modules = [import_module(f"{methods.__name__}.{module.name}") for module in iter_modules(methods.__path__)]
    defined = {
        member
        for module in modules
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == module.__name__ and hasattr(member, "propose")
    }
    registered = {type(method) for method in (*METHODS, *moving_methods(never))}
    assert defined - {Method} == registered


@dataclass(frozen=True)
class Greedy:
    """Takes every node of the cluster, whether or not it may."""

    name: str = "greedy"
    reason: Reason = Reason.DRIFTED
    consolidation_type: str = ""

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        return "a test asks for it"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        every = tuple(Candidate(node, since=NOW) for node in situation.nodes)
        return Proposal((Command(self.name, self.reason, self.consolidation_type, every),))


@dataclass(frozen=True)
class Modest:
    """Takes one eligible node that its budgets allow."""

    name: str = "modest"
    reason: Reason = Reason.DRIFTED
    consolidation_type: str = ""

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        return "a test asks for it"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        candidates = tuple(Candidate(n, since=NOW) for n in eligible if budgets.take(n.pool))[:1]
        return Proposal(
            (Command(self.name, self.reason, self.consolidation_type, candidates),) if candidates else (),
            NOW + timedelta(minutes=1),
        )


class Broken(Modest):
    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        raise RuntimeError("no prices")


def test_every_method_has_a_name_of_its_own() -> None:
    names = [method.name for method in (*METHODS, *moving_methods(never))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("methods", "moving", "message"),
    [
        ((METHODS[0],), moving_methods(never), "no method has the reason Empty"),
        (METHODS, moving_methods(never)[1:], "no method has the reason Unhealthy"),
        ((*METHODS, Modest()), moving_methods(never), "modest is in the wrong registry"),
        (METHODS, (*moving_methods(never), Emptiness()), "emptiness is in the wrong registry"),
        ((*METHODS, Modest(reason=Reason.DRAIN)), moving_methods(never), "reason of method modest has no traits"),
    ],
)
def test_a_registry_that_forgets_a_part_is_refused(
    methods: Sequence[Method], moving: Sequence[Method], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        check_registry(methods, moving)


def test_qrk16_a_method_that_fails_does_not_stop_the_others() -> None:
    decision = decide(Situation([node("a"), node("b")], POLICIES, NOW), [Broken(name="broken"), Emptiness(), Modest()])
    assert str(decision.failed["broken"]) == "no prices"
    assert [command.method for command in decision.commands] == ["emptiness"]
    assert decision.next_pass == NOW + timedelta(minutes=1)


def test_a_node_that_one_method_took_is_not_offered_to_the_next() -> None:
    decision = decide(Situation([node("a"), node("b")], POLICIES, NOW), [Modest(), Emptiness()])
    reasons = [(command.reason, [c.node.claim for c in command.candidates]) for command in decision.commands]
    assert reasons == [(Reason.DRIFTED, ["a"]), (Reason.EMPTY, ["b"])]


def test_dis51_dis52_a_budget_counts_what_another_method_took() -> None:
    policies = {"default": replace(POLICIES["default"], budgets=(Budget(nodes="1"),))}
    decision = decide(Situation([node("a"), node("b")], policies, NOW), [Modest(), Emptiness()])
    assert [command.method for command in decision.commands] == ["modest"]


def test_dis51_a_budget_for_a_reason_holds_only_its_methods() -> None:
    policies = {"default": replace(POLICIES["default"], budgets=(Budget(nodes="0", reasons=["Drifted"]),))}
    decision = decide(Situation([node("a")], policies, NOW), [Modest(), Emptiness()])
    assert [command.method for command in decision.commands] == ["emptiness"]


def test_a_method_that_takes_more_than_its_budget_is_refused() -> None:
    policies = {"default": replace(POLICIES["default"], budgets=(Budget(nodes="1"),))}
    decision = decide(Situation([node("a"), node("b")], policies, NOW), [Greedy()])
    assert decision.commands == ()
    assert isinstance(decision.failed["greedy"], IneligibleNodeError)


@pytest.mark.parametrize("twice", [True, False])
def test_a_method_cannot_name_a_node_twice(twice: bool) -> None:
    nodes = [node("a"), node("a")] if twice else [node("a"), node("b")]
    assert bool(decide(Situation(nodes, POLICIES, NOW), [Greedy()]).commands) is not twice


names = st.sampled_from([f"n{number}" for number in range(6)])
nodes = st.lists(
    st.builds(
        ManagedNode,
        claim=names,
        uid=names,
        pool=st.sampled_from(["default", "gone"]),
        initialized=st.booleans(),
        ready=st.booleans(),
        leaving=st.booleans(),
        empty=st.booleans(),
        protected_by=st.sampled_from(["", "an annotation"]),
        quiet_since=st.none() | st.integers(0, 120).map(lambda seconds: NOW - timedelta(seconds=seconds)),
        node=names.map(lambda name: f"node-{name}"),
        terminating=st.booleans(),
    ),
    unique_by=lambda item: item.claim,
)
budgets = st.sampled_from(["0", "1", "2", "50%", "100%"])


@given(nodes, st.frozensets(names), st.frozensets(names), budgets, st.sampled_from([*METHODS, Greedy(), Modest()]))
def test_dis10_dis11_dis51_no_method_takes_what_is_protected_or_beyond_a_budget(
    cluster: list[ManagedNode], commanded: frozenset[str], nominated: frozenset[str], budget: str, method: Method
) -> None:
    policies = {"default": replace(POLICIES["default"], budgets=(Budget(nodes=budget),))}
    situation = Situation(cluster, policies, NOW, under_command=commanded, nominated=nominated)
    decision = decide(situation, [method])
    nodes = [candidate.node for command in decision.commands for candidate in command.candidates]
    assert not any(n.protected_by or n.leaving or not n.initialized or n.pool == "gone" for n in nodes)
    assert not {n.claim for n in nodes} & (commanded | nominated)
    members = [n for n in cluster if n.pool == "default" and n.initialized and not n.terminating]
    removal = sum(n.leaving or not n.ready or n.claim in commanded for n in members)
    assert len(nodes) <= max(0, max_unavailable(Budget(nodes=budget), len(members)) - removal)
    assert {n.claim for n in nodes} <= {n.claim for n in eligible(situation, method.reason)}


def test_a_command_travels_with_what_its_nodes_are_asked() -> None:
    (command,) = decide(Situation([node("a")], POLICIES, NOW)).commands
    message = to_message(command)
    wish = disrupt_request(message, message.candidates[0])
    assert wish.detail == ""
    explained = message.model_copy(update={"explanation": ["NodeClassDrift since noon", "nothing is bought"]})
    assert disrupt_request(explained, message.candidates[0]).detail == "NodeClassDrift since noon"
    assert (wish.reason, wish.only_if_empty, wish.command) == ("Empty", True, message.id)
    assert wish.since == NOW - timedelta(hours=1)
