"""Decides when a disruption command no longer holds a node, so that budgets count the node as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.disruption import ApprovedReport, AwaitedReport, DisruptionCommand, OpenCommand

if TYPE_CHECKING:  # workflows import this module, and the process that runs them does not load the scheduling engine
    from tenon.disruption.nodes import ManagedNode

GRACE_PERIOD = timedelta(seconds=30)
"""How long after its due time a node that accepted its command has started to leave."""
PREPARED_WITHIN = timedelta(minutes=3)
"""How long after its start a command that moves pods has marked its candidates, unless it ended."""


def claims_of_finished_commands(
    open_commands: Mapping[str, OpenCommand], nodes: Sequence[ManagedNode], now: datetime
) -> list[str]:
    """Return NodeClaims whose command is over: they are gone, or did not leave although they were due.

    The command of a node that left first is not over when the node is gone, but when its replacement runs.
    """
    present = {node.claim: node for node in nodes}
    return sorted(
        claim
        for claim, entry in open_commands.items()
        if (_is_over(entry, present[claim], now) if claim in present else not _awaits(entry))
    )


def without_postponed_since(
    claims: Iterable[str], polled_commands: Mapping[str, OpenCommand], open_commands: Mapping[str, OpenCommand]
) -> list[str]:
    """Return these NodeClaims without those whose command has failed since the planner said that it is over.

    A command that fails gives up its nodes before it reports that they are to be left alone, so the planner may see a
    command that is over. ``polled_commands``: the open commands of which it said so.
    """
    return [
        claim
        for claim in claims
        if (entry := open_commands.get(claim)) is None or not entry.postponed or entry == polled_commands.get(claim)
    ]


def only_waits(
    open_commands: Mapping[str, OpenCommand], finished_claims: Collection[str], present: Collection[str]
) -> bool:
    """Return whether the last nodes of commands are gone, and nothing is under way for others.

    The disruption workflow then hears of it at once: its page is right, and its next call may wait longer.
    """
    rest = commands_without(open_commands, finished_claims)
    are_gone = any(claim not in present for claim in finished_claims)
    return are_gone and all(entry.is_idle for entry in rest.values())


def awaiting_replacement(open_commands: Mapping[str, OpenCommand]) -> dict[str, str]:
    """Return the NodeClaims that leave, or left, before their replacement runs, with their NodePool."""
    return {claim: entry.pool for claim, entry in open_commands.items() if _awaits(entry)}


def _awaits(entry: OpenCommand) -> bool:
    return entry.awaits_replacement and not entry.postponed and not entry.awaits_approval


def still_awaiting(
    open_commands: Mapping[str, OpenCommand], report: AwaitedReport, now: datetime
) -> dict[str, OpenCommand]:
    """Return the open commands with those of a report, which may have been forgotten."""
    until = now + timedelta(seconds=report.seconds)
    reported = {
        claim: evolve(entry, until=until, hosts=[] if report.candidates_gone else entry.hosts)
        if (entry := open_commands.get(claim)) is not None and entry.command == report.command
        else OpenCommand(
            command=report.command,
            reason=report.reason,
            pool=pool,
            until=until,
            since=now,
            awaits_replacement=True,
        )
        for claim, pool in report.pools.items()
    }
    return {**open_commands, **reported}


def claims_of(open_commands: Mapping[str, OpenCommand], *, postponed: bool) -> frozenset[str]:
    """Return the NodeClaims that an open command removes; with ``postponed``, those whose command failed instead.

    Those whose command waits for a person, or was refused by one, are neither: `tenon.disruption.rules.approvals` has
    them.
    """
    return frozenset(
        claim for claim, entry in open_commands.items() if entry.postponed is postponed and not entry.is_idle
    )


def opened(command: DisruptionCommand, since: datetime, until: datetime) -> dict[str, OpenCommand]:
    """Return the entries of a command that starts, by NodeClaim. ``until``: when they are dropped at the latest."""
    return {
        candidate.claim: OpenCommand(
            command=command.id,
            reason=command.reason,
            pool=candidate.pool,
            until=until,
            due=None if command.moves_pods or command.approval is not None else since,
            since=since,
            hosts=[] if position else sorted(command.arrivals),
            awaits_replacement=command.terminate_first is not None,
            awaits_approval=command.approval is not None,
        )
        for position, candidate in enumerate(command.candidates)
    }


def with_approved(
    open_commands: Mapping[str, OpenCommand], report: ApprovedReport, now: datetime, until: datetime
) -> dict[str, OpenCommand]:
    """Return the open commands with one that a person approved and that starts now. Its other nodes are free again."""
    own = {claim: entry for claim, entry in open_commands.items() if entry.command == report.command}
    started = {
        claim: evolve(entry, awaits_approval=False, since=now, until=until, due=None if report.moves_pods else now)
        for claim, entry in own.items()
        if claim in report.claims
    }
    return {**commands_without(open_commands, own.keys() - started.keys()), **started}


def with_ended(open_commands: Mapping[str, OpenCommand], command: str) -> dict[str, OpenCommand]:
    """Return the open commands after the workflow of one has ended.

    One that waits for a person ends without an answer only if an operator terminated it: nothing holds its nodes.
    """
    return {
        claim: evolve(entry, ended=True) if entry.command == command else entry
        for claim, entry in open_commands.items()
        if entry.command != command or not entry.awaits_approval
    }


def hosts_of(open_commands: Mapping[str, OpenCommand]) -> frozenset[str]:
    """Return the NodeClaims that open commands move pods to (DIS-62). No other command removes them meanwhile.

    A command is open while one of its nodes has not refused it.
    """
    still_open = {entry.command for entry in open_commands.values() if not (entry.postponed or entry.awaits_approval)}
    return frozenset(host for entry in open_commands.values() if entry.command in still_open for host in entry.hosts)


def commands_without(open_commands: Mapping[str, OpenCommand], claims: Collection[str]) -> dict[str, OpenCommand]:
    """Return the open commands without these NodeClaims.

    Only one entry of a command names the nodes that its pods move to, because there may be many. If it goes while the
    command has others, one of these names them from now on.
    """
    remaining_commands = {claim: entry for claim, entry in open_commands.items() if claim not in claims}
    for command in (open_commands[claim] for claim in sorted(claims) if claim in open_commands):
        heir = min(
            (claim for claim, entry in remaining_commands.items() if entry.command == command.command), default=None
        )
        if command.hosts and heir is not None:
            remaining_commands[heir] = evolve(
                remaining_commands[heir], hosts=sorted({*remaining_commands[heir].hosts, *command.hosts})
            )
    return remaining_commands


def stale_commands(before: Mapping[str, OpenCommand], after: Mapping[str, OpenCommand]) -> dict[str, str]:
    """Return the commands that wait for a person and have lost nodes, each with why, in a clause.

    One for empty nodes waits as long as one of them is left. Others are about all of their nodes.
    """
    lost: dict[str, list[str]] = {}
    for claim, entry in sorted(before.items()):
        present = after.get(claim)
        if entry.awaits_approval and (present is None or present.command != entry.command):
            lost.setdefault(entry.command, []).append(claim)
    remaining = {entry.command for entry in after.values() if entry.reason == Reason.EMPTY}
    return {
        command: f"NodeClaim {claims[0]} is gone, leaves, or does not need it any more"
        for command, claims in lost.items()
        if command not in remaining
    }


def _is_over(entry: OpenCommand, node: ManagedNode, now: datetime) -> bool:
    if entry.awaits_approval:
        return node.leaving
    if node.leaving:
        return False
    if entry.due is not None:
        return now > entry.due + (timedelta() if entry.postponed else GRACE_PERIOD)
    # A command that moves pods marks its candidates. If it was terminated, the mark is removed.
    return now > entry.since + PREPARED_WITHIN and node.disrupted_by != entry.command
