"""Disruption commands as messages: to the command's workflow, and from there to each node's workflow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.apis.noderepairpolicy import BUILT_IN
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.pod_mark import pod_mark
from tenon.disruption.decision import Command
from tenon.disruption.history.arrivals import arriving, counted, times_moved
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.repair.decision import RepairDecision
from tenon.kube.pod import Pod
from tenon.messages.command_approval import AwaitsApproval
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    RepairCause,
    Replacement,
)
from tenon.messages.terminate_first import IntendedReplacement, TerminatesFirst
from tenon.scheduling.reservations import reservation_of


def new_command_id(command: Command, at: datetime | None = None) -> str:
    """Return the command's ID, from its nodes and why they leave.

    ``at``: when the command was decided, for commands that may fail. The same nodes may get another command later, for
    which the nodes' workflows must not repeat their earlier answer.
    """
    names = [f"{candidate.node.uid}@{candidate.since.isoformat()}" for candidate in command.candidates]
    text = "/".join([*names, at.isoformat()] if at is not None else names)
    return f"{command.reason.snake_case}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def to_message(
    command: Command,
    *,
    ident: str = "",
    replacements: Sequence[Replacement] = (),
    details: Mapping[str, NodeDetail] | None = None,
    arrivals: Mapping[str, Mapping[str, int]] | None = None,
    arriving_workloads: Mapping[str, Mapping[str, int]] | None = None,
) -> DisruptionCommand:
    """Return the command's message.

    Args:
        command: the command.
        ident: its ID; by default `new_command_id`, so that a retry is not a second command.
        replacements: the NodeClaims of its replacements.
        details: by NodeClaim, what is known of its nodes, if it moves pods. It has each of them, and may have more.
        arrivals: what `arrivals_of` says.
        arriving_workloads: what `pods_sent` says.
    """
    claims = [candidate.node.claim for candidate in command.candidates]
    own_details = {} if details is None else {claim: details[claim] for claim in claims}
    candidates = [
        DisruptionCandidate(
            claim=candidate.node.claim,
            uid=candidate.node.uid,
            pool=candidate.node.pool,
            since=candidate.since,
            pods=[pod_mark(pod.uid) for pod in detail.pods] if detail is not None else [],
            price=detail.price if detail is not None else 0.0,
            node=candidate.node.node,
        )
        for candidate in command.candidates
        for detail in (own_details.get(candidate.node.claim),)
    ]
    # An unhealthy node must leave although a Deployment cannot start its new pod first.
    waits_for_surge = command.reason is not Reason.UNHEALTHY
    return DisruptionCommand(
        id=ident or new_command_id(command),
        reason=command.reason,
        candidates=candidates,
        only_if_empty=command.only_if_empty,
        moves_pods=command.moves_pods,
        graceful=command.graceful,
        consolidation_type=command.consolidation_type,
        replacements=list(replacements),
        predicted=round(command.expected, 6),
        pods=sum(len(detail.pods) for detail in own_details.values()),
        existing_nodes=sum(map(bool, command.destinations.values())),
        surge=sorted({key for detail in own_details.values() for key in detail.surges}) if waits_for_surge else [],
        explanation=list(command.explanation),
        arrivals={claim: dict(times) for claim, times in (arrivals or {}).items()},
        arriving_workloads={claim: dict(pods) for claim, pods in (arriving_workloads or {}).items()},
        decision=command.decision,
        repair=_cause(command.repair) if command.repair is not None else None,
        terminate_first=_terminates_first(command),
        approval=_approval(command),
    )


def _approval(command: Command) -> AwaitsApproval | None:
    within = command.approve_within
    return None if within is None else AwaitsApproval(seconds=within.total_seconds())


def _cause(decision: RepairDecision) -> RepairCause:
    condition, bound = decision.fault.condition, decision.drain_bound
    return RepairCause(
        condition=condition.type,
        status=condition.status,
        reason=condition.reason,
        drain_seconds=None if bound is None else bound.total_seconds(),
        policy=decision.fault.policy.name or BUILT_IN,
    )


def _terminates_first(command: Command) -> TerminatesFirst | None:
    if command.terminate_first is None:
        return None
    intended = [
        IntendedReplacement(pool=claim.pool, reservation=reservation_of(claim), workloads=counted(claim.pods))
        for claim in command.terminate_first.intended
    ]
    return TerminatesFirst(reason=command.terminate_first.reason, intended=intended)


def arrivals_of(
    command: Command, model: ClusterModel, replacements: Sequence[str], now: datetime
) -> dict[str, dict[str, int]]:
    """Return which pods arrive where, by NodeClaim, as `Arrival` has them.

    ``replacements``: the names of the NodeClaims of the command's replacements, in their order.
    """
    moved_before = {
        pod.key: times_moved(pod, candidate.node.arrivals, now)[0]
        for candidate in command.candidates
        if candidate.node.arrivals
        for pod in model.details[candidate.node.claim].pods
    }
    arriving_pods = _arriving_at(command, model, replacements)
    return {claim: arriving(pods, moved_before) for claim, pods in arriving_pods.items()}


def pods_sent(command: Command, model: ClusterModel, replacements: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many pods of each workload go where, by NodeClaim, for the same arrivals."""
    return {claim: counted(pods) for claim, pods in _arriving_at(command, model, replacements).items()}


def _arriving_at(command: Command, model: ClusterModel, replacements: Sequence[str]) -> dict[str, tuple[Pod, ...]]:
    claim_of = {detail.node: claim for claim, detail in model.details.items()} if command.destinations else {}
    pods_by_replacement = {name: planned.pods for name, planned in zip(replacements, command.replacements, strict=True)}
    pods_by_replacement |= {claim_of[node]: pods for node, pods in command.destinations.items() if node in claim_of}
    return {claim: pods for claim, pods in pods_by_replacement.items() if pods}
