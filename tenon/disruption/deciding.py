"""Runs every disruption method and enforces the rules that apply to all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.disruption.decision import BalancedVerdict, Command, Decision, DisruptionBlocked, Proposal
from tenon.disruption.methods import METHODS
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.drift import BLOCKED_AFTER
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.approvals import with_approvals, with_asked
from tenon.disruption.rules.blockers import free_at, holds, is_free, may_be_reported, reported
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.rescheduling import after_commands
from tenon.disruption.situation import Situation
from tenon.errors import TenonError
from tenon.messages.disruption import PassCursor

MAX_COMMANDS = 50
"""How many commands of one pass start. Each is validated on the whole cluster, and the next pass finds the others. By
then, kube-scheduler has put pods of the first ones on nodes that should have left too, so the limit is not lower."""
MethodReport = Callable[[int, Sequence[Command]], None]
"""Receives the number of nodes from which a method could choose, and its commands."""
MethodContext = Callable[[Method], AbstractContextManager[MethodReport]]
"""Returns a context in which a method is evaluated. Callers measure the time with it, because `tenon` has no clock."""


def report_nothing(_eligible_count: int, _commands: Sequence[Command]) -> None:
    """For callers that need no figures of the methods."""


@contextmanager
def _nothing(_: Method) -> Iterator[MethodReport]:
    yield report_nothing


class IneligibleNodeError(TenonError):
    """A method named a node that may not be disrupted, or more nodes than the budgets allow."""


def decide(situation: Situation, methods: Sequence[Method] = METHODS, context: MethodContext = _nothing) -> Decision:
    """Return the commands of all methods. If a method fails, the failure is reported and the others go on."""
    commands: list[Command] = []
    next_passes: list[datetime] = []
    failed: dict[str, Exception] = {}
    counts: Counter[Reason] = Counter()
    blocked: dict[str, DisruptionBlocked] = {}
    unconsolidatable: dict[str, str] = {}
    verdicts: list[BalancedVerdict] = []
    cursor: PassCursor | None = None
    is_cut = False
    for method in methods:
        try:
            with context(method) as report:
                proposal, eligible_count = _proposal(method, situation)
                report(eligible_count, proposal.commands)
        except Exception as error:  # a fault in one method must not stop the others
            failed[method.name] = error
            continue
        proposed_commands = with_approvals(proposal.commands, situation)
        commands += proposed_commands
        counts[method.reason] += eligible_count
        blocked = {**proposal.blocked, **blocked}
        unconsolidatable |= proposal.unconsolidatable
        verdicts += proposal.verdicts
        cursor = proposal.cursor or cursor
        is_cut |= proposal.is_cut
        if proposal.failed is not None:
            failed[method.name] = proposal.failed
        if proposal.next_pass is not None:
            next_passes.append(proposal.next_pass)
        situation = _after(situation, proposed_commands)
    return Decision(
        commands=tuple(commands),
        next_pass=min(next_passes, default=None),
        failed=failed,
        eligible=counts,
        blocked=blocked,
        unconsolidatable=unconsolidatable,
        verdicts=tuple(verdicts),
        cursor=cursor,
        is_cut=is_cut,
    )


def eligible(situation: Situation, reason: Reason) -> list[ManagedNode]:
    """Return the nodes that nothing keeps from being removed for a reason, by name, whether or not one wants to."""
    free = (node for node in situation.nodes if is_free(node, situation, reason))
    return sorted(free, key=lambda node: node.claim)


def _after(situation: Situation, commands: Sequence[Command]) -> Situation:
    """Return the situation for the methods that choose after these commands.

    They take no node that the commands move pods to (DIS-62), and nothing that the commands use. Commands that wait for
    a person use nothing yet.
    """
    situation = with_asked(situation, (command for command in commands if command.approve_within is not None))
    commands = [command for command in commands if command.approve_within is None]
    moves = [command for command in commands if command.moves_pods]
    model = situation.model
    return replace(
        situation,
        under_command=situation.under_command | _claims(commands),
        nominated=situation.nominated.union(*(command.destinations for command in moves)),
        model=after_commands(model, moves) if model is not None and moves else model,
    )


def why_nodes_stay(situation: Situation) -> dict[str, str]:
    """Return why nodes stay that emptiness or consolidation would consider, each in a sentence for an event (DIS-15).

    It names nodes that an annotation protects, and empty nodes that a pod of a DaemonSet or a static pod keeps (DIS-11,
    DIS-13). What keeps nodes with pods, and drifted nodes, `decide` says with the methods that move pods.
    """
    sentences = {}
    for node in situation.nodes:
        if node.drifted or not may_be_reported(node, situation, Reason.EMPTY):
            continue
        keeping = holds(node, situation, Reason.EMPTY)
        if (first := reported(keeping)) is None or keeping[-1].blocker.is_final:
            continue
        if first.blocker.is_about_node:
            sentences[node.claim] = f"Disruption is blocked: {first.event}"
        elif first.blocker.graceful_only and all(hold.until is None for hold in keeping if hold is not first):
            sentences[node.claim] = f"It is empty, but {first.event}"
    return sentences


def _proposal(method: Method, situation: Situation) -> tuple[Proposal, int]:
    """Return what a method proposes, with what the table says of the other nodes; and how many nodes it chose from."""
    allowed: list[ManagedNode] = []
    later: list[datetime] = []
    blocked: dict[str, DisruptionBlocked] = {}
    unconsolidatable: dict[str, str] = {}
    moves_pods = method.reason.traits.moves_pods
    for node in sorted(situation.nodes, key=lambda node: node.claim):
        if not (cause := method.cause(node, situation)):
            continue
        due = free_at(node, situation, method.reason)
        if due == situation.now:
            allowed.append(node)
            continue
        if due is not None:
            later.append(due)
        if not moves_pods or (first := reported(holds(node, situation, method.reason))) is None:
            continue  # `why_nodes_stay` says it of empty nodes
        if not method.reason.traits.is_consolidation:
            blocked[node.claim] = DisruptionBlocked(cause, first.event)
            later.append(situation.now + BLOCKED_AFTER)
        elif not first.blocker.is_about_node:  # `why_nodes_stay` says it
            unconsolidatable[node.claim] = first.event
    proposal = method.propose(allowed, _budgets(method, situation), situation)
    _check(method, proposal, allowed, _budgets(method, situation))
    next_passes = [*later, *([proposal.next_pass] if proposal.next_pass is not None else ())]
    proposal = replace(
        proposal,
        next_pass=min(next_passes, default=None),
        blocked={**blocked, **proposal.blocked},
        unconsolidatable={**unconsolidatable, **proposal.unconsolidatable},
    )
    return proposal, len(allowed)


def _budgets(method: Method, situation: Situation) -> PoolBudgets:
    return PoolBudgets(situation, method.reason)


def _check(method: Method, proposal: Proposal, allowed: Iterable[ManagedNode], budgets: PoolBudgets) -> None:
    """Check that the method used only the nodes and budgets that it was given.

    Raises:
        IneligibleNodeError: it used more.
    """
    allowed_claims = {node.claim for node in allowed}
    for candidate in (candidate for command in proposal.commands for candidate in command.candidates):
        name = candidate.node.claim
        if name not in allowed_claims:
            raise IneligibleNodeError(f"method {method.name} named NodeClaim {name}, which may not be disrupted")
        allowed_claims.discard(name)
        if not budgets.take_for(candidate.node):
            pool = candidate.node.pool
            raise IneligibleNodeError(f"method {method.name} took more nodes of NodePool {pool} than its budgets allow")


def _claims(commands: Iterable[Command]) -> frozenset[str]:
    return frozenset(candidate.node.claim for command in commands for candidate in command.candidates)
