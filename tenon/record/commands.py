"""Makes the entries of a disruption command: when it starts, and when it has ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import camel_case
from tenon.kube.planned_pods import planned_pods
from tenon.messages.command_approval import Approval
from tenon.messages.disruption import DisruptionCommand, DisruptResult, Replacement
from tenon.record.entries import (
    MAX_LISTED,
    CommandApproval,
    CommandCandidate,
    CommandEndEntry,
    CommandEntry,
    RecordedPurchase,
)
from tenon.record.origin import Origin
from tenon.record.room import EntryRoom
from tenon.sentences import shortened

ACTOR = "disruption"
_TEXT = 2000


def command_entry(origin: Origin, at: datetime, command: DisruptionCommand, first_run: str) -> CommandEntry:
    """Return the entry of a command that starts.

    ``first_run``: the first run of its workflow. The same nodes may get the same command again after a refusal.
    """
    room = EntryRoom()
    return CommandEntry(
        id=f"command/{origin.cluster}/{command.id}/{first_run}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=ACTOR,
        command=command.id,
        reason=camel_case(command.reason),
        decision=command.decision,
        candidates=[
            CommandCandidate(claim=candidate.claim, pool=candidate.pool, node=candidate.node, price=candidate.price)
            for candidate in command.candidates[:MAX_LISTED]
        ],
        replacements=[_purchase(replacement, room) for replacement in command.replacements[:MAX_LISTED]],
        pods=command.pods,
        predicted=command.predicted,
        why=shortened("\n".join(command.explanation), _TEXT),
        approve_until=at + timedelta(seconds=command.approval.seconds) if command.approval is not None else None,
    )


def _purchase(replacement: Replacement, room: EntryRoom) -> RecordedPurchase:
    annotations = (replacement.body.get("metadata") or {}).get("annotations")
    pods = [pod.key for pod in planned_pods(annotations)]
    return RecordedPurchase(
        claim=replacement.name,
        pool=replacement.pool,
        instance_type=replacement.instance_type,
        price=replacement.price,
        pods=room.names(pods),
        pod_count=len(pods),
    )


def command_end_entry(
    origin: Origin,
    at: datetime,
    command: DisruptionCommand,
    first_run: str,
    result: DisruptResult,
    started: datetime,
) -> CommandEndEntry:
    """Return the entry of a command that has ended.

    Args:
        origin: the cluster, and the command's workflow.
        at: when it ended.
        command: the command as it was carried out, which may have other replacements than the one that started.
        first_run: the first run of its workflow.
        result: what became of it.
        started: when it started.
    """
    room = EntryRoom()
    leaving_claims = sorted({*result.accepted, *result.leaving})
    created = [] if result.failure else [replacement.name for replacement in command.replacements]
    return CommandEndEntry(
        id=f"command-end/{origin.cluster}/{command.id}/{first_run}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=ACTOR,
        command=command.id,
        reason=camel_case(command.reason),
        accepted=room.names(leaving_claims),
        refused=room.reasons({claim: why for claim, why in result.refused.items() if claim not in leaving_claims}),
        replacements=room.names([*created, *result.replaced_by]),
        outcome=shortened(result.replacement, _TEXT),
        failure=shortened(result.failure, _TEXT),
        predicted=result.saving.predicted if result.saving is not None else None,
        reached=result.saving.reached if result.saving is not None else None,
        seconds=round((at - started).total_seconds(), 3),
        approval=_approval(result.approval) if result.approval is not None else None,
    )


def _approval(approval: Approval) -> CommandApproval:
    return CommandApproval(
        answer=approval.answer.value,
        by=shortened(approval.by, _TEXT),
        reason=shortened(approval.reason, _TEXT),
        at=approval.at,
        seconds=round(approval.seconds, 3),
    )
