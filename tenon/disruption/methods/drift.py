"""Replaces nodes that drifted: that are no longer as their NodePool and EC2NodeClass describe them.

`Drift` simulates where the pods go and buys what they need (DIS-03). `StaticDrift` replaces the nodes of static
NodePools one by one (DIS-02). Where there is no room for both, a node leaves before its replacement, if the gate allows
it. Each command has one node, so that a node that cannot leave holds up no other one. Candidates take turns over
NodePools, and those that could not leave before come last (DIS-78).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.replacement_text import replacement_lines, without_place
from tenon.disruption.decision import Candidate, Command, DisruptionBlocked, Proposal, TerminateFirst
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.rescheduling import Rescheduler, is_complete, nodes_in_commands
from tenon.disruption.search.terminate_first import (
    StaticReplacements,
    intended_text,
    of_reservation,
    plan_after_leaving,
    why_surge_forbids,
)
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.kube.timestamps import time_text
from tenon.rollout.versions import PoolRollout
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Plan, PlannedClaim

MAX_COMMANDS = 10
"""How many nodes one pass replaces at most. The next pass sees what these changed."""
MORE_AFTER = timedelta(seconds=10)
"""When to look again if a pass ended before it had tried every candidate."""
BLOCKED_AFTER = timedelta(minutes=1)
"""When to look again if candidates are left that cannot leave: a budget may open, or a protection end."""
_NEVER_BLOCKED = datetime.min.replace(tzinfo=UTC)


def _no_limit() -> Expired:
    return never


@dataclass(frozen=True, slots=True)
class _Drifted:
    """A node that drifted, and what is known of it."""

    node: ManagedNode
    detail: NodeDetail
    place: tuple[datetime, bool, datetime, str]
    """Its place in the order: when it was last blocked, then empty nodes, then the earliest drift, then the name."""
    rollout: PoolRollout | None = None
    """The rollout that replaces it; None for drift alone."""


class _Pass:
    """One pass over the candidates of a method: what it has decided so far."""

    def __init__(self, eligible: Sequence[ManagedNode], situation: Situation, model: ClusterModel) -> None:
        self.commands: list[Command] = []
        self.blocked: dict[str, DisruptionBlocked] = {}
        self.is_cut = False
        """Whether it ended before it had tried every candidate."""
        self.failed: Exception | None = None
        """The first exception of the engine."""
        self._now = situation.now
        self._free = [
            _drifted(node, detail, situation)
            for node in eligible
            if (detail := model.details.get(node.claim)) is not None
        ]
        self._left_over = False

    def in_turn(self, budgets: PoolBudgets) -> Iterator[_Drifted]:
        """Yield the candidates: the first of each NodePool, then the second, while the pool's budget lasts."""
        queues: dict[str, list[_Drifted]] = {}
        for drifted_node in sorted(self._free, key=lambda drifted_node: drifted_node.place):
            queues.setdefault(drifted_node.node.pool, []).append(drifted_node)
        while queues:
            for pool in list(queues):
                if budgets.left(pool) <= 0:
                    self._left_over = True
                    del queues[pool]
                    continue
                yield queues[pool].pop(0)
                if not queues[pool]:
                    del queues[pool]

    def block(self, drifted_node: _Drifted, why: str) -> None:
        """Record why a node cannot leave."""
        text = _text(drifted_node.detail, drifted_node.rollout)
        self.blocked[drifted_node.node.claim] = DisruptionBlocked(text, why)

    def proposal(self) -> Proposal:
        """Return what the pass decided."""
        after = MORE_AFTER if self.is_cut else BLOCKED_AFTER if self.blocked or self._left_over else None
        return Proposal(
            tuple(self.commands),
            next_pass=None if after is None else self._now + after,
            blocked=self.blocked,
            is_cut=self.is_cut,
            failed=self.failed,
        )


class Drift:
    """Replaces drifted nodes of NodePools that follow their pods."""

    name = "drift"
    reason = Reason.DRIFTED
    consolidation_type = ""

    def __init__(
        self,
        most: int = MAX_COMMANDS,
        deadline: Callable[[], Expired] = _no_limit,
        *,
        terminate_first: bool = False,
    ) -> None:
        """Create the method.

        Args:
            most: how many nodes one pass replaces at most.
            deadline: called at the start of each pass; what it returns ends the simulations of that pass early.
            terminate_first: a node may leave before its replacement starts if its place in a capacity reservation is
                needed for it (feature gate TerminateFirstDrift).
        """
        self._most = most
        self._deadline = deadline
        self._terminate_first = terminate_first

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return that the node drifted."""
        return _cause(node, situation, static=False)

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command for each node that leaves now."""
        model = situation.model
        if model is None:
            return Proposal()
        expired = self._deadline()
        drift_pass = _Pass(eligible, situation, model)
        rescheduler = Rescheduler(model, nodes_in_commands(situation, model))
        hosts: set[str] = set()
        simulated = 0
        for drifted_node in drift_pass.in_turn(budgets):
            if expired() or len(drift_pass.commands) >= self._most:
                drift_pass.is_cut = True
                break
            claim = drifted_node.node.claim
            if rescheduler.detail(claim) is None:
                continue  # it has no Node that could be simulated
            if drifted_node.detail.node in hosts:
                drift_pass.is_cut = True  # pods are about to move there
                continue
            try:
                versions = model.version_for(drifted_node.node.pool)
                pods = drifted_node.detail.pods
                plan = rescheduler.simulate([claim], versions=versions, expired=expired) if pods else Plan()
                waits = not is_complete(plan) and not plan.unreached
                # What comes after a node that left first is an ordinary launch, which does not have the new version.
                leaves = waits and self._terminate_first and not versions
                later = plan_after_leaving(claim, rescheduler, expired) if leaves else None
            except Exception as error:  # the engine fails on this node's pods: the other nodes must not wait for it
                drift_pass.failed = drift_pass.failed or error
                drift_pass.block(drifted_node, f"the search for a place for its pods failed ({type(error).__name__})")
                continue
            if plan.unreached:
                if not simulated:  # it had all the time that a pass has
                    drift_pass.block(drifted_node, "the simulation of where its pods would go did not end in time")
                drift_pass.is_cut = True
                break
            simulated += bool(pods)
            leaves_first: TerminateFirst | None = None
            if later is not None:
                if why := why_surge_forbids(drifted_node.detail):
                    drift_pass.block(drifted_node, why)
                    continue
                plan, leaves_first = later, of_reservation(claim, rescheduler, later)
            elif waits:
                drift_pass.block(drifted_node, without_place(plan.unschedulable))
                continue
            command = _command(self.name, drifted_node, plan.claims, plan.placements, situation.now, leaves_first)
            rescheduler.accept([claim], plan, command.freed_places)
            hosts |= plan.placements.keys()
            budgets.take(drifted_node.node.pool)
            drift_pass.commands.append(command)
        return drift_pass.proposal()


def replacement_of(claim: str, plan: Plan, situation: Situation) -> Command:
    """Return the command that replaces a drifted node as this plan says, which is not the plan of a pass."""
    assert situation.model is not None
    (node,) = (managed_node for managed_node in situation.nodes if managed_node.claim == claim)
    drifted_node = _drifted(node, situation.model.details[claim], situation)
    return _command(Drift.name, drifted_node, plan.claims, plan.placements, situation.now)


class StaticDrift:
    """Replaces drifted nodes of static NodePools, each by one new node, within ``limits.nodes``.

    With the feature gate TerminateFirstDrift, a node for whose replacement there is no room leaves first.
    """

    name = "static drift"
    reason = Reason.DRIFTED
    consolidation_type = ""

    def __init__(self, most: int = MAX_COMMANDS, *, terminate_first: bool = False) -> None:
        """``most``: how many nodes one pass replaces at most. ``terminate_first``: the feature gate."""
        self._most = most
        self._terminate_first = terminate_first

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return that the node drifted."""
        return _cause(node, situation, static=True)

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command for each node that leaves now."""
        model = situation.model
        if model is None:
            return Proposal()
        drift_pass = _Pass(eligible, situation, model)
        replacements = StaticReplacements(situation, model, terminate_first=self._terminate_first)
        for drifted_node in drift_pass.in_turn(budgets):
            if len(drift_pass.commands) >= self._most:
                drift_pass.is_cut = True
                break
            pool = drifted_node.node.pool
            version = model.version_for(pool).get(pool)
            replacement = replacements.of(drifted_node.node, drifted_node.detail, budgets, version)
            if replacement.claim is None:
                drift_pass.block(drifted_node, replacement.why_not)
                continue
            budgets.take(pool)
            drift_pass.commands.append(
                _command(self.name, drifted_node, (replacement.claim,), {}, situation.now, replacement.terminate_first)
            )
        return drift_pass.proposal()


def _cause(node: ManagedNode, situation: Situation, *, static: bool) -> str:
    detail = situation.detail_of(node)
    rollout = situation.rollout_replaces(node)
    drifted = node.drifted if situation.model is None else detail is not None and detail.drifted
    if not drifted and rollout is None:
        return ""
    policy = situation.policies.get(node.pool)
    is_static = policy is not None and policy.replicas is not None
    return "" if is_static is not static else _text(detail, rollout)


def _text(detail: NodeDetail | None, rollout: PoolRollout | None) -> str:
    if rollout is not None:
        return f"NodeRollout {rollout.rollout} replaces it"
    return "its node drifted" if detail is None else f"its node drifted ({detail.drifted})"


def _drifted(node: ManagedNode, detail: NodeDetail, situation: Situation) -> _Drifted:
    since = detail.drifted_since or situation.now
    blocked_at = situation.blocked_at.get(node.claim, _NEVER_BLOCKED)
    place = (blocked_at, bool(detail.pods), since, node.claim)
    return _Drifted(node, detail, place, situation.rollout_replaces(node))


def _command(
    method: str,
    drifted_node: _Drifted,
    claims: tuple[PlannedClaim, ...],
    placements: Mapping[str, tuple[Pod, ...]],
    now: datetime,
    terminate_first: TerminateFirst | None = None,
) -> Command:
    detail = drifted_node.detail
    since = detail.drifted_since or now
    saving = detail.price - sum(claim.price for claim in claims)
    return Command(
        method=method,
        reason=Reason.DRIFTED,
        consolidation_type="",
        candidates=(Candidate(drifted_node.node, since=since),),
        replacements=() if terminate_first is not None else claims,
        destinations={name: pods for name, pods in placements.items() if pods},
        moves_pods=True,
        graceful=False,
        expected=saving,
        guaranteed_saving=saving,
        explanation=tuple(_explanation(drifted_node, claims, placements, since, terminate_first)),
        terminate_first=terminate_first,
    )


def _explanation(
    drifted_node: _Drifted,
    claims: Sequence[PlannedClaim],
    placements: Mapping[str, tuple[Pod, ...]],
    since: datetime,
    terminate_first: TerminateFirst | None,
) -> Iterator[str]:
    detail, rollout = drifted_node.detail, drifted_node.rollout
    if rollout is not None:
        version = f" by version {rollout.replacement}" if rollout.replacement else ""
        cause = f": {rollout.cause}" if rollout.cause else ""
        yield f"NodeRollout {rollout.rollout} replaces it{version}{cause}"
    if detail.drifted:
        why = f": {detail.drift_message}" if detail.drift_message else ""
        yield f"{detail.drifted} since {time_text(since)}{why}"
    if terminate_first is None:
        yield from replacement_lines(claims, placements)
        return
    yield from intended_text(terminate_first)
    if placements:
        yield from replacement_lines((), placements)
