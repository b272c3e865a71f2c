"""Checks shortly before a command starts that it still holds (DIS-46): the cluster has had time to change.

A drift or repair command whose pods need other new nodes by now, or whose NodePool has changed, takes new nodes as they
are planned now, because its aim is not a price (DIS-03).
A consolidation that a person approved takes those that still save money, because its prices may be days old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.apis.hashing import nodepool_hash
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason, traits_of
from tenon.disruption.commands.pod_mark import pod_mark
from tenon.disruption.deciding import eligible
from tenon.disruption.decision import Command
from tenon.disruption.methods import drift, has_cause, repair
from tenon.disruption.methods.approved_consolidation import priced_again
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.policies import RepairAction
from tenon.disruption.rules.blockers import FROZEN, ROLLOUT, Hold, holds
from tenon.disruption.rules.pool_budgets import PoolBudgets, is_counted
from tenon.disruption.rules.unhealthy import repair_of
from tenon.disruption.search.rescheduling import Rescheduler, is_complete, nodes_in_commands, serves
from tenon.disruption.search.terminate_first import StaticReplacements, plan_after_leaving
from tenon.disruption.situation import Situation
from tenon.kube import object_json
from tenon.kube.requirements import Requirements
from tenon.messages.base import REBOOT
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, Replacement
from tenon.resources import NODES, Resources, add
from tenon.rollout.versions import PoolPhase
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Plan
from tenon.sentences import counted

STARTS_FIRST = "its replacement can start before it leaves"
"""Why a command that terminates a node first does not start any more."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Why a command must not start as it is, in one clause; empty if it may.

    ``instead``: the command that starts in its place, with other replacements for the same node.
    """

    why: str = ""
    instead: Command | None = None
    is_full: bool = False
    """Whether only budgets, limits, disruption windows, freezes or waves forbid it, so that it may start later."""


def validated(
    command: DisruptionCommand, situation: Situation, expired: Expired = never, outdated: str = ""
) -> Validation:
    """Return whether the command may start, and what starts in its place.

    Args:
        command: a command that moves pods.
        situation: the cluster as it is now, with its model. The nodes of other commands are under command there.
        expired: ends the simulation early, which counts as a failure.
        outdated: why its replacements must not be bought although they serve its pods, in a clause (`changed_pool`).
    """
    assert situation.model is not None, "a command that moves pods is validated on a model"
    rescheduler = Rescheduler(situation.model, nodes_in_commands(situation, situation.model))
    if (candidates := _check_candidates(command, situation, rescheduler)).why:
        return candidates
    if full := _why_no_room(command, situation):
        return Validation(full, is_full=True)
    why, plan = _check(command, situation, rescheduler, expired, outdated)
    must_pay = traits_of(command.reason).counts_savings
    if must_pay and command.approval is not None and plan is not None and _is_as_approved(plan, command):
        return Validation(*priced_again(command, plan, situation))
    if plan is None or must_pay or not _leaves_room(plan, situation):
        return Validation(why)
    replacement_of = repair.replacement_of if command.reason == Reason.UNHEALTHY else drift.replacement_of
    return Validation(why, replacement_of(command.candidates[0].claim, plan, situation))


def validated_empty(command: DisruptionCommand, situation: Situation) -> tuple[Validation, list[str]]:
    """Return whether a command for empty nodes that a person approved may start, and the NodeClaims that it may take.

    Nodes that are not empty any more stay, and so do those beyond the budgets.
    """
    free = {node.claim: node for node in eligible(situation, Reason.EMPTY)}
    budgets = PoolBudgets(situation, Reason.EMPTY)
    remaining = [
        candidate
        for candidate in command.candidates
        if (node := free.get(candidate.claim)) is not None and node.uid == candidate.uid and node.empty
    ]
    if not remaining:
        if frozen := _why_frozen_empty(command, situation):
            return Validation(frozen, is_full=True), []
        return Validation("none of its nodes is empty any more, or something else keeps them"), []
    taken_claims = [candidate.claim for candidate in remaining if budgets.take_for(free[candidate.claim])]
    if not taken_claims:
        return Validation(_why_full(budgets, remaining[0].pool), is_full=True), []
    return Validation(), taken_claims


def _why_frozen_empty(command: DisruptionCommand, situation: Situation) -> str:
    """Return why the empty nodes of a command stay if only a freeze keeps them; empty if something else does."""
    uids = {candidate.claim: candidate.uid for candidate in command.candidates}
    for node in situation.nodes:
        if node.empty and uids.get(node.claim) == node.uid and has_cause(node, situation, Reason.EMPTY):
            keeping = holds(node, situation, Reason.EMPTY)
            if _may_start_later(keeping):
                return keeping[0].why
    return ""


def _may_start_later(keeping: Sequence[Hold]) -> bool:
    """Whether only a freeze keeps a node, or a rollout whose next wave may have it.

    A wave has no nodes while a freeze holds or its windows are closed, and until the rollout notices that this is over.
    """
    return bool(keeping) and all(hold.blocker.name == FROZEN or _waits_for_wave(hold) for hold in keeping)


def _waits_for_wave(hold: Hold) -> bool:
    if hold.blocker.name != ROLLOUT:
        return False
    return hold.situation.rollouts[hold.node.pool].phase is PoolPhase.PROGRESSING


def _check_candidates(command: DisruptionCommand, situation: Situation, rescheduler: Rescheduler) -> Validation:
    """Return why the nodes of a command must not leave now; wherever their pods would go."""
    reason = Reason(command.reason)
    nodes = {node.claim: node for node in situation.nodes}
    budgets = PoolBudgets(situation, reason)
    full = ""
    for candidate in command.candidates:
        node = nodes.get(candidate.claim)
        if node is None or node.uid != candidate.uid:
            return Validation(f"NodeClaim {candidate.claim} is gone")
        keeping = holds(node, situation, reason)
        is_later = _may_start_later(keeping)
        if why := _why_not(node, reason, candidate, situation, () if is_later else keeping):
            return Validation(f"NodeClaim {candidate.claim}: {why}")
        if rescheduler.detail(candidate.claim) is None:
            return Validation(f"the Node of NodeClaim {candidate.claim} is gone")
        if is_later:
            full = full or f"NodeClaim {candidate.claim}: {keeping[0].why}"
        elif not budgets.take_for(node):
            full = full or _why_full(budgets, candidate.pool)
    return Validation(full, is_full=bool(full))


def _check(
    command: DisruptionCommand, situation: Situation, rescheduler: Rescheduler, expired: Expired, outdated: str
) -> tuple[str, Plan | None]:
    """Return why the command must not start as it is, and the plan for its pods if only its replacements are wrong."""
    nodes = {node.claim: node for node in situation.nodes}
    if command.decision == REBOOT:
        decision = repair_of(nodes[command.candidates[0].claim], situation)
        reboots = decision is not None and decision.action is RepairAction.REBOOT
        return "" if reboots else "the node needs another repair than a reboot by now", None
    if all(situation.policies[candidate.pool].replicas is not None for candidate in command.candidates):
        return _why_not_static(command, situation) or outdated, None
    claims = [candidate.claim for candidate in command.candidates]
    assert situation.model is not None
    is_drift = command.reason == Reason.DRIFTED
    versions = situation.model.version_for(command.candidates[0].pool) if is_drift else {}
    plan = rescheduler.simulate(claims, versions=versions, expired=expired)
    if command.terminate_first is not None and is_complete(plan):
        return STARTS_FIRST, plan
    if command.terminate_first is not None and not plan.unreached:
        is_left = plan_after_leaving(command.candidates[0].claim, rescheduler, expired) is not None
        return "" if is_left else "its pods would have no place even when it is gone", None
    if not is_complete(plan):
        first = next(iter(sorted(plan.unschedulable)), "")
        return (f"pod {first} would fit nowhere" if first else "the simulation took too long"), None
    if len(plan.claims) > len(command.replacements):
        needed = counted(len(plan.claims), "new node")
        return f"its pods need {needed} instead of {len(command.replacements) or 'none'}", plan
    listed = [(replacement.pool, _types(replacement)) for replacement in command.replacements]
    if not serves(listed, plan.claims):
        return "its pods need other instance types than its replacements", plan
    if outdated:
        return outdated, plan
    # What was planned before a person approved it may be days old: prices, names of pods, the template of the NodePool.
    must_pay = traits_of(command.reason).counts_savings
    return "", plan if command.approval is not None and (command.replacements or must_pay) else None


def _is_as_approved(plan: Plan, command: DisruptionCommand) -> bool:
    """Whether the plan buys no more nodes than the command that a person approved."""
    return len(plan.claims) <= len(command.replacements)


def _why_full(budgets: PoolBudgets, pool: str) -> str:
    if why := budgets.why_closed(pool):
        return f"NodePool {pool} is {why}"
    return f"the budgets of NodePool {pool} do not allow it any more"


def _why_not_static(command: DisruptionCommand, situation: Situation) -> str:
    """Return why a static NodePool's node must not leave; empty if it may. It is replaced wherever its pods go."""
    if command.terminate_first is None:
        return ""
    assert situation.model is not None
    (candidate,) = command.candidates
    replacements = StaticReplacements(situation, situation.model, terminate_first=True)
    budgets = PoolBudgets(situation, Reason(command.reason))
    (node,) = (managed_node for managed_node in situation.nodes if managed_node.claim == candidate.claim)
    replacement = replacements.of(node, situation.model.details[candidate.claim], budgets)
    return "" if replacement.terminate_first is not None else replacement.why_not or STARTS_FIRST


def _why_no_room(command: DisruptionCommand, situation: Situation) -> str:
    """Return why an approved command for a static NodePool's node must wait for room for its replacement.

    A pass counts no command that awaits approval, so others may have been decided for the same room.
    """
    (candidate, *_) = command.candidates
    is_static = situation.policies[candidate.pool].replicas is not None
    is_staged = is_static and command.terminate_first is None and command.decision != REBOOT
    if command.approval is None or not is_staged:
        return ""
    model = situation.model
    assert model is not None
    replacements = StaticReplacements(situation, model, terminate_first=False)
    (node,) = (managed_node for managed_node in situation.nodes if managed_node.claim == candidate.claim)
    version = model.version_for(candidate.pool).get(candidate.pool) if command.reason == Reason.DRIFTED else None
    budgets = PoolBudgets(situation, Reason(command.reason))
    return replacements.of(node, model.details[candidate.claim], budgets, version).why_not


def _leaves_room(plan: Plan, situation: Situation) -> bool:
    """Whether NodePools stay within their limits if each other command that runs buys as much as this plan.

    What they will buy is not known here. A pass counts it, so otherwise the node waits for the next one.
    """
    assert situation.model is not None
    pools = {pool.name: pool for pool in situation.model.problem.pools}
    commands = 1 + len(situation.under_command)
    bought: dict[str, Resources] = {}
    for claim in plan.claims:
        bought[claim.pool] = add(bought.get(claim.pool, {}), claim.largest, {NODES: 1})
    return all(
        pools[name].usage.get(resource, 0) + commands * amounts.get(resource, 0) <= limit
        for name, amounts in bought.items()
        for resource, limit in (pools[name].limits or {}).items()
    )


def changed_pool(command: DisruptionCommand, pools: Iterable[NodePool]) -> str:
    """Return that a NodePool has changed since the replacements were planned, in a clause; empty if none has.

    Nodes of an earlier template or version would be replaced at once. ``pools``: of several versions of a NodePool, the
    last one counts.
    """
    last_versions = {pool.metadata.name: pool for pool in pools}
    launched = {
        name: _version(pool)
        for name in {replacement.pool for replacement in command.replacements}
        if (pool := last_versions.get(name)) is not None
    }
    for replacement in command.replacements:
        annotations = object_json.annotations(replacement.body)
        planned = annotations.get(labels.NODEPOOL_HASH), annotations.get(labels.REVISION)
        if planned != launched.get(replacement.pool):
            return f"NodePool {replacement.pool} has changed since the command was decided"
    return ""


def _version(pool: NodePool) -> tuple[str | None, str | None]:
    """Return the hash and the version that NodeClaims of the NodePool name; None for no version."""
    annotations = {**pool.spec.template.metadata.annotations, **pool.metadata.annotations}
    return nodepool_hash(pool), annotations.get(labels.REVISION)


def overtaken(command: DisruptionCommand, situation: Situation) -> Validation:
    """Return whether a command that was just validated may still start.

    A validation takes a while. Meanwhile other commands may have started, whose nodes are under command in the
    situation, and a person may have paused a rollout or protected a node. The situation needs no model.
    """
    reason = Reason(command.reason)
    nodes = {node.claim: node for node in situation.nodes}
    budgets = PoolBudgets(situation, reason)
    full = ""
    for candidate in command.candidates:
        node = nodes.get(candidate.claim)
        if node is None or node.uid != candidate.uid:
            return Validation(f"NodeClaim {candidate.claim} is gone")
        if keeping := holds(node, situation, reason):
            why = f"NodeClaim {candidate.claim}: {keeping[0].why}"
            if not _may_start_later(keeping):
                return Validation(why)
            full = full or why
        elif not budgets.take_for(node):
            full = full or _why_full(budgets, candidate.pool)
    return Validation(full, is_full=bool(full))


def still_allowed(commands: Iterable[DisruptionCommand], situation: Situation) -> list[DisruptionCommand]:
    """Return those commands of one decision that the nodes and their budgets still allow.

    A decision takes a while, and other commands may have started meanwhile. Their nodes are under command in the
    situation, which needs no model.
    """
    allowed_commands: list[DisruptionCommand] = []
    free: dict[str, ManagedNode] = {}
    budgets: PoolBudgets | None = None
    reason = ""
    for command in commands:
        if budgets is None or command.reason != reason:
            started = _claims(command for command in allowed_commands if command.approval is None)
            waiting = _claims(command for command in allowed_commands if command.approval is not None)
            reason = command.reason
            now = replace(situation, under_command=situation.under_command | started)
            free = {node.claim: node for node in eligible(now, Reason(reason)) if node.claim not in waiting}
            budgets = PoolBudgets(now, Reason(reason))
        nodes = [free.get(candidate.claim) for candidate in command.candidates]
        counts = Counter(node.pool for node in nodes if node is not None and is_counted(node))
        free_still = all(
            node is not None and node.uid == candidate.uid
            for node, candidate in zip(nodes, command.candidates, strict=True)
        )
        if command.approval is not None:
            counts.clear()  # budgets count its nodes when it is approved
        if free_still and all(budgets.left(pool) >= count for pool, count in counts.items()):
            for pool in counts.elements():
                budgets.take(pool)
            for candidate in command.candidates:
                del free[candidate.claim]
            allowed_commands.append(command)
    return allowed_commands


def _claims(commands: Iterable[DisruptionCommand]) -> frozenset[str]:
    return frozenset(candidate.claim for command in commands for candidate in command.candidates)


def _types(replacement: Replacement) -> frozenset[str] | None:
    """Return the instance types that EC2 may choose for a replacement; None if its requirements do not list them."""
    requirements = Requirements.from_terms(replacement.body["spec"].get("requirements") or ())
    types = requirements.get(labels.INSTANCE_TYPE)
    return None if types.complement else types.members


def _why_not(
    node: ManagedNode, reason: Reason, candidate: DisruptionCandidate, situation: Situation, keeping: Sequence[Hold]
) -> str:
    """Return why a candidate must not be removed; empty if it may be. ``keeping``: what keeps it.

    Consolidation removes a node whose last pod went away, as in Karpenter.
    """
    detail = situation.detail_of(node)
    if reason.traits.fixes_pods and detail is not None:
        decided = set(candidate.pods)
        if late := next((pod.key for pod in detail.pods if pod_mark(pod.uid) not in decided), ""):
            return f"pod {late} came after the decision"
    if keeping:
        return keeping[0].why
    is_emptied = reason.traits.is_consolidation and (node.empty or (detail is not None and not detail.pods))
    return "" if is_emptied or has_cause(node, situation, reason) else f"it is not {reason.snake_case} any more"
