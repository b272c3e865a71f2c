"""Checks shortly before a command starts that it still holds (DIS-46): the cluster has had time to change."""

from __future__ import annotations

from tenon.apis.reasons import Reason
from tenon.disruption.commands import pod_mark
from tenon.disruption.deciding import eligible
from tenon.disruption.model import NodeDetail, Situation
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.disruption.rescheduling import Rescheduler, is_complete
from tenon.lifecycle.messages.disruption import DisruptionCandidate, DisruptionCommand
from tenon.scheduling.deadline import Expired, never


def why_invalid(command: DisruptionCommand, situation: Situation, expired: Expired = never) -> str:
    """Return why the command must not start, in one clause; empty if it may.

    Args:
        command: a command that moves pods.
        situation: the cluster as it is now, with its model. The command's own nodes are not under command there.
        expired: ends the simulation early, which counts as a failure.
    """
    assert situation.model is not None, "a command that moves pods is validated on a model"
    free = {node.claim: node for node in eligible(situation)}
    budgets = PoolBudgets(situation, command.reason)
    rescheduler = Rescheduler(situation.model)
    for candidate in command.candidates:
        node = free.get(candidate.claim)
        if node is None or node.uid != candidate.uid:
            return f"NodeClaim {candidate.claim} may not be disrupted any more"
        detail = rescheduler.detail(candidate.claim)
        if detail is None:
            return f"the Node of NodeClaim {candidate.claim} is gone"
        if why := _reason_gone(command, candidate, detail, situation):
            return f"NodeClaim {candidate.claim}: {why}"
        if not budgets.take(candidate.pool):
            why = budgets.why_closed(candidate.pool)
            return (
                f"NodePool {candidate.pool} is {why}"
                if why
                else (f"the budgets of NodePool {candidate.pool} do not allow it any more")
            )
    plan = rescheduler.simulate([candidate.claim for candidate in command.candidates], expired=expired)
    if not is_complete(plan):
        first = next(iter(sorted(plan.unschedulable)), "")
        return f"pod {first} would fit nowhere" if first else "the simulation took too long"
    if len(plan.claims) > len(command.replacements):
        return f"its pods need {len(plan.claims)} new nodes instead of {len(command.replacements)}"
    return ""


def _reason_gone(
    command: DisruptionCommand, candidate: DisruptionCandidate, detail: NodeDetail, situation: Situation
) -> str:
    """Return why the reason for the command no longer holds for a candidate; empty if it does."""
    if detail.held_by and (command.graceful or not detail.has_grace_period):
        return detail.held_by
    if command.reason == Reason.DRIFTED:
        return "" if detail.drifted else "it is not drifted any more"
    after = situation.policies[candidate.pool].consolidate_after
    if after is None:
        return "its NodePool does not consolidate any more"
    known = set(candidate.pods)
    if late := next((pod.key for pod in detail.pods if pod_mark(pod.uid) not in known), ""):
        return f"pod {late} came after the decision"
    if detail.quiet_since is not None and detail.quiet_since + after > situation.now:
        return "a pod came or went"
    return ""
