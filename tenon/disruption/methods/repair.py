"""Repairs unhealthy nodes: reboots one, or replaces it once its new node is there (N15-129, N15-131 to N15-135).

Repair has one command a pass, for the node with the highest score. The next pass sees what it changed, and follows at
once. Most nodes have no fault, so it costs nothing while all are healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.replacement_text import replacement_lines, without_place
from tenon.disruption.decision import Candidate, Command, DisruptionBlocked, Proposal, TerminateFirst
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.repair.decision import RepairDecision
from tenon.disruption.repair.policies import RepairAction
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.rules.unhealthy import PolicyBudgets, next_repair, repair_of
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
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Plan, PlannedClaim
from tenon.sentences import lasting

PASS_AGAIN = timedelta(seconds=10)
"""When to look again after a pass that could not repair every unhealthy node (N15-129)."""


def _no_limit() -> Expired:
    return never


@dataclass(frozen=True, slots=True)
class _Sick:
    """A node that is to be repaired, and what is known of it."""

    node: ManagedNode
    detail: NodeDetail
    decision: RepairDecision

    @property
    def place(self) -> tuple[float, float, str]:
        """Its place in the order: the highest score, then the lowest disruption cost, then the name (N15-129)."""
        return (-self.decision.score, self.detail.cost, self.node.claim)


class Repair:
    """Repairs nodes whose faults have lasted for longer than their policies tolerate."""

    name = "repair"
    reason = Reason.UNHEALTHY
    consolidation_type = ""

    def __init__(self, deadline: Callable[[], Expired] = _no_limit, *, terminate_first: bool = False) -> None:
        """``deadline``: called at the start of each pass; what it returns ends the simulations of that pass early.

        ``terminate_first``: a node for whose replacement there is no room leaves first (gate TerminateFirstRepair).
        """
        self._deadline = deadline
        self._terminate_first = terminate_first

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return which fault is due."""
        decision = repair_of(node, situation)
        return "" if decision is None else _text(decision)

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return the command for the first node that can be repaired now."""
        model = situation.model
        if model is None:
            return Proposal()
        in_order = _in_order(eligible, situation, model)
        if not in_order:
            return Proposal(next_pass=next_repair(situation))
        expired = self._deadline()
        repairs = _Pass(model, situation, budgets, expired, terminate_first=self._terminate_first)
        policy_budgets = PolicyBudgets(situation)
        is_cut = False
        for sick in in_order:
            if not budgets.allows(sick.node):
                repairs.block(sick, budgets.why_none(sick.node.pool))
                continue
            if is_cut := expired():
                break
            if why := policy_budgets.why_waits(sick.node):
                repairs.block(sick, why)
                continue
            command = repairs.command(sick)
            if command is not None:
                return Proposal(
                    (command,), next_pass=situation.now, blocked=repairs.blocked, is_cut=True, failed=repairs.failed
                )
        is_left = is_cut or bool(repairs.blocked)
        next_passes = [next_repair(situation), situation.now + PASS_AGAIN if is_left else None]
        return Proposal(
            next_pass=min((due for due in next_passes if due is not None), default=None),
            blocked=repairs.blocked,
            is_cut=is_cut,
            failed=repairs.failed,
        )


class _Pass:
    """One pass: what it finds out about the nodes that it tries."""

    def __init__(
        self,
        model: ClusterModel,
        situation: Situation,
        budgets: PoolBudgets,
        expired: Expired,
        *,
        terminate_first: bool,
    ) -> None:
        self.blocked: dict[str, DisruptionBlocked] = {}
        self.failed: Exception | None = None
        """The first exception of the engine."""
        self._situation = situation
        self._expired = expired
        self._rescheduler = Rescheduler(model, nodes_in_commands(situation, model))
        self._budgets = budgets
        self._terminate_first = terminate_first
        self._static = StaticReplacements(situation, model, terminate_first=terminate_first)

    def command(self, sick: _Sick) -> Command | None:
        """Return the command that repairs the node; None if it cannot be repaired now, which `blocked` then says."""
        if sick.decision.action is RepairAction.REBOOT:
            return _reboot(sick)
        replacement = self._replacement(sick)
        if isinstance(replacement, str):
            self.block(sick, replacement)
            return None
        plan, leaves_first = replacement
        return _replace(sick, plan, self._situation, leaves_first)

    def block(self, sick: _Sick, why: str) -> None:
        """Record why a node is not repaired now."""
        self.blocked[sick.node.claim] = DisruptionBlocked(_text(sick.decision), why)

    def _replacement(self, sick: _Sick) -> tuple[Plan, TerminateFirst | None] | str:
        """Return where the pods of the node go, and how it leaves first if it must; or why it must stay."""
        claim = sick.node.claim
        if self._situation.policies[sick.node.pool].replicas is not None:
            static = self._static.of(sick.node, sick.detail, self._budgets)
            return static.why_not if static.claim is None else (Plan((static.claim,)), static.terminate_first)
        if self._rescheduler.detail(claim) is None:
            return "its Node is not known to the scheduler yet"
        if not sick.detail.pods:
            return Plan(), None
        try:
            plan = self._rescheduler.simulate([claim], expired=self._expired)
            waits = not is_complete(plan) and not plan.unreached
            later = (
                plan_after_leaving(claim, self._rescheduler, self._expired) if waits and self._terminate_first else None
            )
        except Exception as error:  # the engine fails on this node's pods: the other nodes must not wait for it
            self.failed = self.failed or error
            return f"the search for a place for its pods failed ({type(error).__name__})"
        if plan.unreached:
            return "the simulation of where its pods would go did not end in time"
        if later is not None:
            why = why_surge_forbids(sick.detail)
            return why or (later, of_reservation(claim, self._rescheduler, later))
        return without_place(plan.unschedulable) if waits else (plan, None)


def replacement_of(claim: str, plan: Plan, situation: Situation) -> Command:
    """Return the command that replaces an unhealthy node as this plan says, which is not the plan of a pass."""
    assert situation.model is not None
    (node,) = (managed_node for managed_node in situation.nodes if managed_node.claim == claim)
    decision = repair_of(node, situation)
    assert decision is not None
    return _replace(_Sick(node, situation.model.details[claim], decision), plan, situation)


def _in_order(eligible: Sequence[ManagedNode], situation: Situation, model: ClusterModel) -> list[_Sick]:
    sick_nodes = [
        _Sick(node, detail, decision)
        for node in eligible
        if (detail := model.details.get(node.claim)) is not None
        and (decision := repair_of(node, situation)) is not None
    ]
    return sorted(sick_nodes, key=lambda sick: sick.place)


def _text(decision: RepairDecision) -> str:
    return f"its node is unhealthy ({decision.fault.text})"


def _reboot(sick: _Sick) -> Command:
    return Command(
        method=Repair.name,
        reason=Reason.UNHEALTHY,
        consolidation_type="",
        candidates=(Candidate(sick.node, since=sick.decision.fault.since),),
        graceful=False,
        explanation=(_detail(sick.decision), "the node reboots in place, so nothing is bought"),
        repair=sick.decision,
    )


def _replace(sick: _Sick, plan: Plan, situation: Situation, terminate_first: TerminateFirst | None = None) -> Command:
    saving = sick.detail.price - sum(claim.price for claim in plan.claims)
    decision = sick.decision
    is_static = situation.policies[sick.node.pool].replicas is not None
    return Command(
        method=Repair.name,
        reason=Reason.UNHEALTHY,
        consolidation_type="",
        candidates=(Candidate(sick.node, since=decision.fault.since),),
        replacements=() if terminate_first is not None else plan.claims,
        destinations={name: pods for name, pods in plan.placements.items() if pods},
        moves_pods=True,
        graceful=False,
        expected=saving,
        guaranteed_saving=saving,
        explanation=(
            _detail(decision),
            *_bound_lines(decision),
            *(
                intended_text(terminate_first)
                if terminate_first is not None
                else _lines(plan.claims, plan.placements, is_static=is_static)
            ),
        ),
        repair=decision,
        terminate_first=terminate_first,
    )


def _detail(decision: RepairDecision) -> str:
    """Why the node is repaired: the condition, its status and reason, and the policy."""
    fault = decision.fault
    escalated = ", after as many reboots as the policy allows" if fault.is_escalated else ""
    tolerated = lasting(fault.policy.toleration)
    return f"{fault.text}: {fault.policy.text} takes {decision.action.text} after {tolerated}{escalated}"


def _bound_lines(decision: RepairDecision) -> Iterator[str]:
    bound = decision.drain_bound
    if bound is None:
        yield "the terminationGracePeriod of the NodeClaim bounds the drain"
    elif bound:
        yield f"the drain takes {lasting(bound)} at most, because of {decision.bound_by.condition.type}"
    else:
        yield f"the node is not drained, because of {decision.bound_by.condition.type}"


def _lines(
    claims: Sequence[PlannedClaim], placements: Mapping[str, tuple[Pod, ...]], *, is_static: bool
) -> Iterator[str]:
    if is_static:
        yield "one new node of the static NodePool takes its place"
    yield from replacement_lines(claims, placements)
