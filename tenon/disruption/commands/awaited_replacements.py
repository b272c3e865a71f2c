"""Decides when a command is over whose node left before its replacement started, and what its page says meanwhile.

The command waits until what replaces the node runs, until no pod needs it, or until `GIVEN_UP_AFTER` is over. So long
budgets count the node, because it is away for the workload. This module is all that the command's workflow knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tenon.messages.awaited_replacements import AwaitedReplacement, FoundReplacements
from tenon.messages.disruption import DisruptionCommand
from tenon.messages.terminate_first import TerminateFirstReason, TerminatesFirst
from tenon.sentences import counted, first_few, lasting

GIVEN_UP_AFTER = timedelta(minutes=30)
"""How long after the node is gone its replacement may take. A NodeClaim has 15 minutes to register."""
GIVEN_UP_PAUSE = timedelta(hours=1)
"""How long budgets still count a node whose replacement never came, so that a NodePool does not lose one after
another."""
LISTED_FOR = timedelta(minutes=75)
"""How long budgets count the node after the last report of its command, in case an operator terminates that."""
REPORT_EVERY = timedelta(minutes=10)
CHECK_AGAIN = timedelta(seconds=15)
"""The first pause between two checks once the node is gone. It is short, because the next node of the budget waits."""
SHARE_OF_WAIT = 8
"""A pause is an eighth of the wait so far, if that is longer: 31 checks in half an hour, none much too late."""
LONGEST_PAUSE = timedelta(minutes=10)
"""The longest pause while the node still drains, which may take days. A signal ends it when the node is gone."""


class ReplacementOutcome(StrEnum):
    """How the wait for a replacement ended; the values of a metric's label."""

    REPLACED = "replaced"
    UNNEEDED = "unneeded"
    """All pods of the node run elsewhere."""
    GIVEN_UP = "given_up"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ReplacementCheck:
    """What a check for the replacement says."""

    outcome: ReplacementOutcome | None
    """None while the command goes on waiting."""
    text: str
    """What it waits for, or what became of the replacement, in a clause."""


def why_first(terminates_first: TerminatesFirst) -> str:
    """Return why a node leaves before its replacement starts, as a sentence for an event."""
    names = sorted({intended.reservation for intended in terminates_first.intended if intended.reservation})
    full = f"capacity reservation {', '.join(names)} is full"
    at_limit = "its static NodePool is at its node limit"
    why = at_limit if terminates_first.reason is TerminateFirstReason.STATIC_AT_LIMIT else full
    return f"It leaves before its replacement starts, because {why}"


def judge(
    command: DisruptionCommand, awaited: AwaitedReplacement, replacements: FoundReplacements, now: datetime
) -> ReplacementCheck:
    """Return what a check says.

    Args:
        command: the command, whose node leaves first.
        awaited: the state before the check. ``gone_at`` is set if the node is gone.
        replacements: what the check found.
        now: when it ended.
    """
    assert command.terminate_first is not None
    if awaited.gone_at is None:
        return ReplacementCheck(
            None, f"NodeClaim {', '.join(replacements.leaving)} is still leaving{_pods(replacements)}"
        )
    intended = command.terminate_first.intended
    took = lasting(now - awaited.gone_at)
    if len(replacements.running) >= len(intended):
        return ReplacementCheck(
            ReplacementOutcome.REPLACED, f"{_claims(replacements.running)} replaced it {took} after it was gone"
        )
    if awaited.idle_since is not None and now >= awaited.idle_since + CHECK_AGAIN and is_idle(command, replacements):
        return ReplacementCheck(ReplacementOutcome.UNNEEDED, "its pods run on other nodes, so it needs no replacement")
    where = _where(command)
    if now >= awaited.gone_at + GIVEN_UP_AFTER:
        return ReplacementCheck(
            ReplacementOutcome.GIVEN_UP, f"no replacement ran within {lasting(GIVEN_UP_AFTER)}: expected {where}"
        )
    if replacements.starting:
        name, waits = min(replacements.starting.items())
        return ReplacementCheck(None, f"waits for replacement {name}, which {waits}{_pods(replacements)}")
    return ReplacementCheck(None, f"waits for {where}{_pods(replacements)}")


def is_idle(command: DisruptionCommand, replacements: FoundReplacements) -> bool:
    """Return whether no pod needs the replacement now. A static NodePool has one whether or not pods need it."""
    assert command.terminate_first is not None
    follows_pods = any(intended.workloads for intended in command.terminate_first.intended)
    return follows_pods and not (replacements.leaving or replacements.waiting_pods or replacements.starting)


def pause_before(awaited: AwaitedReplacement, now: datetime) -> timedelta:
    """Return how long to wait before the next check, unless a signal says that something changed."""
    if awaited.gone_at is not None:
        return max(CHECK_AGAIN, (now - awaited.gone_at) / SHARE_OF_WAIT)
    doubled = 1 << min(awaited.checks, 6)
    return min(LONGEST_PAUSE, CHECK_AGAIN * doubled)


def _where(command: DisruptionCommand) -> str:
    assert command.terminate_first is not None
    places = [
        f"a node of NodePool {intended.pool}"
        + (f" in capacity reservation {intended.reservation}" if intended.reservation else "")
        for intended in command.terminate_first.intended
    ]
    return " and ".join(dict.fromkeys(places))


def _claims(names: list[str]) -> str:
    return f"NodeClaim{'s' if len(names) > 1 else ''} {first_few(sorted(names), 3)}"


def _pods(replacements: FoundReplacements) -> str:
    if not replacements.waiting_pods:
        return ""
    number = replacements.waiting_pods
    return f"; {counted(number, 'pod')} {'waits' if number == 1 else 'wait'} for a node"
