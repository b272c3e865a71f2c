"""A scenario of disruption: what is given, what must come of it, and why.

A file in `disruption/` is one YAML document of one of three kinds, which its key says:

- `cluster`: nodes and pools. Expects commands, what keeps the other nodes, what budgets allow, and how a command fares
  when it is validated on the cluster as it is later.
- `drift`: a NodeClaim, and the NodePool and EC2NodeClass that it was launched from and that are there now.
- `repair`: nodes with conditions.

To add one, copy the file that is most alike and name it after its row. Write under `derivation` how the expectation
follows from the row and the catalogue, before you run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.budgets import UNLIMITED
from tenon.disruption.carried_out import carried_out
from tenon.disruption.commands import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.drift import DesiredNode
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.consolidation_price import LEAST_SAVING
from tenon.disruption.model import Command, Decision, Situation
from tenon.disruption.pool_budgets import PoolBudgets, budget_states
from tenon.disruption.repair import Breaker, fault_of
from tenon.disruption.validation import why_invalid
from tenon.disruption.why_stays import WhyStays
from tenon.kube.records import NodeCondition
from tenon.lifecycle.messages.disruption import DisruptionCommand, Replacement
from tenon.provisioning.pools import instance_type_requirement
from tenon.scheduling.deadline import never
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim
from tests.apis.case import REMOVED
from tests.disruption import drifting
from tests.disruption.clusters import NOW, Cluster, Spec, duration, findings, situation
from tests.scheduling.builders import CATALOG

FOLDER = Path(__file__).parent / "disruption"
Name = Literal["expiration", "emptiness", "static drift", "drift", "consolidation"]


class ExpectedNode(Spec):
    """A new node; only what is given is looked at."""

    pool: str | None = None
    type: str | None = None
    types: list[str] | None = None
    """All types that it lists, cheapest first."""
    type_count: int | None = None
    types_exclude: tuple[str, ...] = ()
    capacity_type: str | None = None
    requires_capacity_type: list[str] | None = None
    zone: str | None = None
    price: float | None = None
    pods: int | None = None


class ExpectedCommand(Spec):
    """A command; only what is given is looked at, apart from the nodes that it removes."""

    removes: list[str]
    reason: Reason = Reason.UNDERUTILIZED
    launches: list[ExpectedNode] | None = None
    onto: dict[str, int] | None = None
    """How many pods move to each existing node."""
    saving: float | None = None
    """Dollars an hour, at least."""
    type: Literal["single", "multi"] | None = None
    graceful: bool | None = None
    explanation: list[str] = Field(default_factory=list)
    """Fragments. A command for empty or expired nodes says nothing."""

    @model_validator(mode="after")
    def _is_explained(self) -> ExpectedCommand:
        if not self.explanation and self.reason not in (Reason.EMPTY, Reason.EXPIRED):
            raise ValueError(f"the command that removes {self.removes} needs a fragment of its explanation")
        return self


class Later(Spec):
    """The cluster when a command is validated, which must still hold or end with a sentence."""

    changes: dict[str, Any] = Field(default_factory=dict)
    """Keys of the cluster, merged into it; lists are replaced."""
    gone: list[str] = Field(default_factory=list)
    """Nodes that are no longer there."""
    ends: str
    """The clause that says why the command must not start; empty if it holds."""


class _Scenario(Spec):
    """What every kind has."""

    scenario: str
    rows: list[str] = Field(min_length=1)
    derivation: str = Field(min_length=20, max_length=400)
    """How the expectation follows from the row and the catalogue."""


class ClusterScenario(_Scenario):
    """Nodes and pools, and what disruption makes of them."""

    cluster: Cluster
    methods: tuple[Name, ...] = ("expiration", "emptiness", "static drift", "drift", "consolidation")
    spot_to_spot: bool = False
    least_saving: float = LEAST_SAVING
    expect: list[ExpectedCommand]
    in_order: bool = False
    """The commands, and the nodes of each, come in the order in which they are listed."""
    eligible: int | None = None
    look_again: str | None = None
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
        named = {*self.stays, *(name for command in self.expect for name in command.removes)}
        if unknown := named - self.cluster.nodes.keys():
            raise ValueError(f"expect and stays name nodes that the cluster does not have: {sorted(unknown)}")
        told = any(command.explanation for command in self.expect)
        if not (told or self.stays or self.blocked or self.unconsolidatable or self.allowed):
            raise ValueError("nothing says why: add stays, blocked, unconsolidatable or allowed")
        if self.then and len(self.expect) != 1:
            raise ValueError("then needs exactly one command to validate")
        if overfull := _overfull(self.cluster):
            raise ValueError(f"nodes hold more pods than they have room for: {overfull}")
        return self

    def failures(self) -> list[str]:
        """What is wrong with the decision, with all of it for a person to read."""
        given = situation(self.cluster)
        decision = decide(given, self._methods())
        found = [
            *map(repr, decision.failed.values()),
            *_wrong(self, decision),
            *self._wrong_reasons(given, decision),
            *self._wrong_budgets(given),
            *(str(each) for each in findings(self.cluster, decision.commands)),
            *(self._wrong_later(given, decision) if len(decision.commands) == 1 else ()),
        ]
        return [*found, "--- commands", *_told(decision)] if found else []

    def _methods(self) -> list[Method]:
        every: list[Method] = [
            *METHODS,
            *(one for one in moving_methods(never) if not isinstance(one, Consolidation)),
            Consolidation(spot_to_spot=self.spot_to_spot, least_saving=self.least_saving),
        ]
        return [method for method in every if method.name in self.methods]

    def _wrong_reasons(self, given: Situation, decision: Decision) -> Iterator[str]:
        if self.stays:
            why = WhyStays(
                _after(given, decision.commands),
                blocked=decision.blocked,
                hosts={name for command in decision.commands for name in command.destinations},
                spot_to_spot=self.spot_to_spot,
            )
            known = {node.claim: node for node in given.nodes}
            for name, fragments in self.stays.items():
                told = "\n".join(why.sentences(known[name]))
                yield from (f"{name}: {each!r} is not in:\n{told}" for each in fragments if each not in told)
        for event, wanted, got in (
            ("blocked", self.blocked, decision.blocked),
            ("unconsolidatable", self.unconsolidatable, decision.unconsolidatable),
        ):
            if wanted is not None:
                fits = wanted.keys() == got.keys() and all(each in got[name] for name, each in wanted.items())
                if not fits:
                    yield f"expected {event} {wanted}, got {dict(got)}"

    def _wrong_budgets(self, given: Situation) -> Iterator[str]:
        for pool, reasons in self.allowed.items():
            for reason, wanted in reasons.items():
                left = PoolBudgets(given, reason).left(pool)
                if left != (UNLIMITED if wanted == "unlimited" else wanted):
                    yield f"expected NodePool {pool} to allow {wanted} nodes for {reason}, got {left}"
        states = budget_states(given)
        for pool, closed in self.closed.items():
            got = {state.reason for state in states if state.pool == pool and state.blocks}
            if got != set(closed):
                yield f"expected NodePool {pool} to be closed for {closed}, got {sorted(got)}"

    def _wrong_later(self, given: Situation, decision: Decision) -> Iterator[str]:
        assert given.model is not None
        (command,) = decision.commands
        pods = {one.node.claim: given.model.details[one.node.claim].pods for one in command.candidates}
        message: DisruptionCommand = to_message(
            command, ident="validated", replacements=[_replacement(claim) for claim in command.replacements], pods=pods
        )
        for number, later in enumerate(self.then):
            stated = _merged(self.cluster.model_dump(by_alias=True, exclude_unset=True), later.changes)
            for name in later.gone:
                del stated["nodes"][name]
            got = why_invalid(message, situation(Cluster.model_validate(stated)))
            if got != later.ends:
                yield f"then[{number}]: expected {later.ends!r}, got {got!r}"


class Origin(Spec):
    """What a NodeClaim is launched from, as edits at slash-separated paths below spec; null removes a field."""

    pool: dict[str, Any] = Field(default_factory=dict)
    node_class: dict[str, Any] = Field(default_factory=dict)
    requirements: list[dict[str, Any]] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str | None] = Field(default_factory=dict)


class Current(Spec):
    """What is there now, as edits of the same manifests."""

    pool: dict[str, Any] = Field(default_factory=dict)
    node_class: dict[str, Any] | None = Field(default_factory=dict)
    """null: the EC2NodeClass does not exist."""
    found: dict[str, Any] = Field(default_factory=dict)
    """Status of the EC2NodeClass: what its selectors find."""
    ready: bool = True
    types_gone: list[str] = Field(default_factory=list)
    zones_of: dict[str, list[str]] = Field(default_factory=dict)
    """The zones in which a type is still offered."""
    age: str = "24h"
    """How old the NodeClaim is."""


class Drifting(Spec):
    """A NodeClaim on an m5.large (on-demand, us-west-2a) with ami-amd64, subnet-a, sg-1 and sg-2 (`drifting.py`)."""

    launched: Origin = Origin()
    now: Current = Current()


class ExpectedDrift(Spec):
    """The reason of the condition Drifted, empty if it is not set, and fragments of its message."""

    reason: str
    message: list[str] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    """What could not be compared."""
    check_again: str | None = None
    """In how much time."""

    @model_validator(mode="after")
    def _is_explained(self) -> ExpectedDrift:
        if self.reason and not self.message:
            raise ValueError("drift needs a fragment of its message")
        return self


class DriftScenario(_Scenario):
    """A NodeClaim that is compared with its NodePool and EC2NodeClass."""

    drift: Drifting
    expect: ExpectedDrift

    def failures(self) -> list[str]:
        """What is wrong with the verdict."""
        before, now = self.drift.launched, self.drift.now
        claim = drifting.launched(
            drifting.pool(_edits(before.pool)),
            drifting.node_class(_edits(before.node_class)),
            requirements=before.requirements,
            labels=before.labels,
            annotations=before.annotations,
        )
        conditions = {} if now.ready else {"conditions": [{**drifting.READY, "status": "False"}]}
        # fields that a launch copied stay unless the case edits them again
        pool = drifting.pool(_edits({**before.pool, **now.pool}))
        current = None
        if now.node_class is not None:
            edits = _edits({**before.node_class, **now.node_class})
            current = drifting.node_class(edits, **now.found, **conditions)
        at = drifting.CREATED + duration(now.age)
        verdict = DesiredNode(pool, current, self._types()).check(claim, at)
        got = (
            str(verdict.drift.reason) if verdict.drift else "",
            sorted(verdict.unknown),
            verdict.check_again,
        )
        again = None if self.expect.check_again is None else at + duration(self.expect.check_again)
        found = []
        if got != (self.expect.reason, sorted(self.expect.unknown), again):
            found.append(f"expected {self.expect}, got {got}")
        told = verdict.drift.message if verdict.drift else ""
        return found + [f"{each!r} is not in {told!r}" for each in self.expect.message if each not in told]

    def _types(self) -> list[InstanceType]:
        now = self.drift.now
        return [
            replace(
                kind, offerings=tuple(o for o in kind.offerings if o.zone in now.zones_of.get(kind.name, (o.zone,)))
            )
            for kind in CATALOG
            if kind.name not in now.types_gone
        ]


class SickNode(Spec):
    """A Node, and since when each of its conditions has its status (null: it does not say)."""

    pool: str = "default"
    conditions: dict[str, tuple[str, str | None]] = Field(default_factory=dict)


class Repairing(Spec):
    """Nodes, and how many more of each NodePool are healthy."""

    nodes: dict[str, SickNode]
    healthy: dict[str, int] = Field(default_factory=dict)


class ExpectedRepair(Spec):
    """Nodes whose time is over, and those that wait for it."""

    repaired: dict[str, str]
    """The condition that is the reason, such as ``Ready is Unknown``."""
    waits: dict[str, str] = Field(default_factory=dict)
    """In how much time a node is due."""
    healthy: list[str] = Field(default_factory=list)
    """Nodes that no policy names."""
    blocked: list[str] = Field(default_factory=list)
    """NodePools of which too many nodes are unhealthy."""


class RepairScenario(_Scenario):
    """Nodes of which some are unhealthy."""

    repair: Repairing
    expect: ExpectedRepair

    def failures(self) -> list[str]:
        """What is wrong with the nodes that are replaced."""
        faults = {
            name: fault
            for name, node in self.repair.nodes.items()
            if (fault := fault_of(list(_conditions(node)))) is not None
        }
        nodes = [(node.pool, name in faults) for name, node in self.repair.nodes.items()]
        nodes += [(pool, False) for pool, number in self.repair.healthy.items() for _ in range(number)]
        breaker = Breaker(nodes)
        blocked = sorted(pool for pool in {pool for pool, _ in nodes} if breaker.why_blocked(pool))
        got = ExpectedRepair(
            repaired={
                name: f"{fault.condition.type} is {fault.condition.status}"
                for name, fault in faults.items()
                if fault.due is not None and fault.due <= NOW and self.repair.nodes[name].pool not in blocked
            },
            waits={
                name: f"{(fault.due - NOW).total_seconds():.0f}s"
                for name, fault in faults.items()
                if fault.due is not None and fault.due > NOW
            },
            healthy=sorted(self.repair.nodes.keys() - faults.keys()),
            blocked=blocked,
        )
        return [] if got == self.expect else [f"expected {self.expect}", f"got      {got}"]


Scenario = ClusterScenario | DriftScenario | RepairScenario
KINDS: Mapping[str, type[Scenario]] = {"cluster": ClusterScenario, "drift": DriftScenario, "repair": RepairScenario}


def read(path: Path) -> Scenario:
    """Read a file.

    Raises:
        ValueError: it is of no kind or of several, or has a key that its kind does not know.
    """
    stated: Any = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    kinds = KINDS.keys() & stated.keys()
    if len(kinds) != 1:
        raise ValueError(f"{path.name} must have exactly one of {', '.join(KINDS)}")
    return KINDS[kinds.pop()].model_validate(stated)


def failure(scenario: Scenario) -> str:
    """What is wrong; empty if the scenario holds."""
    found = scenario.failures()
    if not found:
        return ""
    return "\n".join([", ".join(scenario.rows), scenario.scenario, scenario.derivation, *found])


def _wrong(scenario: ClusterScenario, decision: Decision) -> Iterator[str]:
    chosen = {tuple(sorted(_removed(command))): command for command in decision.commands}
    wanted = {tuple(sorted(command.removes)): command for command in scenario.expect}
    if chosen.keys() != wanted.keys():
        yield f"expected commands for {sorted(wanted)}, got {sorted(chosen)}"
        return
    if scenario.in_order:
        order = [_removed(command) for command in decision.commands]
        if order != [command.removes for command in scenario.expect]:
            yield f"expected the order of expect, got {order}"
    for removed, command in wanted.items():
        for difference in _differences(command, chosen[removed]):
            yield f"{', '.join(removed)}: {difference}"
    eligible = sum(decision.eligible.values())
    if scenario.eligible is not None and eligible != scenario.eligible:
        yield f"expected {scenario.eligible} eligible nodes, got {eligible}"
    if scenario.look_again is not None:
        due = scenario.cluster.now + duration(scenario.look_again) if scenario.look_again else None
        if decision.look_again != due:
            yield f"expected to look again at {due}, got {decision.look_again}"


def _differences(wanted: ExpectedCommand, got: Command) -> Iterator[str]:
    if wanted.reason != got.reason:
        yield f"expected the reason {wanted.reason}, got {got.reason}"
    if wanted.launches is not None:
        if len(wanted.launches) != len(got.replacements):
            yield f"expected {len(wanted.launches)} new nodes, got {len(got.replacements)}"
        for node, claim in zip(wanted.launches, got.replacements, strict=False):
            yield from _node_differences(node, claim)
    onto = {node: len(pods) for node, pods in got.destinations.items()}
    if wanted.onto is not None and wanted.onto != onto:
        yield f"expected pods onto {wanted.onto}, got {onto}"
    if wanted.saving is not None and abs(wanted.saving - got.saving) > 1e-6:
        yield f"expected a saving of {wanted.saving}, got {got.saving}"
    if wanted.type is not None and wanted.type != got.consolidation_type:
        yield f"expected the consolidation type {wanted.type}, got {got.consolidation_type}"
    if wanted.graceful is not None and wanted.graceful != got.graceful:
        yield f"expected graceful {wanted.graceful}, got {got.graceful}"
    told = "\n".join(got.explanation)
    yield from (f"the explanation does not say {fragment!r}" for fragment in wanted.explanation if fragment not in told)


def _node_differences(wanted: ExpectedNode, got: PlannedClaim) -> Iterator[str]:
    allowed = got.requirements.get("karpenter.sh/capacity-type")
    seen: dict[str, object] = {
        "pool": got.pool,
        "type": got.offering.instance_type,
        "types": list(got.instance_types),
        "type_count": len(got.instance_types),
        "capacity_type": got.offering.capacity_type,
        "requires_capacity_type": list(allowed.values),
        "zone": got.offering.zone,
        "pods": len(got.pods),
    }
    for name, value in seen.items():
        expected = getattr(wanted, name)
        if expected is not None and expected != value:
            yield f"expected a new node with {name} {expected}, got {value}"
    if wanted.price is not None and abs(wanted.price - got.price) > 1e-6:
        yield f"expected a new node for ${wanted.price}, got ${got.price}"
    yield from (f"a new node lists {name}" for name in wanted.types_exclude if name in got.instance_types)


def _removed(command: Command) -> list[str]:
    return [candidate.node.claim for candidate in command.candidates]


def _after(given: Situation, commands: Sequence[Command]) -> Situation:
    """The situation once the commands have begun, as `tenon simulate --disruption` explains it."""
    assert given.model is not None
    sold = {pool.name for pool in given.model.problem.pools}
    moves = [
        (_removed(command), Plan(tuple(c for c in command.replacements if c.pool in sold), dict(command.destinations)))
        for command in commands
    ]
    gone = frozenset(name for command in commands for name in _removed(command))
    later = carried_out(given.model, moves).model
    return replace(given, under_command=given.under_command | gone, model=later)


def _replacement(claim: PlannedClaim) -> Replacement:
    only = instance_type_requirement(claim.instance_types)
    requirements = [
        each for each in claim.requirements.with_(only).to_selectors() if each["key"] == labels.INSTANCE_TYPE
    ]
    return Replacement(name="new", pool=claim.pool, body={"spec": {"requirements": requirements}})


def _merged(stated: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(stated)
    for key, value in changes.items():
        before = found.get(key)
        found[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def _edits(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {path: REMOVED if value is None else value for path, value in stated.items()}


def _overfull(cluster: Cluster) -> list[str]:
    model = situation(cluster).model
    assert model is not None
    return [
        node.name
        for node in model.problem.nodes
        if any(amount > node.allocatable.get(name, 0) for name, amount in node.used.items())
    ]


def _conditions(node: SickNode) -> Iterator[NodeCondition]:
    for type_, (status, ago) in node.conditions.items():
        since = (NOW - duration(ago)).astimezone(UTC).timestamp() if ago is not None else 0.0
        yield NodeCondition(type_, status, since)


def _told(decision: Decision) -> list[str]:
    return [
        f"- {line}" if number == 0 else f"  {line}"
        for command in decision.commands
        for number, line in enumerate(
            (
                f"{command.reason} {_removed(command)} {command.consolidation_type} saving {command.saving:.4f}",
                *command.explanation,
                *(f"lists {c.instance_types}" for c in command.replacements),
            )
        )
    ]
