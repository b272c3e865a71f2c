"""Runs every disruption method and enforces the rules that apply to all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.disruption.methods import METHODS
from tenon.disruption.methods.base import Method
from tenon.disruption.model import Command, Decision, ManagedNode, Proposal, Situation, Verdict
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.disruption.rescheduling import after_commands
from tenon.errors import TenonError
from tenon.lifecycle.messages.disruption import LookCursor

Around = Callable[[Method], AbstractContextManager[object]]
"""Returns a context in which a method is evaluated. Callers measure the time with it, because `tenon` has no clock."""


def _nothing(_: Method) -> AbstractContextManager[object]:
    return nullcontext()


class IneligibleNodeError(TenonError):
    """A method named a node that may not be disrupted, or more nodes than the budgets allow."""


def decide(situation: Situation, methods: Sequence[Method] = METHODS, around: Around = _nothing) -> Decision:
    """Return the commands of all methods. If a method fails, the failure is reported and the others go on."""
    commands: list[Command] = []
    looks: list[datetime] = []
    failed: dict[str, Exception] = {}
    counts: Counter[Reason] = Counter()
    blocked: dict[str, str] = {}
    unconsolidatable: dict[str, str] = {}
    verdicts: list[Verdict] = []
    cursor: LookCursor | None = None
    is_cut = False
    for method in methods:
        try:
            with around(method):
                proposal = _proposal(method, situation)
        except Exception as error:  # a fault in one method must not stop the others
            failed[method.name] = error
            continue
        commands += proposal.commands
        counts[method.reason] += proposal.eligible
        blocked = {**proposal.blocked, **blocked}
        unconsolidatable |= proposal.unconsolidatable
        verdicts += proposal.verdicts
        cursor = proposal.cursor or cursor
        is_cut |= proposal.is_cut
        if proposal.failed is not None:
            failed[method.name] = proposal.failed
        if proposal.look_again is not None:
            looks.append(proposal.look_again)
        situation = _after(situation, proposal.commands)
    if Reason.DRIFTED in {method.reason for method in methods}:
        blocked = {**_protected(situation), **blocked}
    look_again = min(looks, default=None)
    found = tuple(commands)
    return Decision(found, look_again, failed, counts, blocked, unconsolidatable, tuple(verdicts), cursor, is_cut)


def eligible(situation: Situation, reason: Reason = Reason.UNDERUTILIZED) -> list[ManagedNode]:
    """Return the nodes that no rule about the node itself excludes (DIS-10, DIS-11), by name. Ignores their pods.

    Only a disruption gives way to what protects a node. Expiration removes it all the same (QRK-13).
    """
    may = _may_be_disrupted if reason.is_disruption else may_leave
    return sorted((node for node in situation.nodes if may(node, situation)), key=lambda node: node.claim)


def may_leave(node: ManagedNode, situation: Situation) -> bool:
    """Return whether a forceful command may take the node, whatever protects it."""
    return (
        node.pool in situation.policies
        and node.initialized
        and not node.leaving
        and not node.disrupted_by
        and node.claim not in situation.under_command
    )


def _may_be_disrupted(node: ManagedNode, situation: Situation) -> bool:
    return (
        may_leave(node, situation)
        and not node.protected_by
        and not node.replacement_for
        and node.claim not in situation.postponed
        and not node.named_in(situation.nominated)
    )


def _protected(situation: Situation) -> dict[str, str]:
    """Return the NodeClaims that drifted and that an annotation protects, each with a clause that says so (DIS-15)."""
    return {
        node.claim: f"its node drifted, but {node.protected_by} protects it"
        for node in situation.nodes
        if node.drifted and node.protected_by and may_leave(node, situation)
    }


def _after(situation: Situation, commands: Sequence[Command]) -> Situation:
    """Return the situation for the methods that choose after these commands.

    They take no node that the commands move pods to (DIS-62), and nothing that the commands use.
    """
    moves = [command for command in commands if command.moves_pods]
    model = situation.model
    return replace(
        situation,
        under_command=situation.under_command | _claims(commands),
        nominated=situation.nominated.union(*(command.destinations for command in moves)),
        model=after_commands(model, moves) if model is not None and moves else model,
    )


def why_held(situation: Situation) -> dict[str, str]:
    """Return why nodes stay that emptiness or consolidation would consider, each in a sentence for an event (DIS-15).

    It names nodes that an annotation protects, and empty nodes that a pod of a DaemonSet or a static pod keeps (DIS-11,
    DIS-13). What keeps nodes with pods, and drifted nodes, the methods that move pods say.
    """
    return {
        node.claim: why
        for node in situation.nodes
        if may_leave(node, situation) and not node.drifted and (why := _why_held(node, situation))
    }


def _why_held(node: ManagedNode, situation: Situation) -> str:
    after = situation.policies[node.pool].consolidate_after
    if after is None:
        return ""
    if node.protected_by:
        return f"Disruption is blocked through {node.protected_by}"
    is_due = node.empty and node.quiet_since is not None and node.quiet_since + after <= situation.now
    return f"It is empty, but {node.held_by}" if is_due and node.held_by else ""


def _proposal(method: Method, situation: Situation) -> Proposal:
    allowed = eligible(situation, method.reason)
    proposal = method.propose(allowed, _budgets(method, situation), situation)
    _check(method, proposal, allowed, _budgets(method, situation))
    return proposal


def _budgets(method: Method, situation: Situation) -> PoolBudgets:
    return PoolBudgets(situation, method.reason)


def _check(method: Method, proposal: Proposal, allowed: Iterable[ManagedNode], budgets: PoolBudgets) -> None:
    """Check that the method used only the nodes and budgets that it was given.

    Raises:
        IneligibleNodeError: it used more.
    """
    left = {node.claim for node in allowed}
    for candidate in (candidate for command in proposal.commands for candidate in command.candidates):
        name = candidate.node.claim
        if name not in left:
            raise IneligibleNodeError(f"method {method.name} named NodeClaim {name}, which may not be disrupted")
        left.discard(name)
        if not budgets.take(candidate.node.pool):
            pool = candidate.node.pool
            raise IneligibleNodeError(f"method {method.name} took more nodes of NodePool {pool} than its budgets allow")


def _claims(commands: Iterable[Command]) -> frozenset[str]:
    return frozenset(candidate.node.claim for command in commands for candidate in command.candidates)
