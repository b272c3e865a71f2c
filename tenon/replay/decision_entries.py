"""Says of a disruption decision what the record keeps, and what a replay compares."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from tenon.apis.reasons import Reason, camel_case
from tenon.disruption.deciding import why_nodes_stay
from tenon.disruption.decision import Command, Decision
from tenon.disruption.rules.blockers import is_free
from tenon.disruption.situation import Situation
from tenon.provisioning.plan_digest import TYPES
from tenon.record.entries import DecidedCommand, DisruptionEntry
from tenon.record.kept_inputs import NOT_KEPT, KeptInputs
from tenon.record.origin import Origin
from tenon.record.room import EntryRoom


def decision_digest(commands: Sequence[Command]) -> str:
    """Return a short hash of what a decision removes and buys."""
    text = repr(
        sorted(
            (
                command.reason.camel_case,
                command.decision,
                claims_of(command),
                [(planned.pool, tuple(planned.instance_types[:TYPES])) for planned in command.new_claims],
            )
            for command in commands
        )
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def claims_of(command: Command) -> list[str]:
    """Return the NodeClaims that a command removes or reboots, sorted."""
    return sorted(candidate.node.claim for candidate in command.candidates)


def saving_of(commands: Sequence[Command]) -> float:
    """Return how many dollars an hour the commands are to save."""
    return round(sum(command.expected for command in commands), 6)


def must_go(commands: Sequence[Command]) -> int:
    """Return how many nodes leave for another reason than to save money."""
    return sum(len(command.candidates) for command in commands if not command.reason.traits.is_consolidation)


def refused(decision: Decision, situation: Situation) -> dict[str, str]:
    """Return which nodes a rule keeps, and which rule, by NodeClaim."""
    if situation.model is None:
        return why_nodes_stay(situation)
    refusals = {
        node.claim: decision.unconsolidatable[node.claim]
        for node in situation.nodes
        if node.claim in decision.unconsolidatable and not is_free(node, situation, Reason.UNDERUTILIZED)
    }
    chosen_claims = {claim for command in decision.commands for claim in claims_of(command)}
    blocked = {claim: str(why) for claim, why in decision.blocked.items()}
    reasons = {**why_nodes_stay(situation), **refusals, **blocked}
    return {claim: why for claim, why in sorted(reasons.items()) if claim not in chosen_claims}


def disruption_entry(
    origin: Origin,
    at: datetime,
    decision: Decision,
    refusals: dict[str, str],
    inputs: KeptInputs = NOT_KEPT,
) -> DisruptionEntry:
    """Return the entry of a decision. ``refusals``: what `refused` says of it; ``inputs``: where its inputs are."""
    room = EntryRoom()
    return DisruptionEntry(
        id=f"disruption/{origin.run}/{at.isoformat()}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor="disruption",
        inputs=inputs.digest,
        inputs_lacking=inputs.lacking,
        decision=decision_digest(decision.commands),
        commands=[_command(command, room) for command in decision.commands[:TYPES]],
        command_count=len(decision.commands),
        node_count=sum(len(command.candidates) for command in decision.commands),
        must_go_count=must_go(decision.commands),
        saving=saving_of(decision.commands),
        refused=room.reasons(refusals),
        refused_count=len(refusals),
    )


def _command(command: Command, room: EntryRoom) -> DecidedCommand:
    return DecidedCommand(
        reason=camel_case(command.reason),
        decision=command.decision,
        claims=room.names(claims_of(command)),
        bought=room.names(f"{planned.offering.instance_type} of {planned.pool}" for planned in command.new_claims),
        saving=round(command.expected, 6),
    )
