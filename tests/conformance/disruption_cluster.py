"""A scenario of nodes and pools: which commands disruption must choose, why other nodes stay, what budgets allow.

A command may also be validated on the cluster as it is later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.rules.budgets import UNLIMITED
from tenon.disruption.rules.pool_budgets import PoolBudgets, budget_states
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.search.consolidation_price import LEAST_SAVING
from tenon.disruption.situation import Situation
from tenon.disruption.validation import validated
from tenon.disruption.why_stays import WhyStays
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.provisioning.pools import instance_type_requirement
from tenon.scheduling.deadline import never
from tenon.scheduling.model import Plan, PlannedClaim
from tests.conformance.disruption_expected import ExpectedCommand, differences
from tests.conformance.disruption_head import DescribedScenario
from tests.tenon.disruption.clusters import Cluster, Spec, duration, findings, situation

Name = Literal["expiration", "emptiness", "repair", "static drift", "drift", "consolidation"]


class Later(Spec):
    """The cluster when a command is validated, which must still hold or end with a sentence."""

    changes: dict[str, Any] = Field(default_factory=dict)
    """Keys of the cluster, merged into it; lists are replaced."""
    removed_nodes: list[str] = Field(default_factory=list)
    """Nodes that are no longer there."""
    ends: str
    """The clause that says why the command must not start; empty if it holds."""


class ClusterScenario(DescribedScenario):
    """Nodes and pools, and what disruption makes of them."""

    cluster: Cluster
    methods: tuple[Name, ...] = (
        "expiration",
        "emptiness",
        "repair",
        "static drift",
        "drift",
        "consolidation",
    )
    spot_to_spot: bool = False
    terminate_first: bool = False
    """The feature gates TerminateFirstDrift and TerminateFirstRepair."""
    least_saving: float = LEAST_SAVING
    expect: list[ExpectedCommand]
    in_order: bool = False
    """The commands, and the nodes of each, come in the order in which they are listed."""
    eligible: int | None = None
    next_pass: str | None = None
    """In how much time; nothing is said about it if it is left out."""
    stays: dict[str, list[str]] = Field(default_factory=dict)
    """By node that stays: fragments of the sentences that say why."""
    blocked: dict[str, str] | None = None
    """By node: a fragment of the event DisruptionBlocked, of all nodes that get one."""
    unconsolidatable: dict[str, str] | None = None
    """By node: a fragment of the event Unconsolidatable, of all nodes that get one."""
    allowed: dict[str, dict[Reason, int | Literal["unlimited"]]] = Field(default_factory=dict)
    """By NodePool and reason: how many more nodes its budgets let leave."""
    closed: dict[str, list[Reason]] = Field(default_factory=dict)
    """By NodePool: the reasons for which its budgets allow nothing although it has nodes."""
    then: list[Later] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_why(self) -> ClusterScenario:
        stays = {*self.stays, *(name for command in self.expect for name in command.removes)}
        if unknown := stays - self.cluster.nodes.keys():
            raise ValueError(f"expect and stays name nodes that the cluster does not have: {sorted(unknown)}")
        events = any(command.explanation for command in self.expect)
        if not (events or self.stays or self.blocked or self.unconsolidatable or self.allowed):
            raise ValueError("nothing says why: add stays, blocked, unconsolidatable or allowed")
        if self.then and len(self.expect) != 1:
            raise ValueError("then needs exactly one command to validate")
        if overfull := _overfull(self.cluster):
            raise ValueError(f"nodes hold more pods than they have room for: {overfull}")
        return self

    def failures(self) -> list[str]:
        """What is wrong with the decision, with all of it for a person to read."""
        value = situation(self.cluster)
        decision = decide(value, self._methods())
        result = [
            *map(repr, decision.failed.values()),
            *_wrong(self, decision),
            *self._wrong_reasons(value, decision),
            *self._wrong_budgets(value),
            *(str(finding) for finding in findings(self.cluster, decision.commands)),
            *(self._wrong_later(value, decision) if len(decision.commands) == 1 else ()),
        ]
        return [*result, "--- commands", *_told(decision)] if result else []

    def _methods(self) -> list[Method]:
        every: list[Method] = [
            *METHODS,
            *(
                method
                for method in moving_methods(never, DecisionGates(False, self.terminate_first, self.terminate_first))
                if not isinstance(method, Consolidation)
            ),
            Consolidation(spot_to_spot=self.spot_to_spot, least_saving=self.least_saving),
        ]
        return [method for method in every if method.name in self.methods]

    def _wrong_reasons(self, situation: Situation, decision: Decision) -> Iterator[str]:
        if self.stays:
            why = WhyStays(
                _after(situation, decision.commands),
                blocked=decision.blocked,
                spot_to_spot=self.spot_to_spot,
            )
            nodes = {node.claim: node for node in situation.nodes}
            for name, fragments in self.stays.items():
                text = "\n".join(why.sentences(nodes[name]))
                yield from (
                    f"{name}: {fragment!r} is not in:\n{text}" for fragment in fragments if fragment not in text
                )
        for event, expectation, result in (
            ("blocked", self.blocked, {claim: str(blocked) for claim, blocked in decision.blocked.items()}),
            ("unconsolidatable", self.unconsolidatable, decision.unconsolidatable),
        ):
            if expectation is not None:
                fits = expectation.keys() == result.keys() and all(
                    item in result[name] for name, item in expectation.items()
                )
                if not fits:
                    yield f"expected {event} {expectation}, got {dict(result)}"

    def _wrong_budgets(self, situation: Situation) -> Iterator[str]:
        for pool, reasons in self.allowed.items():
            for reason, expectation in reasons.items():
                remainder = PoolBudgets(situation, reason).left(pool)
                if remainder != (UNLIMITED if expectation == "unlimited" else expectation):
                    yield f"expected NodePool {pool} to allow {expectation} nodes for {reason}, got {remainder}"
        states = budget_states(situation)
        for pool, closed in self.closed.items():
            result = {state.reason for state in states if state.pool == pool and state.blocks}
            if result != set(closed):
                yield f"expected NodePool {pool} to be closed for {closed}, got {sorted(result)}"

    def _wrong_later(self, value: Situation, decision: Decision) -> Iterator[str]:
        assert value.model is not None
        (command,) = decision.commands
        message: DisruptionCommand = to_message(
            command,
            ident="validated",
            replacements=[_replacement(claim) for claim in command.replacements],
            details=value.model.details,
        )
        for number, later in enumerate(self.then):
            declaration = _merged(self.cluster.model_dump(by_alias=True, exclude_unset=True), later.changes)
            for name in later.removed_nodes:
                del declaration["nodes"][name]
            result = validated(message, situation(Cluster.model_validate(declaration))).why
            if result != later.ends:
                yield f"then[{number}]: expected {later.ends!r}, got {result!r}"


def _wrong(scenario: ClusterScenario, decision: Decision) -> Iterator[str]:
    commands = {tuple(sorted(_removed(command))): command for command in decision.commands}
    expect = {tuple(sorted(command.removes)): command for command in scenario.expect}
    if commands.keys() != expect.keys():
        yield f"expected commands for {sorted(expect)}, got {sorted(commands)}"
        return
    if scenario.in_order:
        order = [_removed(command) for command in decision.commands]
        if order != [command.removes for command in scenario.expect]:
            yield f"expected the order of expect, got {order}"
    for removed, command in expect.items():
        for difference in differences(command, commands[removed]):
            yield f"{', '.join(removed)}: {difference}"
    eligible = sum(decision.eligible.values())
    if scenario.eligible is not None and eligible != scenario.eligible:
        yield f"expected {scenario.eligible} eligible nodes, got {eligible}"
    if scenario.next_pass is not None:
        due = scenario.cluster.now + duration(scenario.next_pass) if scenario.next_pass else None
        if decision.next_pass != due:
            yield f"expected to look again at {due}, got {decision.next_pass}"


def _removed(command: Command) -> list[str]:
    return [candidate.node.claim for candidate in command.candidates]


def _after(situation: Situation, commands: Sequence[Command]) -> Situation:
    """The situation once the commands have begun, as `tenon simulate --disruption` explains it."""
    assert situation.model is not None
    names = {pool.name for pool in situation.model.problem.pools}
    moves = [
        (_removed(command), Plan(tuple(c for c in command.replacements if c.pool in names), dict(command.destinations)))
        for command in commands
    ]
    removal = frozenset(name for command in commands for name in _removed(command))
    later = carried_out(situation.model, moves).model
    destinations = frozenset(name for command in commands for name in command.destinations)
    return replace(situation, under_command=situation.under_command | removal, destinations=destinations, model=later)


def _replacement(claim: PlannedClaim) -> Replacement:
    only = instance_type_requirement(claim.instance_types)
    requirements = [
        selector
        for selector in claim.requirements.with_(only).to_selectors()
        if selector["key"] == labels.INSTANCE_TYPE
    ]
    return Replacement(name="new", pool=claim.pool, body={"spec": {"requirements": requirements}})


def _merged(declaration: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(declaration)
    for key, value in changes.items():
        before = result.get(key)
        result[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _overfull(cluster: Cluster) -> list[str]:
    model = situation(cluster).model
    assert model is not None
    return [
        node.name
        for node in model.problem.nodes
        if any(amount > node.allocatable.get(name, 0) for name, amount in node.used.items())
    ]


def _told(decision: Decision) -> list[str]:
    return [
        f"- {line}" if number == 0 else f"  {line}"
        for command in decision.commands
        for number, line in enumerate(
            (
                f"{command.reason} {_removed(command)} {command.consolidation_type} "
                f"saving {command.guaranteed_saving:.4f}",
                *command.explanation,
                *(f"lists {c.instance_types}" for c in command.replacements),
            )
        )
    ]
