"""Which commands wait until a person approves them, and what that means for their nodes (`tenon.sh/approve`).

A waiting command has done nothing, so budgets do not count its nodes. They count when it is approved: it is validated
again then, like a command that was just decided. Only other consolidation leaves the room alone that a consolidation
command needs, and only on nodes of NodePools that ask: a wait of days in one must not keep others as they are. For the
same reason, no consolidation command has nodes of NodePools with different rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tenon.apis.approvals import ApprovalRule
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Candidate, Command, DisruptionBlocked
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.situation import AskedApproval, Situation
from tenon.kube.timestamps import time_text
from tenon.messages.disruption import OpenCommand
from tenon.node.leave_text import approval_text
from tenon.resources import CPU

MAX_WAITING = 10
"""How many commands of a NodePool wait at most, so that a changed AMI does not ask a person about every node at once.
The others follow as these are answered."""


def approvals_of(open_commands: Mapping[str, OpenCommand]) -> dict[str, AskedApproval]:
    """Return the NodeClaims whose command waits for a person, or was refused by one."""
    return {
        claim: AskedApproval(
            command=entry.command,
            reason=Reason(entry.reason),
            pool=entry.pool,
            since=entry.since,
            refused=entry.refused,
            until=entry.until if entry.refused else None,
            hosts=tuple(entry.hosts),
        )
        for claim, entry in open_commands.items()
        if entry.is_idle
    }


def with_approvals(commands: Iterable[Command], situation: Situation) -> tuple[Command, ...]:
    """Return the commands with how long each waits for a person, without those for which too many wait already.

    A command for empty nodes of several NodePools is divided, so that no node waits because of another NodePool.
    """
    waiting = Counter[str]()
    for pools in _pools_of_waiting(situation.approvals).values():
        waiting.update(pools)
    checked_commands: list[Command] = []
    parts = [part for command in commands for part in _divided(command, situation)]
    for command in parts:
        approve_within = min(
            (situation.policies[pool].approve_within for pool in _asking_pools(command, situation)), default=None
        )
        if approve_within is not None:
            pools = {candidate.node.pool for candidate in command.candidates}
            if any(waiting[pool] >= MAX_WAITING for pool in pools):
                continue
            waiting.update(pools)
        checked_commands.append(command if approve_within is None else replace(command, approve_within=approve_within))
    return tuple(checked_commands)


def with_asked(situation: Situation, commands: Iterable[Command]) -> Situation:
    """Return the situation in which the nodes of these commands wait for a person."""
    new_approvals = {
        candidate.node.claim: AskedApproval(
            "", command.reason, candidate.node.pool, situation.now, hosts=() if number else tuple(command.destinations)
        )
        for command in commands
        for number, candidate in enumerate(command.candidates)
    }
    return replace(situation, approvals={**situation.approvals, **new_approvals}) if new_approvals else situation


def consolidation_rules(nodes: Iterable[ManagedNode], situation: Situation) -> dict[str, ApprovalRule | None]:
    """Return by NodeClaim what its NodePool asks about consolidation; nothing if none asks.

    Nodes for which it differs leave in commands of their own, so that none waits because of another NodePool.
    """
    rule_of = {pool: _rule(policy, Reason.UNDERUTILIZED) for pool, policy in situation.policies.items()}
    return {node.claim: rule_of.get(node.pool) for node in nodes} if any(rule_of.values()) else {}


def stays_for_waiting(node: ManagedNode, situation: Situation) -> bool:
    """Return whether other consolidation does not remove a node because pods move there if a person approves a command.

    Only a NodePool all of whose consolidation waits keeps it: one that lets smaller commands pass lets them pass while
    a larger one waits. An approved command is validated on the cluster as it is then.
    """
    policy = situation.policies.get(node.pool)
    rule = _rule(policy, Reason.UNDERUTILIZED) if policy is not None else None
    return rule is not None and rule.has_no_amounts and keeps_room_for_waiting(node, situation)


def keeps_room_for_waiting(node: ManagedNode, situation: Situation) -> bool:
    """Return whether other consolidation moves no pods to a node because those of a command that waits may come.

    A NodePool without a rule for consolidation keeps nothing for the commands of others.
    """
    policy = situation.policies.get(node.pool)
    asks = policy is not None and _rule(policy, Reason.UNDERUTILIZED) is not None
    return asks and node.named_in(_hosts_of_waiting(situation))


def _rule(policy: PoolPolicy, reason: Reason) -> ApprovalRule | None:
    return next((rule for rule in policy.approvals if rule.reason is reason), None)


def _hosts_of_waiting(situation: Situation) -> frozenset[str]:
    """Return the Nodes and NodeClaims that take pods if a person approves the consolidation commands that wait."""
    return frozenset(
        host
        for asked_approval in situation.approvals.values()
        if asked_approval.reason.traits.counts_savings and not asked_approval.refused
        for host in asked_approval.hosts
    )


def needed_by_waiting(situation: Situation) -> list[ManagedNode]:
    """Return the nodes that consolidation commands which wait for a person remove, and those that they move pods to.

    Other consolidation commands take no room on them, so that a person may approve all commands that wait.
    """
    return [
        node
        for node in situation.nodes
        if keeps_room_for_waiting(node, situation)
        or (
            (asked_approval := situation.approvals.get(node.claim)) is not None
            and asked_approval.reason.traits.counts_savings
            and not asked_approval.refused
        )
    ]


def is_asked_for(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Return whether a command for this reason waits for a person or was refused."""
    asked_approval = situation.approvals.get(node.claim)
    return asked_approval is not None and asked_approval.reason is reason


def why_asked(node: ManagedNode, situation: Situation) -> str:
    """Return what a person is asked or has answered about a node, in a clause."""
    asked_approval = situation.approvals[node.claim]
    if asked_approval.refused:
        return _refusal(asked_approval)
    return approval_text(asked_approval.reason.snake_case, asked_approval.command, asked_approval.since)


def _refusal(asked_approval: AskedApproval) -> str:
    until = f" until {time_text(asked_approval.until)}" if asked_approval.until is not None else ""
    return f"it is left alone{until}, because {asked_approval.refused} (command {asked_approval.command})"


def why_refused(open_commands: Mapping[str, OpenCommand]) -> dict[str, DisruptionBlocked]:
    """Return by NodeClaim why a refusal keeps it. One whose command waits for an answer is not among them."""
    return {
        claim: DisruptionBlocked(f"a command ({asked_approval.reason.snake_case}) removes it", _refusal(asked_approval))
        for claim, asked_approval in approvals_of(open_commands).items()
        if asked_approval.refused
    }


def refused_until(node: ManagedNode, situation: Situation) -> datetime | None:
    """Return when the refusal of a command for a node is over; None if the command waits for an answer."""
    return situation.approvals[node.claim].until


def waiting_since(approvals: Mapping[str, AskedApproval]) -> dict[tuple[str, Reason], list[datetime]]:
    """Return by NodePool and reason since when each command has waited for a person."""
    since = {
        (asked_approval.pool, asked_approval.reason, asked_approval.command): asked_approval.since
        for asked_approval in approvals.values()
        if not asked_approval.refused
    }
    waiting: dict[tuple[str, Reason], list[datetime]] = {}
    for (pool, reason, _), at in since.items():
        waiting.setdefault((pool, reason), []).append(at)
    return waiting


def no_longer_wanted(
    open_commands: Mapping[str, OpenCommand], nodes: Iterable[ManagedNode], has_cause: Mapping[str, bool]
) -> list[str]:
    """Return the NodeClaims whose command waits for a person although nothing asks for it any more.

    ``has_cause``: by NodeClaim, whether the reason of its command holds. Consolidation also removes a node that became
    empty.
    """
    present = {node.claim: node for node in nodes}
    return sorted(
        claim
        for claim, entry in open_commands.items()
        if entry.awaits_approval
        and claim in present
        and not (has_cause[claim] or (entry.reason == Reason.UNDERUTILIZED and present[claim].empty))
    )


def _pools_of_waiting(approvals: Mapping[str, AskedApproval]) -> dict[str, set[str]]:
    """Return the NodePools of each waiting command."""
    pools: dict[str, set[str]] = {}
    for claim, asked_approval in approvals.items():
        if not asked_approval.refused:
            pools.setdefault(asked_approval.command or claim, set()).add(asked_approval.pool)
    return pools


def _divided(command: Command, situation: Situation) -> Sequence[Command]:
    """Divide a command for empty nodes, each of which leaves or stays by itself, by the NodePools that ask."""
    asking_pools = _pools_with_rules(command, situation)
    if not (command.only_if_empty and asking_pools):
        return (command,)
    parts: dict[str, list[Candidate]] = {}
    for candidate in command.candidates:
        parts.setdefault(candidate.node.pool if candidate.node.pool in asking_pools else "", []).append(candidate)
    return [replace(command, candidates=tuple(candidates)) for _, candidates in sorted(parts.items())]


def _pools_with_rules(command: Command, situation: Situation) -> set[str]:
    pools = {candidate.node.pool for candidate in command.candidates}
    return {pool for pool in pools if _rule(situation.policies[pool], command.reason) is not None}


def _asking_pools(command: Command, situation: Situation) -> list[str]:
    """Return the NodePools for which the command waits."""
    asking_pools = _pools_with_rules(command, situation)
    if not asking_pools:
        return []
    nodes, cpu = len(command.candidates), lost_cpu(command, situation)
    return sorted(
        pool
        for pool in asking_pools
        if (rule := _rule(situation.policies[pool], command.reason)) is not None and rule.applies(nodes, cpu)
    )


def lost_cpu(command: Command, situation: Situation) -> int:
    """Return how many millicores of allocatable CPU the cluster loses, with the smallest types of the new nodes."""
    leaving = sum(candidate.node.cpu for candidate in command.candidates)
    model = situation.model
    if model is None or not command.new_claims:
        return leaving
    pools = {pool.name: pool for pool in model.problem.pools} | dict(model.static_pools)
    gained = 0
    for claim in command.new_claims:
        allowed = set(claim.instance_types)
        types = pools[claim.pool].instance_types if claim.pool in pools else ()
        gained += min((item.allocatable.get(CPU, 0) for item in types if item.name in allowed), default=0)
    return leaving - gained
